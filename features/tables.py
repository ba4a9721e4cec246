"""The contract: the tables that flow between rooms, what they hold, and how they fail.

The error tree; the number is the exit code of a command that ends with it::

    ForeshockError          1   something unexpected
    |-- UsageError          2   a wrong option or setting
    |-- InputError          3   input that can't be used
    |   `-- SchemaError     3   a table that breaks this contract
    |-- ModelError          4   a bundle that is corrupt or does not fit
    |-- UpstreamError       5   a server that can't be reached or refuses
    `-- BusyError          75   another run holds the lock

Rules that hold for every table: times are UTC and never naive (``datetime64[ns, UTC]`` in frames,
int64 nanoseconds since 1970 in arrays); windows are ``[start, end)``; what is missing is NaN, never 0;
``node`` is the canonical host name; a GPU is keyed by (node, UUID), its PCI address is ``dddd:bb:dd``.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TIME_DTYPE = "datetime64[ns, UTC]"


class ForeshockError(Exception):
    """Whatever foreshock says to its user in one line; ``exit_code`` is the command's."""

    exit_code = 1


class UsageError(ForeshockError):
    """A wrong option or setting."""

    exit_code = 2


class InputError(ForeshockError):
    """Input that can't be used."""

    exit_code = 3


class SchemaError(InputError):
    """A table that breaks the contract."""


class ModelError(ForeshockError):
    """A bundle that is corrupt or does not fit."""

    exit_code = 4


class UpstreamError(ForeshockError):
    """A server that can't be reached or refuses."""

    exit_code = 5


class BusyError(ForeshockError):
    """Another run holds the lock."""

    exit_code = 75


class Series(NamedTuple):
    """What one row of a panel measures: a metric with its labels, on a GPU (its UUID) or on the node ("")."""

    metric: str
    gpu: str = ""


@dataclass(frozen=True)
class Panel:
    """Samples of one node on a regular grid.

    Attributes
    ----------
    node
        Canonical host name.
    times
        int64 [T], start of each cell in nanoseconds since 1970; a cell is ``[t, t + step)`` and holds
        the last sample in it.
    series
        S rows' identities.
    values
        float64 [S, T]; NaN where the cell holds no sample.
    """

    node: str
    times: NDArray[np.int64]
    series: tuple[Series, ...]
    values: NDArray[np.float64]

    def __post_init__(self) -> None:
        want = (len(self.series), len(self.times))
        if self.values.shape != want:
            raise SchemaError(f"panel of {self.node}: wanted values of shape {want}, found {self.values.shape}")

    def between(self, start: int, end: int) -> Panel:
        """The same series over ``[start, end)``, in nanoseconds."""
        low, high = np.searchsorted(self.times, [start, end])
        return Panel(self.node, self.times[low:high], self.series, self.values[:, low:high])


@dataclass(frozen=True)
class Matrix:
    """One row per window, ready for a model.

    Attributes
    ----------
    windows
        Frame of `WINDOWS`, in the rows' order.
    X
        float32 frame indexed by (node, end); columns follow the grammar of `features.names`.
    labels
        Frame of `LABELS` aligned with the rows; empty when nothing is known.
    """

    windows: pd.DataFrame
    X: pd.DataFrame
    labels: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class Table:
    """A frame's columns with their dtypes, and the columns that identify a row."""

    name: str
    columns: dict[str, str]
    key: tuple[str, ...]

    def empty(self) -> pd.DataFrame:
        """A frame with no rows and the right dtypes."""
        return self._nothing.copy()

    @cached_property
    def _nothing(self) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in self.columns.items()})


