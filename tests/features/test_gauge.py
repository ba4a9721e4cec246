"""The latched gauge of XIDs."""

import numpy as np
import pandas as pd

from features import xid
from features.gauge import read_gauges
from features.tables import Panel, Series, to_ns

NAN = float("nan")
STEP = 15_000_000_000


def changes(*codes: float, before: float = NAN) -> list[tuple[int, int]]:
    """Cell and code of each event."""
    start = to_ns("2026-01-01T10:00:00Z")
    times = np.arange(len(codes)) * STEP + start
    events = xid.from_gauge(times, np.array(codes, dtype=float), "n1", "GPU-a", "0000:4e:00", before)
    cells = [int((pd.Timestamp(time).value - start) // STEP) for time in events["time"]]
    return list(zip(cells, [int(code) for code in events["xid"]], strict=True))


def test_only_changes_to_a_code_are_events() -> None:
    assert changes(0, 0, 31, 31, 31, 31, 79, 79, 79, 31, 31, 0) == [(2, 31), (6, 79), (9, 31)]


def test_a_gauge_of_zeros_says_nothing() -> None:
    assert changes(0, 0, 0) == []


def test_a_first_code_may_be_old_and_is_no_event() -> None:
    assert changes(79, 79, 31) == [(2, 31)]


def test_what_was_known_the_day_before_tells_an_old_code_from_a_new_one() -> None:
    assert changes(79, 79, before=79) == []
    assert changes(79, 79, before=0) == [(0, 79)]


def test_the_same_code_after_a_gap_is_no_event() -> None:
    assert changes(0, 31, NAN, NAN, 31, NAN, 79) == [(1, 31), (6, 79)]


def test_the_event_says_between_which_samples_it_lies() -> None:
    times = np.array([to_ns("2026-01-01T10:00:00Z"), to_ns("2026-01-01T10:00:15Z")])
    event = xid.from_gauge(times, np.array([0.0, 79.0]), "n1", "GPU-a").iloc[0]
    assert event["detail"] == "gauge changed from 0 to 79 after 2026-01-01T10:00:00Z"
    assert event["origin"] == "gauge"


def gauges(**rows: list[float]) -> object:
    series = tuple(Series(metric, "GPU-a") for metric in rows)
    values = np.array(list(rows.values()))
    (gauge,) = read_gauges(Panel("n1", np.arange(values.shape[1]) * STEP, series, values))
    return np.nan_to_num(gauge.codes, nan=-1).tolist()


def test_a_code_that_is_also_a_label_makes_no_second_gauge() -> None:
    rows = {
        'DCGM_FI_DEV_XID_ERRORS{err_code="0"}': [0, 0, NAN, NAN],
        'DCGM_FI_DEV_XID_ERRORS{err_code="79"}': [NAN, NAN, 79, 79],
    }
    assert gauges(**rows) == [0, 0, 79, 79]


def test_a_count_by_code_is_read_as_its_code() -> None:
    assert gauges(**{'DCGM_EXP_XID_ERRORS_COUNT{xid="31"}': [0.0, 1.0, 1.0, 0.0]}) == [0, 31, 31, 0]


def test_a_count_that_is_there_only_after_an_error_was_0_while_the_gpu_had_samples() -> None:
    rows = {'DCGM_EXP_XID_ERRORS_COUNT{xid="79"}': [NAN, NAN, 1, NAN], "DCGM_FI_DEV_GPU_TEMP": [NAN, 40.0, 41.0, 42.0]}
    assert gauges(**rows) == [-1, 0, 79, 0]


def test_a_blank_of_the_exporter_is_no_code() -> None:
    assert gauges(DCGM_FI_DEV_XID_ERRORS=[0, 2147483632, 31]) == [0, -1, 31]


def codes_of_gpus_without_uuid(rows: dict[str, list[float]]) -> dict[str, list[float]]:
    values = np.array(list(rows.values()))
    series = tuple(Series(metric) for metric in rows)
    found = read_gauges(Panel("n1", np.arange(values.shape[1]) * STEP, series, values))
    assert all(not gauge.gpu for gauge in found)
    return {gauge.device: gauge.codes.tolist() for gauge in found}


def test_without_uuids_the_last_code_of_one_gpu_hides_no_other_s() -> None:
    rows: dict[str, list[float]] = {
        'DCGM_FI_DEV_XID_ERRORS{gpu="0"}': [0, 0, 79, 79],
        'DCGM_FI_DEV_XID_ERRORS{gpu="1"}': [0, 31, 31, 31],
    }
    assert codes_of_gpus_without_uuid(rows) == {"0": [0, 0, 79, 79], "1": [0, 31, 31, 31]}


def test_each_increase_of_a_counter_of_a_code_is_an_event_and_so_is_what_follows_a_restart() -> None:
    rows: dict[str, list[float]] = {'nvidia_xid_errors_total{gpu="0",xid="79"}': [0, 1, 1, 3, 0, 2]}
    assert changes(*codes_of_gpus_without_uuid(rows)["0#79"]) == [(1, 79), (3, 79), (5, 79)]


def test_a_count_of_one_code_hides_no_other() -> None:
    rows: dict[str, list[float]] = {
        'DCGM_EXP_XID_ERRORS_COUNT{xid="31"}': [0, 1, 0, 1],
        'DCGM_EXP_XID_ERRORS_COUNT{xid="79"}': [0, 1, 1, 1],
    }
    assert codes_of_gpus_without_uuid(rows) == {"#31": [0, 31, 0, 31], "#79": [0, 79, 79, 79]}
