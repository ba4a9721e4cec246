"""A running Prometheus is scored as the store of the same history is, to the bit."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from features.tables import to_ns
from pipelines.asking import Source
from pipelines.judging import rows_of
from pipelines.score import score
from pipelines.sources import Moment, take, telling
from pipelines.store import Store
from pipelines.verdicts import CONTEXT
from tests.pipelines.clusters import Cluster, serving
from tests.pipelines.tiny import World

pytestmark = pytest.mark.server
STRIDE = 300_000_000_000
TO = "2026-01-02T01:30:00Z"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Prometheus that holds the small cluster, and its log file."""
    with serving(tmp_path_factory.mktemp("prometheus")) as running:
        yield running


def ends(to: str) -> list[int]:
    return [to_ns(to) - STRIDE * back for back in range(CONTEXT, -1, -1)]


def moments(world: World, cluster: Cluster, to: str) -> tuple[Moment, Moment]:
    config = world.frozen.configure(world.config)
    stored = take(Source(store=world.store), world.frozen, config, ends(to))
    live = take(Source(prometheus=cluster.url, logs=(cluster.logs,)), world.frozen, config, ends(to))
    return stored, live


@pytest.mark.parametrize("to", ["2026-01-02T00:10:00Z", "2026-01-02T00:45:00Z", TO])
def test_a_live_row_is_the_stored_one_to_the_bit(world: World, cluster: Cluster, to: str) -> None:
    config = world.frozen.configure(world.config)
    stored, live = (rows_of(moment, world.frozen, config, ends(to)).X for moment in moments(world, cluster, to))
    pd.testing.assert_frame_equal(live[stored.columns], stored, check_exact=True)
    assert sorted(live.columns) == sorted(stored.columns)


def test_the_job_says_the_same_from_a_server_and_from_a_store(world: World, cluster: Cluster, tmp_path: Path) -> None:
    live = Source(prometheus=cluster.url, logs=(cluster.logs,))
    explained = []
    for to in ("2026-01-02T00:35:00Z", "2026-01-02T00:40:00Z", "2026-01-02T00:50:00Z"):
        at = pd.Timestamp(to)
        served = score(live, world.config, out=tmp_path / "live", at=at, bundle_dir=world.bundle)
        stored = world.score(tmp_path / "stored", at)
        assert served["scores"] == stored["scores"]
        assert served["alerts"] == stored["alerts"]
        explained += [row["node"] for row in served["scores"] if row["reasons"]]
    assert "n3" in explained


def test_the_week_before_is_read_from_few_series(world: World) -> None:
    assert telling(world.frozen.metrics) == ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS", "up"]


def test_the_store_and_the_model_know_the_same_metrics(world: World) -> None:
    assert "node_load1" in world.frozen.metrics
    assert Store.open(world.store).nodes() == list(world.frozen.nodes)
