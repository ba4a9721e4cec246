"""What training programs say in the log of their saves and loads, held beside what the metrics show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import to_ns, to_time

# A line's kind, whether it begins or ends it, the words, and whose words they are.
_WORDS: tuple[tuple[str, str, str, str], ...] = (
    (
        "save",
        "end",
        r"saved (the |model )?checkpoint|checkpoint (was )?saved|\[torch\] saved|finished saving the checkpoint",
        "Megatron-LM: successfully saved checkpoint from iteration 1000 to /ckpt; DeepSpeed: [Torch] Saved /ckpt/...",
    ),
    (
        "load",
        "end",
        r"loaded (the |model )?checkpoint|checkpoint loaded|restored all states|finished loading the checkpoint",
        "Megatron-LM: successfully loaded checkpoint from /ckpt; Lightning: Restored all states from the checkpoint at",
    ),
    (
        "save",
        "start",
        r"saving (a |the )?(full |model |model only )?checkpoint|\[torch\] saving",
        "Megatron-LM: saving checkpoint at iteration 1000 to /ckpt; Hugging Face: Saving model checkpoint to /ckpt",
    ),
    (
        "load",
        "start",
        r"loading (the |model )?checkpoint|restoring states from the checkpoint|resuming from checkpoint",
        "Megatron-LM: loading checkpoint from /ckpt at iteration 1000; Lightning: Restoring states from the checkpoint",
    ),
)
HINT = re.compile(r"checkpoint|\[torch\] sav|restored all states", re.IGNORECASE)
_LINES = [(kind, edge, re.compile(words, re.IGNORECASE)) for kind, edge, words, _ in _WORDS]
_NEAR_NS = 120_000_000_000  # a line this near an event's edges may be its own
_LEAST = 5  # lines of a node before its clock is doubted


def find(logs: pd.DataFrame) -> pd.DataFrame:
    """The lines of LOGS that tell of a save or a load: node, time (ns), kind, edge (start or end)."""
    likely = logs[logs["message"].str.contains(HINT)]
    rows = [
        (node, to_ns(time), kind, edge)
        for node, time, message in zip(likely["node"], likely["time"], likely["message"], strict=True)
        for kind, edge, words in _LINES[: _first(message)]
        if words.search(message)
    ]
    return pd.DataFrame(rows, columns=["node", "time", "kind", "edge"])


def _first(message: str) -> int:
    """One more than the place of the first pattern that a line matches: a line says one thing."""
    return next((place + 1 for place, (_, _, words) in enumerate(_LINES) if words.search(message)), 0)


def attach(events: Sequence[dict[str, Any]], lines: pd.DataFrame) -> dict[str, Any]:
    """Give each event what the log says of it, in place; and say what the log tells that no event shows.

    Events gain ``logged_start``, ``logged_end`` (None unknown) and ``logged_nodes``.

    Returns
    -------
    dict
        ``lines`` in all, ``unseen`` by kind: groups of lines with no event near, and ``apart``: seconds by which a
        node's lines lie off its metrics, where steady and more than two minutes or the event's own cell.
    """
    times = {key: group.sort_values("time") for key, group in lines.groupby(["kind", "edge"])}
    for event in events:
        low, high = to_ns(event["start"]) - _NEAR_NS, to_ns(event["end"]) + _NEAR_NS
        members = {part["node"] for part in event["by_node"]}
        begun, done = (_between(times.get((event["kind"], edge)), low, high, members) for edge in ("start", "end"))
        event["logged_start"] = _moment(begun["time"].median()) if len(begun) else None
        event["logged_end"] = _moment(done["time"].max()) if len(done) else None
        event["logged_nodes"] = int(begun["node"].nunique())
    unseen = {kind: _unseen(events, kind, times.get((kind, "start"))) for kind in ("save", "load")}
    return {"lines": len(lines), "unseen": unseen, "apart": _apart(events, times.get(("save", "start")))}


def _moment(time: float) -> pd.Timestamp:
    """Whole milliseconds: a mean of moments knows no more."""
    return to_time(int(time) // 1_000_000 * 1_000_000)


def _between(lines: pd.DataFrame | None, low: int, high: int, nodes: set[str]) -> pd.DataFrame:
    if lines is None:
        return pd.DataFrame(columns=["node", "time"])
    first, last = np.searchsorted(lines["time"].to_numpy(), [low, high])
    near = lines.iloc[first:last]
    return near[near["node"].isin(nodes)]


def _unseen(events: Iterable[Mapping[str, Any]], kind: str, lines: pd.DataFrame | None) -> int:
    """How many groups of beginnings lie near no event of the kind."""
    if lines is None:
        return 0
    spans = np.array(
        sorted((to_ns(e["start"]) - _NEAR_NS, to_ns(e["end"]) + _NEAR_NS) for e in events if e["kind"] == kind)
    ).reshape(-1, 2)
    moments: NDArray[np.int64] = lines["time"].to_numpy(dtype=np.int64)
    reach = np.maximum.accumulate(spans[:, 1]) if len(spans) else spans[:, 1]
    before = np.searchsorted(spans[:, 0], moments, side="right") - 1
    inside = (before >= 0) & (moments < reach[before] if len(reach) else False)
    alone = moments[~inside]
    return int(1 + (np.diff(alone) > _NEAR_NS).sum()) if len(alone) else 0


def _apart(events: Iterable[Mapping[str, Any]], lines: pd.DataFrame | None) -> dict[str, float]:
    """By node, the seconds by which its lines lie off its own metrics, save by save, where steady."""
    if lines is None:
        return {}
    own = {node: np.asarray(group["time"], dtype=np.int64) for node, group in lines.groupby("node")}
    off: dict[str, list[float]] = defaultdict(list)
    for event in events:
        for part in event["by_node"] if event["kind"] == "save" else ():
            moments = own.get(part["node"])
            if moments is not None:
                start = to_ns(part["start"])
                nearest = int(moments[np.abs(moments - start).argmin()])
                off[part["node"]].append((nearest - start) / 1e9)
    out = {}
    for node, seconds in off.items():
        middle = float(np.median(seconds))
        steady = float(np.median(np.abs(np.array(seconds) - middle)))
        if len(seconds) >= _LEAST and abs(middle) > _NEAR_NS / 1e9 and steady < abs(middle) / 4:
            out[str(node)] = middle
    return out
