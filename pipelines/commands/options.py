"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, overload

import typer
from typer.core import TyperCommand

from features.settings import parse_duration
from features.tables import UsageError
from pipelines import config as configuration
from pipelines import console

StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="The Parquet store's folder.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file of settings.", metavar="FILE")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LogFormatOption = Annotated[str, typer.Option("--log-format", help="Of the lines on stderr: text or json.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Say only what is wrong.")]


class ManyValues(TyperCommand):
    """A command whose options that may be repeated take several values too, as a shell's ``*.json`` gives them.

    Only after the command's own argument: before it, what follows a value may be that.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click's, with each further value of such an option behind its name."""
        many = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        if args and not args[0].startswith("-"):
            args = list(_each_named(args, many))
        return super().parse_args(ctx, args)


def _each_named(args: list[str], many: set[str]) -> Iterator[str]:
    option, values = "", 0
    for arg in args:
        if arg.startswith("-"):
            option, values = arg, 0
        elif option in many:
            values += 1
            if values > 1:
                yield option
        yield arg


def start(config: Path | None, log_format: str, quiet: bool) -> configuration.Config:
    """Set up the log and read the settings: what every command does first.

    Raises
    ------
    UsageError
        A wrong option or setting.
    """
    if log_format not in {"text", "json"}:
        raise UsageError(f"--log-format: {log_format!r} is neither text nor json")
    console.configure(log_format, quiet)
    return configuration.load(config)


@overload
def duration(text: str, option: str) -> timedelta: ...
@overload
def duration(text: None, option: str) -> None: ...
@overload
def duration(text: str | None, option: str) -> timedelta | None: ...
def duration(text: str | None, option: str) -> timedelta | None:
    """An option's duration.

    Raises
    ------
    UsageError
        It is none.
    """
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def pairs(items: list[str] | None, option: str) -> dict[str, str]:
    """Options of the form K=V.

    Raises
    ------
    UsageError
        One has no ``=``.
    """
    found = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise UsageError(f"{option}: {item.split('=')[0]!r} is not of the form K=V")
        found[key.strip()] = value.strip()
    return found


def secrets(headers: dict[str, str], option: str) -> dict[str, str]:
    """Headers with ``@FILE`` in a value replaced by what the file holds: a command line is seen by everyone.

    Raises
    ------
    UsageError
        The file can't be read.
    """
    found = {}
    for name, value in headers.items():
        before, at, path = value.partition("@")
        if at and (not before or before.endswith(" ")):  # as in "Bearer @FILE"
            try:
                found[name] = before + Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"{option}: {path}, for {name}, can't be read: {error}") from error
        else:
            found[name] = value
    return found


def with_windows(settings: configuration.Config, window: str | None, stride: str | None) -> configuration.Config:
    """The settings with a command's own window and stride.

    Raises
    ------
    UsageError
        One is no duration.
    """
    said = {"length": duration(window, "--window"), "stride": duration(stride, "--stride")}
    windows = settings.features.window.model_copy(update={key: span for key, span in said.items() if span is not None})
    return settings.model_copy(update={"features": settings.features.model_copy(update={"window": windows})})
