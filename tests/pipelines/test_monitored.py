"""Windows and monitored time are those of days with data."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features import matrix
from features.tables import InputError, to_ns
from pipelines import featurise, monitored
from pipelines.config import Config
from pipelines.grid import DAY_NS, Cells
from pipelines.store import Store
from tests import small_cluster as made

CONFIG = Config()
PAST = matrix.Past(made.failures(), made.events())


def with_a_sample_long_before(path: Path) -> Store:
    store = made.store(path)
    day = to_ns("2025-01-01T00:00:00Z") // DAY_NS
    cells = Cells(day * DAY_NS, (day + 1) * DAY_NS, made.STEP)
    cells.add(made.panel("n1").series[0], np.array([day * DAY_NS]), np.array([1.0]))
    store.merge_day("n1", day, cells)
    return store


def test_a_node_that_came_a_day_later_has_no_rows_before(tmp_path: Path) -> None:
    store = made.store(tmp_path / "store")
    store.panel_path("n1", store.days("n1")[0]).unlink()
    store.logs_path("n1", store.log_days("n1")[0]).unlink()
    asked = monitored.all_windows(store, CONFIG)
    assert asked.groupby("node")["end"].min()["n1"] == pd.Timestamp("2026-01-02T00:05:00Z")
    assert asked["window"].tolist() == list(range(len(asked)))
    assert len(featurise.historic_matrix(store, CONFIG, PAST, workers=1).X) == len(asked)


def test_a_year_without_a_sample_is_neither_computed_nor_monitored(tmp_path: Path) -> None:
    store = with_a_sample_long_before(tmp_path / "store")
    asked = monitored.all_windows(store, CONFIG)
    days = set(pd.DatetimeIndex(asked["end"] - pd.Timedelta("1ns")).strftime("%Y-%m-%d"))
    assert days == {"2025-01-01", "2026-01-01", "2026-01-02"}
    assert featurise.featurise(store, CONFIG, workers=1).computed == 3 * len(made.NODES)
    ends = monitored.ends(store, CONFIG)
    assert monitored.time(ends, store, CONFIG) == len(ends) * 300 / 86_400 < 3
    assert len(featurise.historic_matrix(store, CONFIG, PAST, workers=1).X) == len(asked)


def test_a_span_without_a_sample_is_refused(tmp_path: Path) -> None:
    store = with_a_sample_long_before(tmp_path / "store")
    with pytest.raises(InputError, match="no node has a sample from 2025-06-01"):
        featurise.featurise(store, CONFIG, to_ns("2025-06-01T00:00:00Z"), to_ns("2025-06-03T00:00:00Z"))


def test_lines_alone_are_watched_time_where_there_are_no_samples(tmp_path: Path) -> None:
    store = made.store(tmp_path / "store")
    first, second = to_ns("2026-01-01T00:00:00Z") // DAY_NS, to_ns("2026-01-02T00:00:00Z") // DAY_NS
    assert monitored.days(store) == [first, second]
    for node in made.NODES:
        store.panel_path(node, first).unlink()
    assert monitored.days(store) == [second]
    for node in made.NODES:
        store.panel_path(node, second).unlink()
    assert monitored.days(store) == [first, second]
