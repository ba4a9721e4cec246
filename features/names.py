"""The grammar of the matrix's column names, which tsfresh, LightGBM and MLflow can all read.

``<metric>[.<step>...]__<calculator>``: the metric is escaped, a step says what was done over it
(``gpu_max``, ``gpu_min``, ``gpu_spread`` over the GPUs of a node; ``peer`` against its peers), the
calculator is tsfresh's own column part, e.g. ``DCGM_FI_DEV_GPU_TEMP.gpu_max.peer__linear_trend__attr_"slope"``.
What does not come from tsfresh is named the same way: ``presence.gpus_lost__value``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from features.tables import SchemaError

# The escape character is "-": MLflow's keys allow only word characters and "/ . - : space", and of these "." is
# our separator, ":" is refused by LightGBM (as are , " [ ] { }) and a space is changed by it. tsfresh splits at "__",
# so of several underscores only the first may stay, and none at the end.
_REFUSED = re.compile(r"[^A-Za-z0-9_/]|(?<=_)_|_\Z")
# A calculator part is tsfresh's own: its "__" and "." must stay.
_REFUSED_IN_PART = re.compile(r"[^A-Za-z0-9_/.]")
_ESCAPED = re.compile(r"(?:-[0-9A-F]{2})+")


class Name(NamedTuple):
    """A column split into its parts, the metric as it was called at the source."""

    metric: str
    steps: tuple[str, ...]
    calculator: str


@lru_cache(maxsize=100_000)
def escape(metric: str) -> str:
    """The metric as a tsfresh kind: ``a:b`` becomes ``a-3Ab``; no two metrics share one form."""
    return _REFUSED.sub(_encode, metric)


@lru_cache(maxsize=100_000)
def unescape(kind: str) -> str:
    """The metric that `escape` was given.

    Raises
    ------
    SchemaError
        `escape` never writes this.
    """
    try:
        metric = _ESCAPED.sub(_decode, kind)
    except UnicodeDecodeError:
        metric = ""
    if escape(metric) != kind:
        raise SchemaError(f"{kind!r} is no escaped metric name; names.escape makes one")
    return metric


@lru_cache(maxsize=100_000)
def column(metric: str, *steps: str, calculator: str = "value") -> str:
    """The name of one column; every part but the calculator is escaped here.

    Raises
    ------
    SchemaError
        The metric, a step or the calculator is empty.
    """
    if not (metric and all(steps) and calculator):
        raise SchemaError(f"a column needs a metric and a calculator, found {metric!r}, {steps!r}, {calculator!r}")
    return f"{'.'.join(map(escape, (metric, *steps)))}__{calculator}"


def split(name: str) -> Name:
    """The parts that `column` was given.

    Raises
    ------
    SchemaError
        The name does not follow the grammar.
    """
    kind, found, calculator = name.partition("__")
    if not (kind and found and calculator):
        raise SchemaError(f"column {name!r} does not follow <metric>[.<step>...]__<calculator>")
    metric, *steps = map(unescape, kind.split("."))
    return Name(metric, tuple(steps), calculator)


def original(name: str) -> str:
    """The column as people read it: the same parts, nothing escaped."""
    metric, steps, calculator = split(name)
    return f"{'.'.join((metric, *steps))}__{calculator}"


def kept(columns: Iterable[str], exclude: Sequence[str]) -> list[str]:
    """The columns in whose readable names none of the regular expressions is found, in their order."""
    if not exclude:
        return list(columns)
    refused = [re.compile(pattern) for pattern in exclude]
    return [name for name in columns if not any(pattern.search(original(name)) for pattern in refused)]


def plain(name: str) -> str:
    """The column with its calculator part escaped as well, for LightGBM, which refuses tsfresh's quotes."""
    kind, found, calculator = name.partition("__")
    return f"{kind}{found}{_REFUSED_IN_PART.sub(_encode, calculator)}"


def unplain(name: str) -> str:
    """The column that `plain` was given."""
    kind, found, calculator = name.partition("__")
    return f"{kind}{found}{_ESCAPED.sub(_decode, calculator)}"


def _encode(found: re.Match[str]) -> str:
    return "".join(f"-{byte:02X}" for byte in found[0].encode())


def _decode(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("-", "")).decode()
