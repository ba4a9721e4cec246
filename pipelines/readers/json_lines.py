"""Log lines as JSON objects of shippers: Loki's logcli, Vector, Fluent Bit, Elasticsearch, and their like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from features.xid import pci
from pipelines.readers import objects, stamps
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.tally import Tally

# The first of each that a record holds is taken; a dot steps into an object unless the flat key is there
TIMES = (
    "@timestamp", "timestamp", "time", "date", "ts", "_timestamp", "__REALTIME_TIMESTAMP", "datetime", "eventTime",
)  # fmt: skip
MESSAGES = ("message", "line", "log", "msg", "MESSAGE", "body", "text", "short_message", "event.original")
HOSTS = (
    "node", "nodename", "node_name", "kubernetes_node", "kubernetes.node_name", "kubernetes.node.name",
    "kubernetes.pod_node_name", "kubernetes.host", "host.name", "host.hostname", "hostname", "host", "_HOSTNAME",
    "agent.hostname", "beat.hostname", "source_host", "instance",
)  # fmt: skip
SOURCES = (
    "SYSLOG_IDENTIFIER", "syslog_identifier", "syslog.identifier", "identifier", "ident", "appname", "app", "program",
    "process.name", "source", "unit", "_SYSTEMD_UNIT", "systemd_unit", "systemd.unit", "kubernetes.container_name",
    "kubernetes.container.name", "container", "container_name", "service", "service_name", "logger", "source_type",
)  # fmt: skip
LEVELS = ("severity", "PRIORITY", "priority", "level", "log.level", "detected_level", "syslog.severity", "level_name")
TRANSPORTS = ("_TRANSPORT", "transport", "journald.transport", "syslog.facility", "facility", "SYSLOG_FACILITY")
# What watchers of NVML's events call a code and the GPU it is of
CODES = ("xid", "Xid", "XID", "xid_code", "xidCode", "xid_error", "xidError")
_ADDRESSES = ("pci", "pci_bus_id", "pciBusId", "busId", "bus_id", "pci.bus_id", "pciBusID", "pci_address", "PCI")
_UUIDS = ("uuid", "UUID", "gpu_uuid", "gpuUUID", "gpuUuid", "GPU_UUID", "deviceUUID", "device_uuid", "gpu.uuid", "gpu")
_UUID = re.compile(r"GPU-[0-9a-fA-F-]{4,40}")
_LABELS = ("labels", "stream", "fields", "attributes", "resource")  # objects whose keys count as the record's own
_KERNEL = frozenset({"kernel", "kern", "dmesg", "kmsg", "kern.log", "0"})
_TRANSPORTED = _KERNEL | {"journal", "syslog", "stdout"}
# logcli and Loki's API give this many lines unless told otherwise
_USUAL_LIMITS = frozenset({30, 100, 1000, 5000})


class _Paths(NamedTuple):
    """Where records of one shape keep each thing, best first."""

    time: tuple[str, ...]
    message: tuple[str, ...]
    host: tuple[str, ...]
    source: tuple[str, ...]
    level: tuple[str, ...]
    transport: tuple[str, ...]


def read(batches: Iterable[list[str]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each batch; a record without message, time or host is rejected by that reason."""
    shapes: dict[tuple[str, ...], _Paths] = {}
    labelled = False
    for lines in batches:
        documents = objects.parse(lines, tally)
        labelled = labelled or any("labels" in document for document in documents[:10])
        yield rows(documents, context, tally, shapes)
    if labelled:
        hint_limit(tally)


def hint_limit(tally: Tally) -> None:
    """Warn when the export holds just as many lines as Loki gives by default."""
    if tally.read in _USUAL_LIMITS:
        tally.hint(f"exactly {tally.read} lines: that is a default limit of Loki; export again with a higher --limit")


def rows(
    documents: list[dict[str, Any]],
    context: LogContext,
    tally: Tally,
    shapes: dict[tuple[str, ...], _Paths] | None = None,
) -> Rows:
    """Rows of parsed records, in their order."""
    shapes = {} if shapes is None else shapes
    if (plain := _plain_rows(documents, context, tally)) is not None:
        return plain
    raw: list[object] = []
    told: list[tuple[str, str, str, str, bool]] = []
    for document in documents:
        flat = _flatten(document)
        shape = tuple(flat)
        if shape not in shapes:
            if len(shapes) > 1000:  # records that name their keys anew each time
                shapes.clear()
            shapes[shape] = _paths(flat)
        paths = shapes[shape]
        message = _first(flat, paths.message)
        event = _event(flat, message)
        message = event or message
        host = _first(flat, paths.host) or context.node
        reason = "no message" if message is None else "no time" if not paths.time else "no host" if not host else ""
        if reason or message is None:
            tally.reject(reason)
            continue
        raw.append(flat[paths.time[0]])
        source = (_first(flat, paths.source) or "").rsplit("/", 1)[-1]  # a unit or the name of a log file
        transport = _first(flat, paths.transport)
        kernel = event is not None or (transport if transport in _TRANSPORTED else source) in _KERNEL
        severity = objects.severity(flat[paths.level[0]]) if paths.level else ""
        told.append((host, "kernel" if kernel else source, severity, message.removesuffix("\n"), kernel))
    nodes, sources, severities, messages, kernels = zip(*told, strict=True) if told else ((), (), (), (), ())
    return Rows.of(nodes, _stamps(raw, context, tally), sources, severities, messages, kernels)


