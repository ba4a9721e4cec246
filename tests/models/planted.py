"""Small made-up windows and failures whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from features.settings import LabelSettings, WindowSettings
from features.tables import FAILURES, PREDICTIONS, conform
from features.windows import make
from models.settings import EvaluationSettings

START = pd.Timestamp("2026-01-01T00:00Z")
LABELS = LabelSettings()
SETTINGS = EvaluationSettings(permutations=200)
DAY = 86_400_000_000_000


def windows_of(nodes: int, days: float) -> pd.DataFrame:
    names = [f"node{number:02d}" for number in range(nodes)]
    return make(names, START.value, START.value + int(days * DAY), WindowSettings())


def failures_at(*rows: tuple[str, str], xids: tuple[int, ...] = ()) -> pd.DataFrame:
    """Failures given as ("node00", "2026-01-02T10:00"); more nodes after a plus sign."""
    frame = pd.DataFrame(
        {
            "failure": [f"f{number}" for number in range(len(rows))],
            "time": pd.to_datetime([f"{time}Z" for _, time in rows], utc=True).as_unit("ns"),
            "node": [node.split("+")[0] for node, _ in rows],
            "nodes": [node.split("+") for node, _ in rows],
            "xid": pd.array(xids or [79] * len(rows), dtype="Int64"),
        }
    )
    frame["end"] = frame["time"]
    frame["xids"] = [[79]] * len(rows)
    return conform(frame, FAILURES)


def random_failures(count: int, nodes: int, days: float, seed: int) -> pd.DataFrame:
    """Failures spread evenly in time at random nodes, never two within three hours."""
    random = np.random.default_rng(seed)
    slot = days * 24 / count
    hours = [slot * (number + 0.2 + 0.6 * random.random()) for number in range(count)]
    stamps = [(START + pd.Timedelta(hours=hour)).strftime("%Y-%m-%dT%H:%M:%S") for hour in hours]
    return failures_at(*[(f"node{random.integers(nodes):02d}", stamp) for stamp in stamps])


def predictions_of(windows: pd.DataFrame, score: Any, fold: Any = 0) -> pd.DataFrame:
    frame = windows.assign(model="m", fold=fold, score=score)
    return conform(frame, PREDICTIONS)[list(PREDICTIONS.columns)]
