"""Whether a node's log and its metrics are told by one clock: the same error in both, but steadily apart, says no."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pandas as pd

from features.folding import nanoseconds
from features.incidents import ECHO_NS

_HOUR_NS = 3_600_000_000_000
_MOST_HOURS = 14  # zones are no further from UTC


def apart(events: pd.DataFrame) -> dict[str, float]:
    """Nodes whose log seems to be of another clock than their metrics, with the seconds by which the log is ahead.

    Told by a code that the gauge shows and the log names on the same GPU, with none of its kind in the other nearer
    than `ECHO_NS`: up to an hour apart clocks differ, by whole hours zones do.

    Parameters
    ----------
    events
        Frame of `EVENTS`.
    """
    known = events[events["xid"].notna() & events["origin"].isin(["log", "gauge"])]
    out: defaultdict[str, list[float]] = defaultdict(list)
    for (node, _), of_code in known.groupby(["node", "xid"]):
        gauge, log = of_code[of_code["origin"] == "gauge"], of_code[of_code["origin"] == "log"]
        first, last = nanoseconds(log["time"]), nanoseconds(log["last"])
        for time, gpu in zip(nanoseconds(gauge["time"]).tolist(), gauge["gpu"], strict=True):
            own = (log["gpu"] == gpu).to_numpy() | (log["gpu"] == "").to_numpy()
            if not own.any() or ((first[own] - ECHO_NS <= time) & (time <= last[own] + ECHO_NS)).any():
                continue
            ahead = int(min(first[own] - time, key=abs))
            beside = abs(ahead - round(ahead / _HOUR_NS) * _HOUR_NS)
            if abs(ahead) <= _HOUR_NS or (beside <= ECHO_NS and abs(ahead) <= _MOST_HOURS * _HOUR_NS):
                out[str(node)].append(ahead / 1e9)
    return {node: float(np.median(seconds)) for node, seconds in sorted(out.items())}
