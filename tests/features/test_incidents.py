"""Events to incidents."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features import catalogue, incidents
from features.settings import LabelSettings
from features.tables import EVENTS, FAILURES, check, conform


def event(at: str, code: int | None, node: str = "n1", gpu: str = "", **more: Any) -> dict[str, Any]:
    """One event on 4 January 2026."""
    time = pd.Timestamp(f"2026-01-04T{at}Z")
    kind = more.pop("kind", None) or catalogue.kind(code, more.get("severity", ""))
    row = {"node": node, "gpu": gpu, "time": time, "last": time, "xid": pd.NA if code is None else code, "kind": kind}
    return {"pci": "0000:4e:00", "origin": "log", "count": 1, **row, **more}


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    return conform(pd.DataFrame(rows).sort_values("time"), EVENTS) if rows else EVENTS.empty()


def group(*rows: dict[str, Any], given: pd.DataFrame | None = None, **settings: Any) -> pd.DataFrame:
    said = {name.removesuffix("_"): value for name, value in settings.items()}
    return check(incidents.group(table(*rows), LabelSettings(**said), given), FAILURES)


def ticket(start: str, end: str, node: str = "n1", kind: str = "disk") -> pd.DataFrame:
    day = "2026-01-04T"
    times = [pd.Timestamp(f"{day}{start}Z"), pd.Timestamp(f"{day}{end}Z")]
    return pd.DataFrame({"node": [node], "start": times[:1], "end": times[1:], "kind": [kind]})


def test_a_failure_is_named_by_time_and_node() -> None:
    assert group(event("10:15:00", 79, node="node03"))["failure"].tolist() == ["20260104T101500Z-node03"]


def test_no_events_are_no_failures() -> None:
    assert group().empty


@pytest.mark.parametrize(("second", "failures"), [("10:02:59", 1), ("10:03:00", 2)])
def test_failures_of_a_node_less_than_three_minutes_apart_are_one(second: str, failures: int) -> None:
    assert len(group(event("10:00:00", 79), event(second, 48))) == failures


def test_failures_of_two_nodes_are_two() -> None:
    assert len(group(event("10:00:00", 79), event("10:00:20", 119, node="n2"))) == 2


def test_the_same_code_on_other_nodes_within_seconds_is_one_incident_of_all_of_them() -> None:
    failures = group(event("10:00:00", 119), event("10:00:09", 119, node="n2"), event("10:00:21", 119, node="n3"))
    assert failures["nodes"].tolist() == [["n1", "n2", "n3"]]
    assert failures["node"].tolist() == ["n1"]


def test_a_cascade_is_one_incident_with_the_action_it_asks_for() -> None:
    failure = group(
        event("10:00:00", 149, severity="Fatal"),
        event("10:00:00", 45),
        event("10:00:01", 154, detail="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
    ).iloc[0]
    assert failure[["xid", "xids", "recovery_action"]].tolist() == [149, [45, 149, 154], "GPU Reset Required"]


def test_without_an_xid_154_the_action_is_the_catalogue_s() -> None:
    assert group(event("10:00:00", 79))["recovery_action"].tolist() == ["RESTART_BM"]


def test_log_and_gauge_of_one_xid_are_one_failure_counted_once() -> None:
    failure = group(event("10:00:05", 79), event("10:04:15", 79, gpu="GPU-a", origin="gauge")).iloc[0]
    assert failure[["origin", "count", "gpu"]].tolist() == ["log+gauge", 1, "GPU-a"]


def test_the_line_s_time_goes_before_the_gauge_s() -> None:
    failure = group(event("10:00:16", 79), event("10:00:00", 79, gpu="GPU-a", origin="gauge")).iloc[0]
    assert failure["failure"] == "20260104T100016Z-n1"


def test_a_code_that_only_the_gauge_shows_is_a_failure() -> None:
    assert group(event("10:00:15", 79, origin="gauge"))["origin"].tolist() == ["gauge"]


def test_a_code_that_only_the_log_shows_is_a_failure() -> None:
    assert group(event("10:00:15", 62))["origin"].tolist() == ["log"]


def test_xid_45_after_a_program_s_error_is_no_failure() -> None:
    rows = [event("10:00:00", 13), *(event(f"10:00:0{second}", 45) for second in range(3))]
    assert group(*rows, *(event(f"1{hour}:30:00", 45, node="n2") for hour in range(5))).empty


def test_only_the_hardware_error_among_program_errors_is_a_failure() -> None:
    failures = group(event("12:00:00", 31), event("12:00:20", 31, pci="0000:1b:00"), event("14:00:00", 48))
    assert failures[["xid", "xids"]].to_numpy().tolist() == [[48, [48]]]


def test_a_flood_of_correctable_errors_does_not_pull_a_failure_s_beginning_to_its_own() -> None:
    flood = event("08:00:00", 92, last=pd.Timestamp("2026-01-04T09:59:30Z"), count=5000)
    failure = group(flood, event("10:00:00", 48)).iloc[0]
    assert failure["time"] == pd.Timestamp("2026-01-04T10:00:00Z")


def test_a_flood_is_one_failure_that_lasts_as_long() -> None:
    failure = group(event("10:00:00", 95, last=pd.Timestamp("2026-01-04T10:08:19Z"), count=5000)).iloc[0]
    assert failure["count"] == 5000
    assert failure["end"] - failure["time"] == pd.Timedelta(minutes=8, seconds=19)


def test_a_gpu_that_vanishes_after_its_xid_is_the_same_failure() -> None:
    failures = group(
        event("10:00:00", 79, gpu="GPU-a"), event("10:20:00", None, gpu="GPU-a", origin="absence", kind="hardware")
    )
    assert failures["origin"].tolist() == ["log+absence"]


def test_a_gpu_that_vanishes_without_an_xid_is_a_failure() -> None:
    failure = group(event("10:20:00", None, gpu="GPU-a", origin="absence", kind="hardware")).iloc[0]
    assert failure["gpu"] == "GPU-a"
    assert pd.isna(failure["xid"])


def absence(at: str, until: str) -> dict[str, Any]:
    """GPU-a's first cell without it begins then; its siblings were seen without it by the other time."""
    last = pd.Timestamp(f"2026-01-04T{until}Z")
    return event(at, None, gpu="GPU-a", origin="absence", kind="hardware", last=last)


