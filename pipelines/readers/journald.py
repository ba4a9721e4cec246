"""``journalctl -o json``: one object a line, all values text, bytes as lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.readers import objects
from pipelines.readers.context import LogContext
from pipelines.readers.lines import USUAL, Rows, rows_of
from pipelines.readers.spans import severities, texts_at
from pipelines.readers.tally import Tally

_NAMES: dict[str | None, str] = {str(number): name for number, name in enumerate(objects.SEVERITIES)}
_LATEST = 4_102_444_800_000_000_000  # 2100-01-01
_ALL = "some messages are null: journalctl leaves out long fields; export with 'journalctl --all -o json'"


def read(blocks: Iterable[bytes], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each block; an entry without message, host or time is rejected by that reason."""
    return rows_of(blocks, _scan, partial(_told, context=context, tally=tally), tally)


def _scan(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[NDArray[np.uint8], Rows]:
    from pipelines.readers import journal_kernel  # noqa: PLC0415  # half a second that small files need not wait

    state, spans, times, severity, kernel = journal_kernel.scan(data, ends)
    usual = np.flatnonzero(state == USUAL)
    hosts, sources, messages = (texts_at(data, part[usual]) for part in spans)
    return state, Rows(hosts, times[usual], sources, severities(severity[usual]), messages, kernel[usual])


def _told(lines: list[str], context: LogContext, tally: Tally) -> tuple[Rows, list[int]]:
    """Rows of entries of any form, and which lines they are of."""
    found = objects.parse_each([_unwrap(line) for line in lines], tally)
    places = [place for place, document in enumerate(found) if document is not None]
    documents = [document for document in found if document is not None]
    messages, hosts = _column(documents, "MESSAGE"), _column(documents, "_HOSTNAME")
    stamps = _times(documents)
    kept = []
    for row, document in enumerate(documents):
        hosts[row] = hosts[row] or context.node
        if reason := _reason(document, messages[row], stamps[row], hosts[row]):
            tally.reject(reason)
        else:
            kept.append(row)
    if tally.rejected["message_null"]:
        tally.hint(_ALL)
    documents = [documents[row] for row in kept]
    rows = Rows.of(
        nodes=[hosts[row] or "" for row in kept],
        times=[stamps[row] or 0 for row in kept],
        sources=[_source(document) for document in documents],
        severities=[_NAMES.get(value, "") for value in _column(documents, "PRIORITY")],
        messages=[messages[row] or "" for row in kept],
        kernel=[
            (transport or tag) == "kernel"
            for transport, tag in zip(
                _column(documents, "_TRANSPORT"), _column(documents, "SYSLOG_IDENTIFIER"), strict=True
            )
        ],
    )
    return rows, [places[row] for row in kept]


def _column(documents: list[dict[str, Any]], name: str) -> list[str | None]:
    return [objects.text(document.get(name)) for document in documents]


def _times(documents: list[dict[str, Any]]) -> list[int | None]:
    values = _column(documents, "__REALTIME_TIMESTAMP")
    spare = _column(documents, "_SOURCE_REALTIME_TIMESTAMP")
    texts = [value if _is_number(value) else other for value, other in zip(values, spare, strict=True)]
    return [int(value) * 1000 if value is not None and _is_number(value) else None for value in texts]


def _is_number(value: str | None) -> bool:
    return (
        value is not None and value.isascii() and value.isdigit() and len(value) <= 16 and int(value) * 1000 < _LATEST
    )


def _source(document: dict[str, Any]) -> str:
    names = (document.get(name) for name in ("SYSLOG_IDENTIFIER", "_SYSTEMD_UNIT", "_COMM"))
    return next((text for name in names if (text := objects.text(name))), "")


def _reason(document: dict[str, Any], message: str | None, time: int | None, node: str | None) -> str:
    if message is None:
        return "message_null" if "MESSAGE" in document else "message_missing"
    if time is None:
        return "no time"
    return "" if node else "no host"


def _unwrap(line: str) -> str:
    """``journalctl -o json-sse`` puts a word before each object."""
    return line.removeprefix("data:").strip() if line.startswith("data:") else line
