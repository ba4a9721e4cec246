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


def matrix_of(windows: pd.DataFrame, failures: pd.DataFrame, seed: int = 0, metrics: int = 20) -> pd.DataFrame:
    """Noise with a value against its peers for each metric; before each failure one metric moves for 40 minutes.

    Also a rare counter on which node00 always chatters, a change of phase that shakes every metric of all nodes
    every three hours, and the columns that baselines read.
    """
    random = np.random.default_rng(seed)
    count = len(windows)
    end = windows["end"]
    own = random.standard_normal((count, metrics)) + random.standard_normal(metrics) * 10
    changing = ((end.dt.hour % 3 == 0) & (end.dt.minute < 10)).to_numpy()
    moments = pd.factorize(end)[0]
    own[changing] += 6 * random.standard_normal((moments.max() + 1, metrics))[moments[changing]]
    peer = own - pd.DataFrame(own).groupby(moments).transform("median").to_numpy()
    for number, (time, node) in enumerate(zip(failures["time"], failures["node"], strict=True)):
        lead = (time - end).dt.total_seconds().to_numpy() / 60
        rows = (windows["node"] == node).to_numpy() & (lead > 0) & (lead <= 40)
        own[rows, number % metrics] += 7
        peer[rows, number % metrics] += 7
    noisy = (windows["node"] == "node00").to_numpy()
    errors = random.poisson(np.where(noisy, 2.0, 0.002))
    columns: dict[str, Any] = {f"metric_{m}__mean": own[:, m] for m in range(metrics)}
    columns |= {f"metric_{m}.peer__mean": peer[:, m] for m in range(metrics)}
    columns |= {
        "node_nfs_errors_total__sum_values": errors,
        "presence.silent_seconds__value": random.integers(0, 30, count),
        "logs.unknown__value": random.poisson(0.01, count),
        "phase.group__value": np.where(changing, 13, 3),
        "history.since_incident__value": np.full(count, np.nan),
    }
    index = pd.MultiIndex.from_arrays([windows["node"], end], names=["node", "end"])
    return pd.DataFrame(columns, index=index).astype("float32")