LOGS = Table(
    "logs",
    {
        "node": "str",
        "time": TIME_DTYPE,
        "source": "str",  # syslog identifier, unit or container; "kernel" for the kernel's own
        "severity": "str",  # emerg..debug, "" when the export does not say
        "message": "str",
        "kernel": "bool",  # True only when the export says that the kernel wrote it
        "count": "int64",  # "message repeated N times" folded
    },
    ("node", "time", "source", "message"),
)
EVENTS = Table(
    "events",
    {
        "node": "str",
        "pci": "str",  # dddd:bb:dd, "" unknown
        "time": TIME_DTYPE,
        "last": TIME_DTYPE,  # last repeat of the same line folded into this event; equal to time when one
        "xid": "Int64",  # <NA> for a switch error (SXid) without an Xid
        "gpu": "str",  # UUID, "" unknown
        "origin": "str",  # log | gauge | absence
        "severity": "str",  # Fatal | Nonfatal | ""
        "detail": "str",
        "mig": "str",  # "gi=1 ci=2", "" without
        "link": "Int64",
        "count": "int64",
        "kind": "str",  # hardware | degradation | application | metadata | switch | unknown
    },
    (),
)
FAILURES = Table(
    "failures",
    {
        "failure": "str",  # "20260104T101500Z-node03": stable from one ingest to the next
        "time": TIME_DTYPE,  # first line: the label's time
        "end": TIME_DTYPE,  # last line
        "node": "str",
        "nodes": "object",  # every node touched, first the one that began
        "gpu": "str",
        "pci": "str",
        "xid": "Int64",
        "xids": "object",  # every code seen in it, ascending
        "kind": "str",
        "severity": "str",
        "count": "int64",
        "origin": "str",  # log | gauge | absence | given, joined by "+"
        "recovery_action": "str",
        "evidence": "str",
    },
    ("failure",),
)
SESSIONS = Table(
    "sessions",
    {
        "job": "str",
        "attempt": "int64",
        "started": TIME_DTYPE,
        "ended": TIME_DTYPE,  # NaT while running or unknown
        "outcome": "str",
        "nodes": "object",
        "excluded": "object",
    },
    ("job", "attempt"),
)
GPUS = Table(
    "gpus", {"node": "str", "gpu": "str", "pci": "str", "first": TIME_DTYPE, "last": TIME_DTYPE}, ("node", "gpu")
)
WINDOWS = Table("windows", {"window": "int64", "node": "str", "start": TIME_DTYPE, "end": TIME_DTYPE}, ("window",))
LABELS = Table("labels", {"label": "float32", "failure": "str", "lead_seconds": "float64"}, ())
PREDICTIONS = Table(
    "predictions",
    {"model": "str", "window": "int64", "fold": "int64", "node": "str", "end": TIME_DTYPE, "score": "float64"},
    ("model", "window"),
)
ALERTS = Table(
    "alerts",
    {
        "alert": "str",
        "node": "str",
        "gpu": "str",
        "start": TIME_DTYPE,
        "last": TIME_DTYPE,
        "score": "float64",
        "threshold": "float64",
        "reasons": "object",
    },
    ("alert",),
)


def check(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The frame itself, when it keeps the table's contract; more columns than asked are fine.

    Raises
    ------
    SchemaError
        A column is missing or of another dtype, or two rows share a key.
    """
    missing = [name for name in table.columns if name not in frame.columns]
    if missing:
        raise SchemaError(
            f"{table.name}: wanted columns {reprlib.repr(missing)}, found {reprlib.repr(list(frame.columns))}"
        )
    for name, dtype in table.columns.items():
        actual = str(frame[name].dtype)
        if actual != dtype:
            raise SchemaError(f"{table.name}: column {name} is {actual}, wanted {dtype}; convert it where it is read")
    if table.key:
        twice = frame.duplicated(list(table.key))
        if twice.any():
            row = frame.loc[twice, list(table.key)].iloc[0].to_dict()
            raise SchemaError(f"{table.name}: {int(twice.sum())} rows repeat a key, the first is {reprlib.repr(row)}")
    return frame


def conform(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """A copy with the table's columns first, in its order and dtypes; a missing column is filled with blanks."""
    blank = {"str": "", "int64": 0, "bool": False, "object": None}
    out = {}
    for name, dtype in table.columns.items():
        column = frame[name] if name in frame.columns else pd.Series([blank.get(dtype)] * len(frame), index=frame.index)
        if dtype == "str":
            column = column.fillna("")
        out[name] = column.astype(dtype)  # type: ignore[call-overload]  # the dtype is data here
    rest = {name: frame[name] for name in frame.columns if name not in out}
    return pd.DataFrame({**out, **rest}, index=frame.index).reset_index(drop=True)


def to_ns(time: pd.Timestamp | str) -> int:
    """Nanoseconds since 1970 of a zoned time."""
    stamp = pd.Timestamp(time)
    if stamp.tzinfo is None:
        raise SchemaError(f"time {time} has no zone; write it as ISO 8601 with one, e.g. {stamp.isoformat()}Z")
    return int(stamp.tz_convert("UTC").as_unit("ns").value)


def to_time(ns: int) -> pd.Timestamp:
    """The UTC time of nanoseconds since 1970."""
    return pd.Timestamp(ns, unit="ns", tz="UTC")