def _plain_rows(documents: list[dict[str, Any]], context: LogContext, tally: Tally) -> Rows | None:
    """Rows column by column, when all records have the same keys and plain text under them; else None."""
    if not documents or len(set(map(tuple, documents))) != 1 or documents[0].keys() & {"_TRANSPORT", *CODES}:
        return None
    paths = _paths(documents[0])
    if not (paths.time and paths.message and paths.host) or paths.transport:
        return None
    names = [paths.time[0], paths.message[0], paths.host[0], *paths.source[:1]]
    columns = [[document[name] for document in documents] for name in names]
    if any(set(map(type, column)) != {str} or "" in column for column in columns):
        return None
    raw, messages, hosts = columns[:3]
    sources = columns[3] if paths.source else [""] * len(raw)
    kept = {source: source.rsplit("/", 1)[-1] for source in set(sources)}
    kernel = {source: name in _KERNEL for source, name in kept.items()}
    kept = {source: "kernel" if kernel[source] else name for source, name in kept.items()}
    levels = [document[paths.level[0]] for document in documents] if paths.level else [""] * len(raw)
    return Rows.of(
        nodes=hosts,
        times=_stamps(raw, context, tally),
        sources=[kept[source] for source in sources],
        severities=[objects.severity(level) for level in levels] if paths.level else levels,
        messages=[message.removesuffix("\n") for message in messages],
        kernel=[kernel[source] for source in sources],
    )


def _event(flat: dict[str, object], message: str | None) -> str | None:
    """The line that the driver would write of an event told in fields; None for no event.

    Beside the code stands a PCI address, or the GPU's UUID in its place. A code alone is none: databases call their
    transactions xid too.
    """
    code = next((found for name in CODES if name in flat and (found := objects.text(flat[name]))), "")
    if not (code.isascii() and code.isdigit() and len(code) <= 5) or (message and "Xid (" in message):
        return None
    address = next((found for name in _ADDRESSES if (found := pci(objects.text(flat.get(name)) or ""))), "")
    uuid = next((found for name in _UUIDS if _UUID.fullmatch(found := objects.text(flat.get(name)) or "")), "")
    place = f"PCI:{address}" if address else uuid
    return f"NVRM: Xid ({place}): {code}{f', {message}' if message else ''}" if place else None


def _flatten(document: dict[str, Any]) -> dict[str, object]:
    """One level of keys: ``host.name`` for nested objects, labels under their own names."""
    if not any(type(value) is dict for value in document.values()):
        return document
    flat: dict[str, object] = {}
    for key, value in document.items():
        if type(value) is dict:
            prefix = "" if key in _LABELS else f"{key}."
            for inner, deep in value.items():
                if type(deep) is dict:
                    flat |= {f"{prefix}{inner}.{last}": found for last, found in deep.items()}
                else:
                    flat.setdefault(prefix + inner, deep)
        else:
            flat[key] = value
    return flat


def _paths(flat: dict[str, object]) -> _Paths:
    names = (TIMES, MESSAGES, HOSTS, SOURCES, LEVELS, TRANSPORTS)
    return _Paths(*(tuple(name for name in group if name in flat) for group in names))


def _first(flat: dict[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = flat[name]
        if type(value) is str:
            if value:
                return value
        elif (found := objects.text(value)) is not None:
            return found
    return None


def _stamps(raw: Sequence[object], context: LogContext, tally: Tally) -> list[int]:
    texts = [value if isinstance(value, str) else objects.text(value) or "" for value in raw]
    plain = bool(texts) and not texts[0][:5].isdigit()  # 2026- is a year, 17672 the start of a number
    numbers = [None if plain else _epoch(text) for text in texts]
    if None not in numbers:
        return [number or 0 for number in numbers]
    written: list[int] = stamps.iso_many(texts, context, tally).tolist()
    if plain and stamps.UNREADABLE in written:
        numbers = [_epoch(text) for text in texts]
    return [spare if number is None else number for number, spare in zip(numbers, written, strict=True)]


def _epoch(text: str) -> int | None:
    """Nanoseconds from seconds, milliseconds, microseconds or nanoseconds since 1970, told by their size."""
    whole, _, fraction = text.partition(".")
    if not (whole.isascii() and whole.isdigit() and len(whole) <= 19):
        return None
    places = 9 if len(whole) <= 11 else 6 if len(whole) <= 14 else 3 if len(whole) <= 17 else 0
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        return None
    part = int(fraction[:places].ljust(places, "0")) if places and fraction else 0
    stamp = int(whole) * 10**places + part
    return stamp if stamp < 2**63 else None
