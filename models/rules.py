"""The rule that no model may miss: a failure that has begun is an alarm.

A failure without any warning is caught "at" by this alone. It is kept aside from the features, and named as what it is
in the reasons.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.windows import as_ns

REASON = "rule.failure_began"
SCORE = 1.0  # of a failure that has begun: above every threshold
MOST = 1.0 - 1e-9  # of what a model may say, and of a threshold


def began(windows: pd.DataFrame, events: pd.DataFrame, stride_ns: int) -> NDArray[np.bool_]:
    """Windows in whose last stride an XID that counts came or a GPU was lost on the node.

    Parameters
    ----------
    windows, events
        `WINDOWS`, and the `EVENTS` that count as a failure, whatever they were told by.
    stride_ns
        From one window to the next, in nanoseconds: each event marks one window.
    """
    out = np.zeros(len(windows), dtype=bool)
    if events.empty:
        return out
    end = as_ns(windows["end"])
    times = {str(name): np.sort(as_ns(rows["time"])) for name, rows in events.groupby("node")}
    for name, rows in windows.groupby("node", sort=False).indices.items():
        began_at = times.get(str(name))
        if began_at is not None:
            moments = end[rows]
            out[rows] = np.searchsorted(began_at, moments - stride_ns) < np.searchsorted(began_at, moments)
    return out
