"""What a metric may spend of the false alarms, and what known failures teach of it."""

import numpy as np
import pandas as pd
import pytest

from models.surprise import Surprise, allowance, kinds

REPLAYS, CRC, DROPS, TEMP, LOAD = (
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "node_network_receive_drop_total",
    "DCGM_FI_DEV_GPU_TEMP",
    "node_load1",
)
METRICS = [REPLAYS, CRC, DROPS, TEMP, LOAD]
HOURS = 2000


def quiet() -> pd.DataFrame:
    """One node's hours, twelve windows each; in each every metric is about as odd as in the next hour."""
    values = np.random.default_rng(0).exponential(0.4, (HOURS * 12, len(METRICS)))
    ends = pd.date_range("2026-01-01", periods=len(values), freq="5min", tz="UTC")
    index = pd.MultiIndex.from_arrays([["n"] * len(values), ends], names=["node", "end"])
    return pd.DataFrame(values, index=index, columns=METRICS)


def after(failures: int, metric: str = REPLAYS) -> Surprise:
    """Fitted on quiet hours, in so many of which a metric was very odd before a failure."""
    X, y = quiet(), np.zeros(HOURS * 12)
    for number in range(failures):
        rows = np.arange(12) + 1200 * (number + 1)
        y[rows] = 1
        X.iloc[rows, METRICS.index(metric)] = 9.0
    return Surprise().fit(X, y)


def test_faults_of_accelerators_may_spend_more_than_the_hosts_and_these_more_than_work() -> None:
    replays, _, drops, _, load = allowance(METRICS)
    assert replays > drops > load


def test_what_all_may_spend_is_one() -> None:
    assert (10 ** allowance(METRICS)).mean() == pytest.approx(1)
    assert (10 ** after(3).allowance_).mean() == pytest.approx(1)


def test_metrics_of_a_family_and_role_are_of_a_kind_and_each_class_of_log_lines_is_its_own() -> None:
    found = kinds(["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "logs.device_gpu", "logs.lines"])
    assert found.tolist() == [0, 0, 1, 2]


def test_a_kind_of_metric_that_was_odd_before_failures_may_spend_more() -> None:
    before, one, three = (after(count).allowance_[0] for count in (0, 1, 3))
    assert before < one < three


def test_what_was_not_odd_before_failures_keeps_its_share_among_the_others() -> None:
    before, now = after(0).allowance_, after(3).allowance_
    assert now[3] - now[1] == pytest.approx(before[3] - before[1], abs=0.01)


def test_without_failures_the_shares_are_as_they_are() -> None:
    np.testing.assert_array_equal(Surprise().fit(quiet()).allowance_, allowance(METRICS))


def test_work_that_was_never_seen_before_is_no_rarer_than_one_hour_in_ten_thousand() -> None:
    model = after(0)
    odd = pd.DataFrame(np.full((1, len(METRICS)), 30.0), columns=METRICS)
    told = dict(model.explain(odd, len(METRICS))[0])
    assert told[LOAD] == pytest.approx(4 + allowance(METRICS)[4])
    assert told[DROPS] > 10
