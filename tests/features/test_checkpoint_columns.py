"""What a window's row says of the NFS client."""

import math
from datetime import timedelta

import numpy as np
import pytest

from features import matrix, peers, phase, presence
from features.checkpoint_columns import COLUMNS, WHAT, columns, tells
from features.settings import FeatureSettings, WindowSettings
from features.tables import Panel, Series

STEP = 30_000_000_000
CELLS = 50  # a window of 40 cells, and ten before it
SETTINGS = FeatureSettings(window=WindowSettings(length=timedelta(minutes=20)))
END = np.array([CELLS * STEP])
NFS = "node_mountstats_nfs_"


def labelled(measure: str, server: str = "10.0.0.9", operation: str = "WRITE") -> str:
    return f'{NFS}operations_{measure}_time_seconds_total{{mountaddr="{server}",operation="{operation}"}}'


def panel(rates: dict[str, list[float]], lost: tuple[int, ...] = ()) -> Panel:
    """Counters that gain so much a second in the window's cells, from its first on; nothing before."""
    values = np.array([[*[0.0] * 10, *rate, *[0.0] * (40 - len(rate))] for rate in rates.values()])
    counters = 1e6 + np.cumsum(30 * values, axis=1)
    counters[:, list(lost)] = np.nan
    return Panel("n", np.arange(CELLS, dtype=np.int64) * STEP, tuple(map(Series, rates)), counters)


def row(found: Panel) -> dict[str, float]:
    return dict(zip(WHAT, columns(found, END, SETTINGS)[0].tolist(), strict=True))


def test_requests_in_flight_are_the_most_of_any_cell_at_the_busiest_server() -> None:
    rates = {labelled("response"): [10.0, 90, 20], labelled("response", operation="READ"): [0.0, 30, 0]}
    assert row(panel({**rates, labelled("response", "10.0.0.8"): [100.0]}))["nfs_in_flight"] == pytest.approx(120)


def test_a_gain_over_lost_scrapes_is_no_rush_of_requests() -> None:
    assert row(panel({labelled("response"): [60.0] * 5}, lost=(11, 12)))["nfs_in_flight"] == pytest.approx(60)


def test_the_queues_share_is_over_all_operations() -> None:
    rates = {labelled("response"): [10.0], labelled("queue"): [25.0], labelled("queue", operation="READ"): [5.0]}
    assert row(panel(rates))["nfs_queue_share"] == pytest.approx(0.75)


def test_a_save_ends_where_its_last_cell_does() -> None:
    assert row(panel({f"{NFS}total_write_bytes_total": [0.0, 1e9, 1e9, 5e6]}))["nfs_save_end"] == 90


def test_without_a_save_there_is_no_end() -> None:
    assert math.isnan(row(panel({f"{NFS}total_write_bytes_total": [5e6] * 40}))["nfs_save_end"])


def test_a_node_that_saves_longer_than_its_peers_is_the_odd_one() -> None:
    rows = []
    for number, cells in enumerate((4, 4, 5, 4, 20)):
        found = panel({f"{NFS}total_write_bytes_total": [1e9] * cells})
        one = Panel(f"n{number}", found.times, found.series, found.values)
        rows.append(matrix.node_rows(one, END, SETTINGS, presence.Roster(), step_ns=STEP))
    stacked = matrix.stack(rows)
    assert phase.GROUP in stacked
    odd = peers.columns(stacked, SETTINGS.peers)["nfs_save_end.peer__value"].to_numpy()
    assert odd.argmax() == 4
    assert odd[4] > odd[:4].max() + 1


def test_a_row_is_the_same_whatever_lies_after_its_window() -> None:
    whole = panel({labelled("response"): [60.0] * 30, labelled("queue"): [5.0] * 30}, lost=(37, 38, 39, 40))
    early = np.array([(CELLS - 10) * STEP])
    cut = Panel("n", whole.times[: CELLS - 10], whole.series, whole.values[:, : CELLS - 10])
    np.testing.assert_array_equal(columns(whole, early, SETTINGS), columns(cut, early, SETTINGS))


def test_a_node_without_the_collector_has_none_of_these_columns() -> None:
    other = panel({"node_intr_total": [1.0]})
    assert not tells(other)
    got = matrix.node_rows(other, END, SETTINGS, presence.Roster(), step_ns=STEP)
    assert not set(COLUMNS) & set(got.columns)
