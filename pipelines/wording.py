"""Columns of the matrix and their values as a person says them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from features import names, phase, siblings
from features.tables import SchemaError

_STEPS = {"gpu_max": "highest GPU", "gpu_min": "lowest GPU", "gpu_spread": "spread over GPUs", "peer": "against peers"}
_UNITS = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"))


class _Words(NamedTuple):
    """What a column of ours is called, and how its value is told."""

    name: str
    told: Callable[[float], str]


def _plain(value: float) -> str:
    return f"{value:.4g}"


def _span(seconds: float) -> str:
    """Seconds in the unit that fits."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _ago(value: float) -> str:
    """What the matrix holds as log(1 + seconds), a week when there was none."""
    seconds = math.expm1(value)
    return "a week or more" if seconds > 7 * 86_400 - 1 else _span(seconds)


def _counted(value: float) -> str:
    """What the matrix holds as log(1 + n)."""
    return f"{math.expm1(value):.0f}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _yes(value: float) -> str:
    return "yes" if value > 0 else "no"


def _state(value: float) -> str:
    return phase.STATES[int(value)] if 0 <= value < len(phase.STATES) else "changing"


_OWN = {
    "history": {
        "since_incident": _Words("time since the node's last incident", _ago),
        "incidents_7d": _Words("incidents of the node in 7 days", _counted),
        "since_event": _Words("time since the node's last XID", _ago),
        "events_7d": _Words("XIDs of the node in 7 days", _counted),
        "degradation_1h": _Words("remaps and contained errors in the last hour", _counted),
        "degradation_7d": _Words("remaps and contained errors in 7 days", _counted),
    },
    "logs": {
        "lines": _Words("log lines", _counted),
        "kernel_lines": _Words("log lines of the kernel", _counted),
        "error_lines": _Words("log lines of severity error", _counted),
        "distinct": _Words("kinds of log lines", _counted),
        "unknown": _Words("minutes with a log line never heard in quiet time", _counted),
        "node_new": _Words("kinds of log lines that are new on this node", _counted),
        "rarity_max": _Words("rarity of the rarest log line, in powers of ten", _plain),
        "rarity_sum": _Words("rarity of all log lines together, in powers of ten", _plain),
        "burst_max": _Words(
            "surprise of the log line said in most minutes, in powers of ten", lambda v: _plain(math.expm1(v))
        ),
        **{
            f"device_{name}": _Words(f"surprise of a log line {of}, in powers of ten", lambda v: _plain(math.expm1(v)))
            for name, of in (
                ("gpu", "of a GPU or its driver"),
                ("fabric", "of the fabric"),
                ("storage", "of disks or file servers"),
                ("memory", "of memory errors"),
                ("bus", "of the PCIe bus"),
                ("heat", "of heat or power supply"),
                ("waits", "of a kernel that waits"),
            )
        },
    },
    "phase": {
        "now": _Words("what the node does", _state),
        **{
            f"{state}_ratio": _Words(f"share of the window spent {state}", _share)
            for state in ("idle", "loading", "computing", "saving")
        },
        "mixed_ratio": _Words("share of the window in which its GPUs were neither busy nor idle", _share),
        "partly_ratio": _Words("share of the window in which only some of its GPUs worked", _share),
        "changes": _Words("changes of what the node does", _plain),
    },
    "presence": {
        "gpu_missing": _Words("GPUs that are gone while their exporter answers", _plain),
        "exporter_down": _Words("an exporter is down", _yes),
        "node_down": _Words("the node is down", _yes),
        "frozen": _Words("every GPU value stands still", _yes),
        "silent_seconds": _Words("time since the last sample", _span),
        "gpu_gap_seconds": _Words("longest time without a sample of some GPU", _span),
        "node_gap_seconds": _Words("longest time without a sample of the node", _span),
        "gpu_metrics_lost_ratio": _Words("share of a GPU's metrics gone from it alone", _share),
        "metrics_lost_ratio": _Words("share of the node's metrics that are gone", _share),
        "metrics_new_ratio": _Words("share of the node's metrics that are new", _share),
    },
}


def described(column: str) -> str:
    """A column in words: metric as exported, what was measured, over what."""
    own = _own(column)
    if own is not None:
        return own.name
    try:
        metric, steps, calculator = names.split(column)
    except SchemaError:
        return column
    if siblings.is_own(column):
        return f"{metric} (GPU in place {siblings.place_of(column)} against its siblings)"
    if calculator == "value" and steps:
        return f"{metric} {' '.join(steps)}".replace("_", " ")
    over = ", ".join(_STEPS.get(step, step) for step in steps)
    measured = calculator.partition("__")[0].replace("_", " ")
    return f"{metric} ({', '.join(part for part in (measured, over) if part)})"


def told(column: str, value: float) -> str:
    """A column's value in words."""
    if not math.isfinite(value):
        return "unknown"
    if siblings.is_own(column):
        return f"{100 * value:+.1f} %"
    own = _own(column)
    return _plain(value) if own is None else own.told(value)


def _own(column: str) -> _Words | None:
    """What is known of a column that foreshock itself makes."""
    try:
        metric, steps, calculator = names.split(column)
    except SchemaError:
        return None
    return _OWN.get(metric, {}).get(steps[0]) if len(steps) == 1 and calculator == "value" else None


def telling(reasons: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reasons a person can see as such: a value that is its peers' and its own usual explains nothing to him.

    A tree asks for such values on the way to others. Where there are no reasons but these, they stay.
    """
    every = list(reasons)
    kept = [one for one in every if not _usual(one)]
    return kept or every


def _usual(one: dict[str, Any]) -> bool:
    value, peers, usual = one["value"], one["peers"], one["usual"]
    if value is None:
        return False
    near = (other is None or math.isclose(value, other, rel_tol=0.05, abs_tol=1e-6) for other in (peers, usual))
    return all(near) and not (peers is None and usual is None)
