"""Training knows of a failure when the job would have known, window by window."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.settings import LabelSettings, WindowSettings
from features.tables import LOGS, conform, to_time
from features.windows import make
from models import rules
from pipelines import failures, known, sources
from pipelines.asking import Source
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store, frame_bytes, read_frame, replace_file
from tests import small_cluster

STRIDE = 300_000_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The small cluster, in which n1 also tells of an XID at 00:21."""
    made = small_cluster.store(tmp_path_factory.mktemp("known") / "store")
    row = {
        "node": "n1", "time": to_time(small_cluster.START + small_cluster.at("00:21") * small_cluster.STEP),
        "source": "kernel", "severity": "err", "kernel": True, "count": 1,
        "message": "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.",
    }  # fmt: skip
    path = made.logs_path("n1", small_cluster.END // DAY_NS)
    lines = pd.concat([read_frame(path, LOGS), conform(pd.DataFrame([row]), LOGS)], ignore_index=True)
    replace_file(path, frame_bytes(lines.sort_values("time", kind="stable")))
    return made


@pytest.fixture(scope="module")
def windows(store: Store) -> pd.DataFrame:
    return make(store.nodes(), *store.span(), WindowSettings())


@pytest.fixture(scope="module")
def told(store: Store, windows: pd.DataFrame) -> np.ndarray:
    return known.began(store, windows, failures.events(store, Config()), LabelSettings(), STRIDE)


def test_training_is_told_what_the_backtest_is_told(store: Store, windows: pd.DataFrame, told: np.ndarray) -> None:
    config = Config()
    frozen: Any = SimpleNamespace(
        features=config.features, ingest=config.ingest, step_ns=store.step_ns, gpus=store.gpus(), heard=store.nodes()
    )
    ends = windows["end"].astype("int64").unique().tolist()
    past = sources.take(Source(store=store.path), frozen, config, ends).past
    assert told.any()
    np.testing.assert_array_equal(told, past.began(windows, STRIDE))


def test_a_vanished_gpu_is_known_five_minutes_after_it_went(windows: pd.DataFrame, told: np.ndarray) -> None:
    found = windows[told]
    said = [f"{node} {end:%H:%M}" for node, end in zip(found["node"], found["end"], strict=True)]
    assert said == ["n1 00:25", "n3 00:35"]


def test_hindsight_would_have_told_it_sooner(store: Store, windows: pd.DataFrame) -> None:
    found = windows[rules.began(windows, failures.events(store, Config()), STRIDE)]
    assert "00:35" in {f"{end:%H:%M}" for end in found.loc[found["node"] == "n3", "end"]}


def test_a_node_that_the_store_does_not_hold_has_no_failure(store: Store, windows: pd.DataFrame) -> None:
    away = windows.assign(node="n9")
    assert not known.began(store, away, failures.events(store, Config()), LabelSettings(), STRIDE).any()
