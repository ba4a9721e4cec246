"""Log exports that are one JSON document: Loki's HTTP API, and search responses or dumps of Elasticsearch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

import orjson

from features.tables import InputError
from pipelines.readers import json_lines, objects
from pipelines.readers.context import LogContext
from pipelines.readers.lines import BATCH_LINES, Rows
from pipelines.readers.tally import Tally

# Loki's API gives at most 5,000 lines a request and Elasticsearch 10,000 hits a page: this is far above both, and
# what a document is parsed into takes several times as much
LIMIT_BYTES = 64 << 20


def read_dump(batches: Iterable[list[str]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of an elasticdump: one ``{"_index": ..., "_source": {...}}`` a line."""
    for lines in batches:
        yield json_lines.rows([_source(document) for document in objects.parse(lines, tally)], context, tally)


def read_loki(stream: BinaryIO, context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of ``/loki/api/v1/query_range`` responses of streams."""
    for page in _pages(stream):
        data = page.get("data")
        results = data.get("result") if isinstance(data, dict) else None
        entries = [entry for item in results or [] if isinstance(item, dict) for entry in _entries(item)]
        yield from _rows(entries, context, tally)
    json_lines.hint_limit(tally)


def read_hits(stream: BinaryIO, context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of ``_search`` responses."""
    for page in _pages(stream):
        hits = page.get("hits")
        found = hits.get("hits") if isinstance(hits, dict) else None
        yield from _rows([_source(hit) if isinstance(hit, dict) else {} for hit in found or []], context, tally)


def _rows(entries: list[dict[str, Any]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    tally.read += len(entries)
    for start in range(0, len(entries), BATCH_LINES):
        yield json_lines.rows(entries[start : start + BATCH_LINES], context, tally)


def _pages(stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """The documents of a file: one over many lines, or one a line."""
    body = stream.read(LIMIT_BYTES + 1)
    if len(body) <= LIMIT_BYTES:
        with suppress(InputError):
            page = _page(body)
            body = b""
            if isinstance(page, dict):
                yield page
    while body:
        *lines, rest = body.split(b"\n")
        if len(rest) > LIMIT_BYTES:
            raise InputError(f"one JSON document over {LIMIT_BYTES >> 20} MiB; export in pages or as JSON lines")
        more = stream.read(LIMIT_BYTES + 1 - len(rest))
        for line in lines if more else [*lines, rest]:
            page = _page(line) if line.strip() else None
            if isinstance(page, dict):
                yield page
        body = rest + more if more else b""


def _page(line: bytes) -> Any:
    try:
        with objects.no_garbage_collection():
            return orjson.loads(line.decode("utf-8", "replace"))
    except orjson.JSONDecodeError as error:
        raise InputError(f"a JSON document that breaks off or is malformed: {error}") from error


def _entries(result: dict[str, Any]) -> Iterator[dict[str, Any]]:
    labels = result.get("stream")
    values = result.get("values")
    for value in values if isinstance(values, list) else []:
        if isinstance(value, list) and len(value) >= 2:
            yield {"labels": labels if isinstance(labels, dict) else {}, "timestamp": value[0], "line": value[1]}
        else:
            yield {}


def _source(hit: dict[str, Any]) -> dict[str, Any]:
    source = hit.get("_source", hit.get("fields"))
    return source if isinstance(source, dict) else {}
