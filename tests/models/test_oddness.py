"""Odd is what differs from the node's own past and from its peers, by each metric's own measure."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features import presence
from models.layout import CHANGING, IDLE, PARTLY, STEADY, read, states_of
from models.oddness import Columns
from models.scorers import place
from models.summaries import criticism, summary_columns
from models.telling import Teller, by_nodes
from tests.models.planted import failures_at, matrix_of, windows_of

WINDOWS = windows_of(6, 6)
RANDOM = np.random.default_rng(0)
QUIET = matrix_of(WINDOWS, failures_at(), metrics=6)
FITTED, TOLD = Teller.fit(QUIET)


def changed(**values: float) -> pd.DataFrame:
    """Three days of node01, its last twelve windows with these columns (" " for ".") moved by so much."""
    rows = QUIET.loc[["node01"]].iloc[:400].copy()
    rows["phase.group__value"] = 3.0
    for name, value in values.items():
        rows[name] = rows[name].to_numpy() + value * (np.arange(400) >= 388)
    return rows


def oddness(rows: pd.DataFrame, metric: str) -> float:
    """Mean surprise of the metric over the last twelve windows."""
    return float(FITTED.signs(rows).metrics[metric].iloc[-12:].mean())


def test_odd_against_the_own_past_alone_is_not_odd() -> None:
    assert oddness(changed(metric_1__mean=20), "metric_1") < 1


def test_odd_against_peers_alone_is_not_odd() -> None:
    assert oddness(changed(**{"metric_1.peer__mean": 20}), "metric_1") < 1


def test_odd_against_both_is_odd() -> None:
    assert oddness(changed(**{"metric_1__mean": 40, "metric_1.peer__mean": 40}), "metric_1") > 2.5


def test_a_column_without_peers_is_judged_by_its_past() -> None:
    assert oddness(changed(**{"logs.unknown__value": 9}), "logs.unknown") > 2


def with_timeouts(down: bool) -> pd.DataFrame:
    """The quiet rows, in which one in fifty holds a timeout of ten seconds, while its node is down or not."""
    rows = QUIET.assign(**dict.fromkeys(presence.COLUMNS, 0.0), scrape_duration_seconds__mean=RANDOM.random(len(QUIET)))
    at = np.arange(len(rows)) % 50 == 0
    rows.loc[at, "scrape_duration_seconds__mean"] = 10.0
    rows.loc[at, presence.COLUMNS[2]] = float(down)
    return rows


@pytest.mark.parametrize(("down", "odd"), [(True, True), (False, False)], ids=["down", "up"])
def test_what_a_node_shows_while_it_is_down_is_no_measure_for_one_that_works(down: bool, odd: bool) -> None:
    rows = with_timeouts(down)
    slow = rows.loc[["node01"]].iloc[1:40].assign(scrape_duration_seconds__mean=5.0, **{presence.COLUMNS[2]: 0.0})
    found = Teller.fit(rows)[0].signs(slow).metrics["scrape_duration_seconds"]
    assert (found.mean() > 2.5) == odd


def test_a_node_that_always_chatters_must_chatter_more() -> None:
    name = "node_nfs_errors_total"
    calm = FITTED.signs(changed(**{f"{name}__sum_values": 3})).metrics[name].iloc[-12:]
    noisy = changed(**{f"{name}__sum_values": 3})
    noisy.index = pd.MultiIndex.from_arrays([["node00"] * len(noisy), noisy.index.get_level_values(1)])
    chatter = FITTED.signs(noisy).metrics[name].iloc[-12:]
    assert calm.mean() > 2
    assert chatter.mean() < 1.5


def test_quiet_rows_are_as_odd_as_chance_has_it() -> None:
    odd = TOLD.signs.metrics
    assert (odd > 1).to_numpy().mean() == pytest.approx(0.1, abs=0.05)
    assert (odd > 2).to_numpy().mean() < 0.03


def test_a_node_that_was_never_seen_is_judged_by_the_fleet() -> None:
    rows = QUIET.loc[["node02"]].copy()
    rows.index = pd.MultiIndex.from_arrays([["new"] * len(rows), rows.index.get_level_values(1)])
    assert (FITTED.signs(rows).metrics["metric_0"] > 1).mean() < 0.25


def test_a_metric_that_stays_odd_lasts_and_a_lone_window_does_not() -> None:
    steady = changed(**{"metric_1__mean": 40, "metric_1.peer__mean": 40})
    lone = steady.copy()
    lone.iloc[-12:-1] = QUIET.loc[["node01"]].iloc[388:399].to_numpy()
    lasts = FITTED.signs(steady).lasting["metric_1"].iloc[-1]
    assert lasts > 2.5
    assert FITTED.signs(lone).lasting["metric_1"].iloc[-1] < 0.4 * lasts


def test_rows_asked_for_a_few_nodes_at_a_time_are_told_as_at_once() -> None:
    rows = QUIET.iloc[np.random.default_rng(0).permutation(len(QUIET))[:3000]]
    where = place(rows)
    parts = by_nodes(where, most=900)
    whole, pieced = FITTED.signs(rows), FITTED.signs_by(lambda some: rows.iloc[some], where, parts)
    assert len(parts) > 2
    pd.testing.assert_frame_equal(pieced.lasting, whole.lasting)
    pd.testing.assert_frame_equal(pieced.summary, whole.summary)


def test_one_nodes_chatter_hides_no_other_nodes_errors() -> None:
    node = np.repeat(np.array([f"node{number:02d}" for number in range(6)], dtype=object), 600)
    chance = np.random.default_rng(0)
    errors = np.where(chance.random(3600) < 0.01, 1.0, 0.0)
    errors[:600] = np.where(chance.random(600) < 0.4, chance.integers(1, 30, 600), 0)  # node00 chatters
    values = np.column_stack([errors, np.log1p(errors)]).astype(np.float32)
    layout = read(["link_errors__sum_values", "link_errors.peer__sum_values"])
    state = np.full(3600, STEADY)
    fitted = Columns.fit(values, node, state, layout)
    asked = np.array([[1.0, 1.0], [20.0, np.log1p(20.0)]], dtype=np.float32)
    calm = np.array(["node03", "node03"], dtype=object)
    noisy = np.array(["node00", "node00"], dtype=object)
    assert fitted.metrics(asked, calm, state[:2], layout)[0][1, 0] > 6
    assert fitted.metrics(asked, calm, state[:2], layout)[0][0, 0] < 2.5
    assert fitted.metrics(asked, noisy, state[:2], layout)[0][1, 0] < 3


def test_many_metrics_that_are_a_little_odd_are_noticed_together() -> None:
    one = np.zeros((1, 100), dtype=np.float32)
    one[0, 0] = 3.0
    many = np.zeros((1, 100), dtype=np.float32)
    many[0, :30] = 1.2
    assert criticism(many)[0] > 20 > criticism(one)[0]


def test_summaries_have_the_same_columns_whatever_metrics_there_are() -> None:
    names = summary_columns()
    signs = FITTED.signs(QUIET.iloc[:5])
    assert list(signs.summary.columns[: len(names)]) == names
    assert list(signs.summary.columns[len(names) :]) == ["phase.group__value", "history.since_incident__value"]


def test_the_layout_pairs_a_measurement_with_its_peer_column() -> None:
    layout = read(["a__mean", "a.peer__mean", "a.gpu_max__mean", "b.peer__maximum", "phase.group__value", "odd name"])
    assert [(metric.name, metric.pairs) for metric in layout.metrics] == [
        ("a", ((0, 1), (2, -1))),
        ("b", ((-1, 3),)),
        ("odd name", ((5, -1),)),
    ]
    assert (layout.states, layout.group) == ((4,), 4)


def test_the_columns_of_a_metrics_surprise_are_told() -> None:
    which = FITTED.signs(changed(**{"metric_1__mean": 40, "metric_1.peer__mean": 40})).which
    number = [metric.name for metric in FITTED.layout.metrics].index("metric_1")
    assert FITTED.names[which[-1, number]] == "metric_1__mean"


def test_a_window_is_compared_with_windows_of_the_same_state() -> None:
    layout = read(["a__mean", "phase.group__value"])
    group = np.array([[0.0, 3], [0, 1], [0, 13], [0, 0], [0, np.nan], [0, 2], [0, 6]])
    assert states_of(group, layout).tolist() == [STEADY, IDLE, CHANGING, STEADY, STEADY, CHANGING, PARTLY]


@pytest.mark.parametrize(("value", "odd"), [(75.0, True), (35.0, False)])
def test_of_a_temperature_only_what_is_above_the_usual_is_odd(value: float, odd: bool) -> None:
    usual = np.random.default_rng(0).normal(55, 2, (600, 1)).astype(np.float32)
    layout, node, steady = read(["DCGM_FI_DEV_GPU_TEMP.gpu_max__mean"]), np.array(["n"] * 600), np.zeros(600, dtype=int)
    learned = Columns.fit(usual, node, steady, layout)
    told, _ = learned.metrics(np.array([[value]], dtype=np.float32), node[:1], steady[:1], layout)
    assert (told[0, 0] > 2) == odd


def test_a_burst_of_lines_is_a_surprise_already() -> None:
    bursts = np.random.default_rng(0).random((600, 1)).astype(np.float32)
    layout, node, steady = read(["logs.device_gpu__value"]), np.array(["n"] * 600), np.zeros(600, dtype=int)
    learned = Columns.fit(bursts, node, steady, layout)
    told, _ = learned.metrics(np.array([[np.log1p(7.0)]], dtype=np.float32), node[:1], steady[:1], layout)
    assert told[0, 0] == pytest.approx(7.0)


def fans(node: int, metric: str = "DCGM_FI_DEV_FAN_SPEED") -> pd.DataFrame:
    """A day of a node whose fans stand at 30 % while it is idle and at 80 while it works; n0 is never idle."""
    rows = 288
    idle = (np.arange(rows) // 12 % 3 == 0) & (node > 0)
    ends = pd.date_range("2026-01-01", periods=rows, freq="5min", tz="UTC")
    index = pd.MultiIndex.from_arrays([[f"n{node}"] * rows, ends], names=["node", "end"])
    values = {f"{metric}.gpu_max__maximum": np.where(idle, 30.0, 80.0), "phase.group__value": np.where(idle, 1.0, 3.0)}
    return pd.DataFrame(values, index=index)


def told_of_n0(value: float, state: int, metric: str = "DCGM_FI_DEV_FAN_SPEED") -> float:
    """The surprise of one value on the node that is never idle."""
    quiet = pd.concat([fans(node, metric) for node in range(5)])
    layout = read(list(quiet.columns))
    columns = Columns.fit(quiet.to_numpy(), place(quiet).node, states_of(quiet.to_numpy(), layout), layout)
    values = np.array([[value, 0.0]], dtype=np.float32)
    return float(columns.metrics(values, np.array(["n0"]), np.array([state]), layout)[0][0, 0])


def test_where_a_column_rests_in_a_state_is_not_odd_on_a_node_that_never_was_in_it() -> None:
    assert told_of_n0(30, IDLE) == told_of_n0(80, STEADY) == 0
    assert told_of_n0(30, STEADY) > 2
    assert told_of_n0(80, IDLE) > 2


def test_how_deep_an_idle_gpu_sleeps_is_not_odd() -> None:
    clock = "DCGM_FI_DEV_SM_CLOCK"
    assert told_of_n0(80, IDLE, clock) == 0
    assert told_of_n0(30, STEADY, clock) > 2
    assert told_of_n0(80, IDLE, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS") > 2