@pytest.mark.parametrize(
    ("others", "time"),
    [
        ([event("10:00:53", 79, gpu="GPU-a")], "10:00:53"),
        ([event("10:00:40", 45, gpu="GPU-a"), event("10:00:53", 79, gpu="GPU-a")], "10:00:40"),
        ([event("10:01:10", 79, gpu="GPU-a")], "10:00:00"),
        ([event("10:00:53", 79, gpu="GPU-a", origin="gauge")], "10:00:53"),
        ([event("09:59:50", 79, gpu="GPU-a", origin="gauge")], "09:59:50"),
        ([], "10:00:00"),
    ],
    ids=["a line", "an earlier line", "a line after both", "the gauge", "the gauge before", "nothing else"],
)
def test_a_loss_between_two_samples_came_when_a_line_between_them_says(others: list[dict[str, Any]], time: str) -> None:
    failure = group(absence("10:00:00", "10:01:00"), *others).iloc[0]
    assert failure["time"] == pd.Timestamp(f"2026-01-04T{time}Z")


def test_a_nonfatal_nvlink_error_is_no_failure() -> None:
    assert group(event("10:00:00", 145, severity="Nonfatal")).empty


def test_a_ticket_that_meets_a_failure_is_that_failure() -> None:
    failure = group(event("10:00:00", 79), given=ticket("10:01:00", "11:00:00")).iloc[0]
    assert failure["origin"] == "log+given"
    assert failure["time"] == pd.Timestamp("2026-01-04T10:00:00Z")
    assert failure["end"] == pd.Timestamp("2026-01-04T11:00:00Z")


@pytest.mark.parametrize(
    ("start", "end", "failures"),
    [
        ("10:59:59", "12:00:00", 1),
        ("11:00:00", "12:00:00", 2),
        ("09:50:00", "12:00:00", 1),
        ("09:50:00", "09:55:00", 2),
    ],
    ids=["within recovery", "after recovery", "opened before and open then", "closed before"],
)
def test_a_ticket_may_be_opened_until_the_node_has_recovered(start: str, end: str, failures: int) -> None:
    found = group(event("10:00:00", 79), given=ticket(start, end))
    assert len(found) == failures
    if failures == 1:
        assert found["time"].tolist() == [pd.Timestamp("2026-01-04T10:00:00Z")]
        assert found["end"].tolist() == [pd.Timestamp("2026-01-04T12:00:00Z")]


@pytest.mark.parametrize(("start", "code"), [("10:20:00", 79), ("10:35:00", 48), ("09:00:00", 79)])
def test_a_ticket_is_of_the_latest_failure_before_it_else_of_the_first_within_it(start: str, code: int) -> None:
    found = group(event("10:00:00", 79), event("10:30:00", 48), given=ticket(start, "12:00:00"))
    assert found.loc[found["origin"] == "log+given", "xid"].tolist() == [code]


