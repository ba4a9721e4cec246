"""The command ``foreshock``: its commands, and how each ending becomes one line and an exit code."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from importlib.metadata import version as installed
from typing import Annotated

import typer

from features.tables import ForeshockError
from pipelines import console
from pipelines.commands import analyses, history, learning, live, settings

app = typer.Typer(
    name="foreshock",
    help="Learns from a GPU cluster's past XID failures and says ahead of time which node is about to fail.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
history.add_to(app)
learning.add_to(app)
live.add_to(app)
analyses.add_to(app)
settings.add_to(app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"foreshock {installed('foreshock')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Stand before every command."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every failure ends as one line on stderr and its exit code."""
    logging.captureWarnings(capture=True)
    try:
        code = app(arguments, standalone_mode=False)
    except ForeshockError as error:
        code = _fail(str(error), error.exit_code)
    except typer.Abort:
        code = 130
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader of stdout is gone; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except Exception as error:  # noqa: BLE001  # the last door: a user gets one line, not a traceback
        code = _unexpected(error)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"foreshock: error: {console.printable(console.discreet(' '.join(message.splitlines())))}\n")
    return code


def _unexpected(error: Exception) -> int:
    show = getattr(error, "show", None)
    if callable(show):  # the parser's own complaints: an unknown option, a missing argument
        show()
        return int(getattr(error, "exit_code", 2))
    if os.environ.get("FORESHOCK_TRACEBACK"):
        sys.stderr.write(console.discreet("".join(traceback.format_exception(error))))
    hint = "set FORESHOCK_TRACEBACK=1 for the traceback and please report it"
    return _fail(f"unexpected {type(error).__name__}: {error} ({hint})", 1)


if __name__ == "__main__":
    main()
