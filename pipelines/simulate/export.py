"""Writers of the export: VictoriaMetrics lines, journald lines, sessions, truth; same input, same bytes."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
from numpy.typing import NDArray

from pipelines.simulate.cluster import Node
from pipelines.simulate.series import Mask, Presence, Row, gpu_labels, target_labels

BLOCK = 720  # samples a line; also keeps a line's repeated timestamps within gzip's 32 KiB window
HUGE = 9e18  # DCGM's blanks do not fit an int64


@contextmanager
def packed(path: Path) -> Iterator[BinaryIO]:
    """A gzip file without a name and a time in it."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as stream:
        yield stream  # type: ignore[misc]  # GzipFile writes bytes


class MetricWriter:
    """Writes one node-day of series; lines are cut where labels change and every `BLOCK` samples."""

    def __init__(
        self,
        stream: BinaryIO,
        node: Node,
        stamps: NDArray[np.int64],
        seen: Presence,
        pods: list[str],
        places: NDArray[np.int64],
    ) -> None:
        self.stream = stream
        self.node = node
        self.stamps = stamps  # [T] milliseconds
        self.masks: dict[tuple[str, int], Mask] = {("node", -1): seen.ok["node"]}
        self.masks["up_node", -1], self.masks["up_dcgm", -1] = seen.up["node"], seen.up["dcgm"]
        for card in node.gpus:
            self.masks["dcgm", card.index] = seen.ok["dcgm"] & ~seen.gone[card.index]
        self.pods = pods  # [T] the pod that holds the GPUs, "" for none
        self.places = places  # [G, T] the GPU's number
        self.pieces: dict[tuple[str, int], list[tuple[slice, NDArray[np.int64], bytes, bytes]]] = {}
        self.samples = 0

    def write(self, row: Row) -> None:
        """One series, as one or more lines."""
        key = (row.target, row.gpu)
        if key not in self.pieces:
            self.pieces[key] = list(self._cut(*key))
        values = np.round(row.values, row.digits)
        if row.digits == 0 and values.max(initial=0) < HUGE:
            values = values.astype(np.int64)
        own = orjson.dumps({"__name__": row.name, **row.labels})[:-1]
        out = []
        for part, index, labels, stamps in self.pieces[key]:
            body = orjson.dumps(values[part][index], option=orjson.OPT_SERIALIZE_NUMPY)
            out += [b'{"metric":', own, labels, b',"values":', body, b',"timestamps":', stamps, b"}\n"]
            self.samples += len(index)
        self.stream.write(b"".join(out))

    def _cut(self, target: str, gpu: int) -> Iterator[tuple[slice, NDArray[np.int64], bytes, bytes]]:
        """The stretches of one exporter's (or GPU's) lines: cells, those with samples, labels, timestamps."""
        mask = self.masks[target, gpu]
        edges = set(range(0, len(mask), BLOCK)) | {len(mask)}
        if gpu >= 0:
            edges |= {k for k in range(1, len(mask)) if self.pods[k] != self.pods[k - 1]}
            edges |= {int(k) + 1 for k in np.flatnonzero(np.diff(self.places[gpu]))}
        ordered = sorted(edges)
        for low, high in pairwise(ordered):
            index = np.flatnonzero(mask[low:high])
            if not len(index):
                continue
            if gpu >= 0:
                labels = gpu_labels(self.node, gpu, int(self.places[gpu, low]), self.pods[low])
            else:
                labels = target_labels(self.node, target.removeprefix("up_"))
            stamps = orjson.dumps(np.ascontiguousarray(self.stamps[low:high][index]), option=orjson.OPT_SERIALIZE_NUMPY)
            yield slice(low, high), index, b"," + orjson.dumps(labels)[1:], stamps


def sessions(path: Path, lines: Iterable[tuple[str, int, str, str, str, str, str]]) -> None:
    """``sessions.csv``: nodes and excluded nodes joined by ``;``."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["job", "attempt", "started", "ended", "outcome", "nodes", "excluded"])
        writer.writerows(lines)


def truth(path: Path, content: dict[str, Any]) -> None:
    """``truth.json``: for the demo's summary and for tests, never for a model."""
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY))