def test_an_onset_and_a_ticket_that_were_given_are_one_failure_given() -> None:
    found = group(event("10:00:00", 79, origin="given"), given=ticket("10:20:00", "12:00:00"), given_="instead")
    assert found["origin"].tolist() == ["given"]


def test_where_only_what_was_given_counts_a_late_ticket_says_when() -> None:
    found = group(event("10:00:00", 79), given=ticket("10:20:00", "12:00:00"), given_="instead")
    assert found["failure"].tolist() == ["20260104T102000Z-n1"]


def test_a_ticket_of_its_own_is_a_failure() -> None:
    failure = group(given=ticket("12:00:00", "13:00:00")).iloc[0]
    assert failure[["failure", "kind", "origin"]].tolist() == ["20260104T120000Z-n1", "disk", "given"]


def test_tickets_stay_apart_however_near_they_are() -> None:
    given = pd.concat([ticket("12:00:00", "12:05:00"), ticket("12:06:00", "12:07:00", kind="cpu")])
    assert len(group(given=given)) == 2


@pytest.mark.parametrize(("code", "more"), [(149, {"origin": "gauge"}), (45, {}), (154, {})])
def test_what_is_no_failure_by_itself_is_said_to_belong_to_the_failure_it_comes_with(
    code: int, more: dict[str, Any]
) -> None:
    first, second = incidents.explain(
        table(event("10:00:00", 149, severity="Fatal"), event("10:00:30", code, **more)), LabelSettings()
    )
    assert "is the first line of failure 20260104T100000Z-n1" in first
    assert "belongs to failure 20260104T100000Z-n1; by itself it is none: " in second


def test_a_lost_gpu_is_not_said_to_be_the_first_line_when_a_line_says_when_it_went() -> None:
    first, second = incidents.explain(
        table(absence("10:00:00", "10:01:00"), event("10:00:53", 79, gpu="GPU-a")), LabelSettings()
    )
    assert "belongs to failure" in first
    assert "is the first line of failure" in second


def test_every_event_is_explained() -> None:
    rows = table(event("10:00:00", 79), event("10:00:01", 45), event("15:00:00", 31), event("16:00:00", 149))
    first, second, third, fourth = incidents.explain(rows, LabelSettings())
    assert "is the first line of failure 20260104T100000Z-n1" in first
    assert "belongs to failure 20260104T100000Z-n1; by itself it is none" in second
    assert "is no failure: it comes from a program" in third
    assert "labels.hardware = [149] counts it" in fourth


def test_program_errors_of_several_nodes_minutes_apart_are_no_crash_of_one_job() -> None:
    rows = [event(f"10:{2 * k:02}:00", 31, node=f"n{k % 4}") for k in range(20)]
    assert len(group(*rows, preset="paper")) == 20


def test_a_cascade_does_not_go_on_for_ever() -> None:
    rows = [event(f"10:{k // 6:02}:{k % 6}0", 119, node=f"n{k}") for k in range(36)]
    assert group(*rows)["nodes"].map(len).tolist() == [18, 18]


def test_a_node_whose_flood_goes_on_draws_in_no_other() -> None:
    flood = [event(f"10:{k:02}:00", 31, node="n0") for k in range(30)]
    failures = group(*flood, event("10:20:05", 31, node="n9"), preset="paper")
    assert failures["nodes"].tolist() == [["n0"], ["n9"]]


def test_a_job_that_dies_of_several_codes_at_once_is_one_incident() -> None:
    rows = [event(f"10:00:0{k}", 31 if k == 2 else 43, node=f"n{k}") for k in range(5)]
    assert group(*rows, preset="paper")["xids"].tolist() == [[31, 43]]


def test_of_a_real_cluster_s_852_onsets_eight_large_jobs_deaths_are_an_incident_each(real_data: Path) -> None:
    onsets = pd.read_csv(real_data / "kalos" / "kalos_xid_onsets.csv")
    times = pd.to_datetime(onsets["time"], utc=True)
    kinds = [catalogue.kind(code) for code in onsets["xid"]]
    frame = onsets.assign(time=times, last=times, origin="given", count=1, kind=kinds)
    events = conform(frame.sort_values("time").drop(columns="gpu_index"), EVENTS)
    failures = incidents.group(events, LabelSettings(preset="all"))
    assert len(failures) == 32
    assert sorted(failures["count"])[-8:] == [50, 98, 100, 107, 110, 111, 115, 116]
    assert failures["count"].sum() == 852
