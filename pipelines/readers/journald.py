"""``journalctl -o json``: one object a line, all values text, bytes as lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pipelines.readers import objects
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.tally import Tally

_NAMES: dict[str | None, str] = {str(number): name for number, name in enumerate(objects.SEVERITIES)}
_FIELDS = (
    "MESSAGE", "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "_HOSTNAME", "PRIORITY", "_TRANSPORT",
    "SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "_COMM",
)  # fmt: skip
_ALL = "some messages are null: journalctl leaves out long fields; export with 'journalctl --all -o json'"


def read(batches: Iterable[list[str]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each batch; an entry without message, host or time is rejected by that reason."""
    for lines in batches:
        yield _rows([_unwrap(line) for line in lines] if lines[0].startswith("data:") else lines, context, tally)


def _rows(lines: list[str], context: LogContext, tally: Tally) -> Rows:
    documents = [
        {name: document[name] for name in _FIELDS if name in document} for document in objects.each(lines, tally)
    ]
    messages = _column(documents, "MESSAGE")
    times = _times(documents)
    nodes = _column(documents, "_HOSTNAME")
    if None in messages or None in times or (None in nodes and not context.node):
        keep = []
        for index, document in enumerate(documents):
            reason = _reason(document, messages[index], times[index], nodes[index] or context.node)
            tally.reject(reason, int(bool(reason)))
            keep += [] if reason else [index]
        if tally.rejected["message_null"]:
            tally.hint(_ALL)
        documents = [documents[index] for index in keep]
        messages, nodes = [messages[index] for index in keep], [nodes[index] for index in keep]
        times = [times[index] for index in keep]
    return Rows(
        nodes=[node or "" for node in nodes],
        times=[time or 0 for time in times],
        sources=_sources(documents),
        severities=[_NAMES.get(value, "") for value in _column(documents, "PRIORITY")],
        messages=[message or "" for message in messages],
        kernel=[
            (transport or identifier) == "kernel"
            for transport, identifier in zip(
                _column(documents, "_TRANSPORT"), _column(documents, "SYSLOG_IDENTIFIER"), strict=True
            )
        ],
    )


def _column(documents: list[dict[str, Any]], name: str) -> list[str | None]:
    values = [document.get(name) for document in documents]
    if set(map(type, values)) <= {str, type(None)}:
        return values
    return [objects.text(value) for value in values]


def _times(documents: list[dict[str, Any]]) -> list[int | None]:
    values = _column(documents, "__REALTIME_TIMESTAMP")
    try:
        return [int(value) * 1000 for value in values]  # type: ignore[arg-type]  # None goes to the careful way
    except (TypeError, ValueError):
        pass
    spare = _column(documents, "_SOURCE_REALTIME_TIMESTAMP")
    texts = [value if _is_number(value) else other for value, other in zip(values, spare, strict=True)]
    return [int(value) * 1000 if value is not None and _is_number(value) else None for value in texts]


def _is_number(value: str | None) -> bool:
    return value is not None and value.isascii() and value.isdigit() and len(value) <= 17


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
