"""What every metric reader hands on: chunks of one series' samples, all finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.readers.tally import Tally

EARLIEST_NS = 946_684_800_000_000_000  # 2000-01-01: an older clock was never set
LATEST_NS = 4_102_444_800_000_000_000  # 2100-01-01: beyond it the unit was mistaken


class SampleChunk(NamedTuple):
    """Some samples of one series.

    Attributes
    ----------
    labels
        As exported, with the metric's name under ``__name__``.
    times
        int64 [n], nanoseconds since 1970, in any order.
    values
        float64 [n], finite.
    """

    labels: Mapping[str, str]
    times: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class ReadContext:
    """What a file does not say about itself.

    Attributes
    ----------
    stem
        The file's name without folders and endings: the node of a wide file without a node column.
    timezone
        Zone of times that name none.
    latest_ns
        Samples after it come from a clock in the future.
    reference_ns
        Time of an exposition page without timestamps; None rejects those.
    label_names
        Column names of a wide file that are labels, not metrics.
    node_labels
        Those of them that name a node.
    csv_columns
        What the columns of a CSV without a header line are, as VictoriaMetrics' ``format`` names them.
    """

    stem: str = ""
    timezone: str = "UTC"
    latest_ns: int = LATEST_NS
    reference_ns: int | None = None
    label_names: frozenset[str] = frozenset()
    node_labels: frozenset[str] = frozenset({"node", "host", "hostname", "instance"})
    csv_columns: tuple[str, ...] = ()


def clean(
    labels: Mapping[str, str],
    times: NDArray[np.int64],
    values: NDArray[np.float64],
    tally: Tally,
    latest_ns: int = LATEST_NS,
) -> SampleChunk | None:
    """The chunk without what can't be used, each kind counted; None when nothing is left."""
    good = np.isfinite(values)
    if not good.all():
        tally.drop("nan", int(np.isnan(values).sum()))
        tally.drop("+inf", int((values == np.inf).sum()))
        tally.drop("-inf", int((values == -np.inf).sum()))
        times, values = times[good], values[good]
    if len(times) and (int(times.min()) < EARLIEST_NS or int(times.max()) > latest_ns):
        old, late = times < EARLIEST_NS, times > latest_ns
        tally.drop("time before 2000", int(old.sum()))
        tally.drop("time in the future", int(late.sum()))
        times, values = times[~(old | late)], values[~(old | late)]
    if not len(times):
        return None
    tally.keep(len(times))
    return SampleChunk(labels, times, values)
