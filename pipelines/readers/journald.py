"""``journalctl -o json``: one object a line, all values text, bytes as lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from pipelines.readers import objects
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.tally import Tally

_NAMES: dict[str | None, str] = {str(number): name for number, name in enumerate(objects.SEVERITIES)}
_MESSAGE, _TIME, _HOST = itemgetter("MESSAGE"), itemgetter("__REALTIME_TIMESTAMP"), itemgetter("_HOSTNAME")
_LATEST = 4_102_444_800_000_000_000  # 2100-01-01
_AT_ONCE = 100  # entries that stay in the processor's cache until their fields are taken
_ALL = "some messages are null: journalctl leaves out long fields; export with 'journalctl --all -o json'"


def read(batches: Iterable[list[str]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each batch; an entry without message, host or time is rejected by that reason."""
    for lines in batches:
        yield _rows([_unwrap(line) for line in lines] if lines[0].startswith("data:") else lines, context, tally)


def _rows(lines: list[str], context: LogContext, tally: Tally) -> Rows:
    out = Rows([], [], [], [], [], [])
    for start in range(0, len(lines), _AT_ONCE):
        documents = objects.parse(lines[start : start + _AT_ONCE], tally)
        try:
            messages, times, nodes = (list(map(field, documents)) for field in (_MESSAGE, _TIME, _HOST))
            usual = {*map(type, messages), *map(type, times), *map(type, nodes)} <= {str} and "" not in nodes
            usual = usual and len(max(times, key=len, default="")) <= 16
            stamps: list[int] = [int(time) * 1000 for time in times] if usual else []
            usual = usual and max(stamps, default=0) < _LATEST
        except (KeyError, ValueError):
            usual = False
        if not usual:
            documents, messages, stamps, nodes = _usable(documents, context, tally)
        out.nodes.extend(nodes)
        out.times.extend(stamps)
        out.sources.extend(_sources(documents))
        out.severities.extend([_NAMES.get(value, "") for value in _column(documents, "PRIORITY")])
        out.messages.extend(messages)
        transports, identifiers = _column(documents, "_TRANSPORT"), _column(documents, "SYSLOG_IDENTIFIER")
        out.kernel.extend(
            [(transport or tag) == "kernel" for transport, tag in zip(transports, identifiers, strict=True)]
        )
    return out


def _usable(
    documents: list[dict[str, Any]], context: LogContext, tally: Tally
) -> tuple[list[dict[str, Any]], list[str], list[int], list[str]]:
    """The entries with message, time and host, and those three; the others are counted by what they lack."""
    kept = []
    rows = zip(
        documents, _column(documents, "MESSAGE"), _times(documents), _column(documents, "_HOSTNAME"), strict=True
    )
    for document, message, time, host in rows:
        node = host or context.node
        if reason := _reason(document, message, time, node):
            tally.reject(reason)
        else:
            kept.append((document, message or "", time or 0, node))
    if tally.rejected["message_null"]:
        tally.hint(_ALL)
    return (
        [row[0] for row in kept],
        [row[1] for row in kept],
        [row[2] for row in kept],
        [row[3] for row in kept],
    )


def _column(documents: list[dict[str, Any]], name: str) -> list[str | None]:
    values = [document.get(name) for document in documents]
    if set(map(type, values)) <= {str, type(None)}:
        return values
    return [objects.text(value) for value in values]


def _times(documents: list[dict[str, Any]]) -> list[int | None]:
    values = _column(documents, "__REALTIME_TIMESTAMP")
    spare = _column(documents, "_SOURCE_REALTIME_TIMESTAMP")
    texts = [value if _is_number(value) else other for value, other in zip(values, spare, strict=True)]
    return [int(value) * 1000 if value is not None and _is_number(value) else None for value in texts]


def _is_number(value: str | None) -> bool:
    return (
        value is not None and value.isascii() and value.isdigit() and len(value) <= 16 and int(value) * 1000 < _LATEST
    )


def _sources(documents: list[dict[str, Any]]) -> list[str]:
    names = [
        document.get("SYSLOG_IDENTIFIER") or document.get("_SYSTEMD_UNIT") or document.get("_COMM") or ""
        for document in documents
    ]
    if set(map(type, names)) <= {str}:
        return names
    return [objects.text(name) or "" for name in names]


def _reason(document: dict[str, Any], message: str | None, time: int | None, node: str | None) -> str:
    if message is None:
        return "message_null" if "MESSAGE" in document else "message_missing"
    if time is None:
        return "no time"
    return "" if node else "no host"


def _unwrap(line: str) -> str:
    """``journalctl -o json-sse`` puts a word before each object."""
    return line.removeprefix("data:").strip()
