"""What a person or a script sees: data on stdout, progress and logs on stderr."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import orjson
import pandas as pd

from features.tables import ForeshockError, UsageError, to_ns, to_time

log = logging.getLogger(__name__)

TELL_SECONDS = 30.0
_MOST_SHOWN = 8  # of a list in a table's cell; a job's abort names a hundred nodes


class _JsonLines(logging.Formatter):
    """One JSON object a line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": discreet(record.getMessage()),
        }
        return orjson.dumps(line).decode()


class _Text(logging.Formatter):
    """Plain lines; anything above info says its level."""

    def format(self, record: logging.LogRecord) -> str:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return f"foreshock: {level}{printable(discreet(record.getMessage()))}"


def configure(log_format: str = "text", quiet: bool = False) -> None:
    """Send foreshock's log lines to stderr; other libraries speak only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if log_format == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.ERROR)
    for floor in ("features", "models", "pipelines"):
        logging.getLogger(floor).setLevel(logging.ERROR if quiet else logging.INFO)


def discreet(text: str) -> str:
    """Text without any password of an address in it: other libraries' complaints may cite one."""
    return re.sub(r"://[^/\s]+@", "://***@", text)


def printable(text: str) -> str:
    """Text from a log or a file name, safe for a terminal: control characters become visible escapes."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in text)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (done, total): a bar on stderr when a person watches, else nothing."""
    if not sys.stderr.isatty() or logging.getLogger("pipelines").level > logging.INFO:
        yield lambda _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415  # start-up time that scripts need not pay
    from rich.progress import Progress  # noqa: PLC0415  # as above

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def telling(every: float = TELL_SECONDS) -> Iterator[Callable[[str], None]]:
    """A function to call with what is being done: one line that changes when a person watches, else some log lines.

    Parameters
    ----------
    every
        Seconds from one log line to the next, and from the beginning to the first.
    """
    if logging.getLogger("pipelines").level > logging.INFO:
        yield lambda _text: None
    elif sys.stderr.isatty():
        from rich.console import Console  # noqa: PLC0415  # start-up time that scripts need not pay
        from rich.text import Text  # noqa: PLC0415  # as above

        with Console(stderr=True).status("") as status:
            yield lambda text: status.update(Text(printable(discreet(text))))
    else:
        told = time.monotonic()

        def say(text: str) -> None:
            nonlocal told
            if time.monotonic() - told >= every:
                told = time.monotonic()
                log.info("%s", text)

        yield say


def _plain(value: object) -> object:
    """What JSON has no word for: times as ISO 8601 in UTC, missing as null."""
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")


def to_json(value: object) -> str:
    """JSON text with a newline: NaN and infinity are null."""
    return (
        orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode() + "\n"
    )


def records(frame: pd.DataFrame, columns: Iterable[str]) -> list[dict[str, object]]:
    """The frame's rows as dictionaries of JSON's own types."""
    picked = frame.loc[:, list(columns)]
    return [{str(key): _cell(value) for key, value in row.items()} for row in picked.to_dict("records")]


def _cell(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_cell(item) for item in value]
    if isinstance(value, pd.Timestamp):
        return _plain(value)
    missing = value is None or value is pd.NaT or value is pd.NA or (isinstance(value, float) and value != value)  # noqa: PLR0124  # NaN is the only value unlike itself
    return None if missing else value


def table(rows: list[dict[str, object]], columns: Iterable[str]) -> str:
    """Rows as aligned text for a person."""
    names = list(columns)
    cells = [[printable(_text(row.get(name))) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells), 0) for i, name in enumerate(names)]
    lines = [names, *cells]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        shown = [str(item) for item in value[:_MOST_SHOWN]]
        return ", ".join(shown) + (f" and {len(value) - len(shown)} more" if len(value) > len(shown) else "")
    if isinstance(value, pd.Timestamp):
        return str(_plain(value))
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("\n", " ")


def parse_time(text: str | None, option: str) -> pd.Timestamp | None:
    """An option's ISO 8601 time in UTC.

    Raises
    ------
    UsageError
        It is no time or has no zone.
    """
    if text is None:
        return None
    try:
        return to_time(to_ns(pd.Timestamp(text)))
    except (ValueError, ForeshockError) as error:
        raise UsageError(
            f"{option}: {text!r} is no ISO 8601 time with a zone; write one as 2026-01-31T10:00:00Z"
        ) from error
