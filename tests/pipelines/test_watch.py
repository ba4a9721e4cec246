"""What was known by a window's end: no event is told before it could be."""

from itertools import pairwise

import numpy as np
import pandas as pd

from features.settings import CodeSettings, LabelSettings
from features.tables import EVENTS, GPUS, LOGS, Panel, Series, conform, to_ns, to_time
from pipelines.watch import Evidence, Hindsight, Watch
from tests import small_cluster

STEP = small_cluster.STEP
START, END = small_cluster.START, small_cluster.END
STRIDE = 300_000_000_000


def watch(lines: pd.DataFrame | None = None, pieces: int = 1, **gauges: float) -> Watch:
    """A watch of the small cluster, read in pieces; a gauge is the time from which it shows 79."""
    made = Watch("key", STEP, START, START, small_cluster.gpus())
    bounds = np.linspace(0, len(small_cluster.TIMES), pieces + 1).astype(int)
    panels = {node: small_cluster.panel(node) for node in small_cluster.NODES}
    for node, since in gauges.items():
        row = panels[node].series.index(Series("DCGM_FI_DEV_XID_ERRORS", f"GPU-{node}a"))
        panels[node].values[row, panels[node].times >= since] = 79.0
    told = LOGS.empty() if lines is None else lines
    for low, high in pairwise(bounds.tolist()):
        start, end = START + int(low) * STEP, START + int(high) * STEP
        cut = {n: Panel(n, p.times[low:high], p.series, p.values[:, low:high]) for n, p in panels.items()}
        inside = (told["time"] >= to_time(start)) & (told["time"] < to_time(end))
        made.add(Evidence(cut, {}, told[inside].reset_index(drop=True), start, end), small_cluster.NODES)
    return made


def at(text: str) -> int:
    return START + small_cluster.at(text) * STEP


def xid_line(text: str) -> pd.DataFrame:
    row = {
        "node": "n1", "time": to_time(at(text)), "source": "kernel", "severity": "err", "kernel": True, "count": 1,
        "message": "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.",
    }  # fmt: skip
    return conform(pd.DataFrame([row]), LOGS)


def of(events: pd.DataFrame, node: str, origin: str) -> int:
    return int(((events["node"] == node) & (events["origin"] == origin)).sum())


def test_a_lost_gpu_is_known_five_minutes_on_and_no_earlier() -> None:
    seen = watch()
    assert of(seen.events(at("00:34")), "n3", "absence") == 0
    assert of(seen.events(at("00:36")), "n3", "absence") == 1


def test_a_line_is_known_once_it_is_written() -> None:
    seen = watch(xid_line("00:20"))
    assert of(seen.events(at("00:20")), "n1", "kernel") == 0
    assert len(seen.events(at("00:21")).query("node == 'n1'")) == 1


def test_a_gauge_that_changes_is_an_event_once() -> None:
    seen = watch(n1=at("00:20"))
    assert of(seen.events(at("00:20")), "n1", "gauge") == 0
    assert of(seen.events(at("01:20")), "n1", "gauge") == 1


def test_read_in_pieces_is_read_at_once() -> None:
    whole, parts = watch(xid_line("00:20"), n4=at("00:31")), watch(xid_line("00:20"), pieces=7, n4=at("00:31"))
    for end in range(at("23:00"), END, 2 * STRIDE):
        pd.testing.assert_frame_equal(parts.events(end), whole.events(end))


def test_asked_with_rising_ends_it_says_what_it_says_afresh() -> None:
    rising = watch()
    for end in range(at("23:00"), END + 1, STRIDE):
        told = rising.events(end)
        if end % (6 * STRIDE) == 0:
            pd.testing.assert_frame_equal(told, watch().events(end))


def test_what_is_kept_is_what_was_seen() -> None:
    seen = watch(xid_line("00:20"), n4=at("00:31"))
    kept = Watch.from_bytes(seen.to_bytes(), "key")
    assert kept is not None
    for end in (at("00:21"), at("00:45"), END):
        pd.testing.assert_frame_equal(kept.events(end), seen.events(end))
    assert (kept.since, kept.upto, kept.heard) == (seen.since, seen.upto, seen.heard)


def test_what_was_kept_under_other_settings_is_not_used() -> None:
    assert Watch.from_bytes(watch().to_bytes(), "other") is None


def test_a_week_on_nothing_of_it_is_held() -> None:
    seen = watch(xid_line("00:20"))
    seen.upto += 9 * 86_400_000_000_000
    seen.trim()
    assert seen.told.empty
    assert all(len(sight.times) == 0 for sight in seen.sights.values())


def test_a_failure_begins_once_for_each_node() -> None:
    seen = watch(xid_line("00:21"))
    past = Hindsight(seen, LabelSettings(), None)
    ends = list(range(to_ns("2026-01-02T00:00:00Z"), END + 1, STRIDE))
    windows = pd.DataFrame([(node, to_time(end)) for end in ends for node in ("n1", "n3")], columns=["node", "end"])
    began = windows[past.began(windows, STRIDE)]
    told = [f"{node} {end:%H:%M}" for node, end in zip(began["node"], began["end"], strict=True)]
    assert told == ["n1 00:25", "n3 00:35"]


def rung(shipped: str) -> list[str]:
    """Windows by which a failure of n1 at 00:24 is told, when its line is there from a time on."""
    lines, told = xid_line("00:24"), []
    seen = Watch("key", STEP, START, START, small_cluster.gpus())
    for end in range(at("00:20"), at("01:20"), STRIDE):
        there = lines if end >= at(shipped) else lines.iloc[:0]
        seen.add(Evidence({}, {}, there, START, end), small_cluster.NODES)
        kept = Watch.from_bytes(seen.to_bytes(), "key")
        assert kept is not None
        asked = pd.DataFrame([("n1", to_time(end))], columns=["node", "end"])
        if Hindsight(kept, LabelSettings(), None).began(asked, STRIDE).any():
            told.append(f"{to_time(end):%H:%M}")
    return told


def test_a_line_that_comes_late_begins_a_failure_once_by_the_next_window() -> None:
    assert rung(shipped="00:24") == ["00:25"]
    assert rung(shipped="00:26") == ["00:30"]


def test_a_line_that_comes_when_its_horizon_is_over_is_no_news() -> None:
    assert rung(shipped="00:54") == ["00:55"]
    seen = rung(shipped="01:40")
    assert seen == []


def test_a_code_that_the_user_calls_harmless_begins_no_failure() -> None:
    seen = watch(xid_line("00:21"))
    windows = pd.DataFrame([("n1", to_time(at("00:25")))], columns=["node", "end"])
    harmless = LabelSettings(codes={79: CodeSettings(kind="application")})
    assert Hindsight(seen, LabelSettings(), None).began(windows, STRIDE).all()
    assert not Hindsight(seen, harmless, None).began(windows, STRIDE).any()


def test_codes_that_the_user_counts_begin_a_failure_and_no_others() -> None:
    seen = watch(xid_line("00:21"))
    windows = pd.DataFrame([("n1", to_time(at("00:25")))], columns=["node", "end"])
    assert not Hindsight(seen, LabelSettings(not_hardware=(79,)), None).began(windows, STRIDE).any()
    degraded = xid_line("00:21").assign(message="NVRM: Xid (PCI:0000:1b:00): 94, pid=1, Contained: CE User Channel")
    assert not Hindsight(watch(degraded), LabelSettings(), None).began(windows, STRIDE).any()
    assert Hindsight(watch(degraded), LabelSettings(hardware=(94,)), None).began(windows, STRIDE).all()


def test_an_nvlink_error_on_the_gauge_alone_is_known_once_the_node_has_gone() -> None:
    seen = Watch("key", STEP, START, START, GPUS.empty())
    times = START + np.arange(480) * STEP
    values = np.ones((2, 480))
    values[1] = np.where(times < at("00:21"), 0.0, 149.0)
    values[:, (times >= at("00:31")) & (times < at("01:10"))] = np.nan
    series = (Series("DCGM_FI_DEV_GPU_TEMP", "GPU-a"), Series("DCGM_FI_DEV_XID_ERRORS", "GPU-a"))
    other = np.ones((2, 480))
    other[1] = np.where(times < at("00:05"), 0.0, 74.0)  # the node before it in every table
    panels = {"n0": Panel("n0", times, series, other), "n1": Panel("n1", times, series, values)}
    seen.add(Evidence(panels, {}, LOGS.empty(), START, int(times[-1]) + STEP), ["n0", "n1"])
    past = Hindsight(seen, LabelSettings(), None)
    ends = [at(f"00:{minute:02d}") for minute in range(20, 60, 5)]
    windows = pd.DataFrame([("n1", to_time(end)) for end in ends], columns=["node", "end"])
    began = windows["end"][past.began(windows, STRIDE)]
    assert [f"{end:%H:%M}" for end in began] == ["00:35"]
    assert past.at(at("00:35")).failures["time"].tolist() == [to_time(at("00:05")), to_time(at("00:21"))]
    assert past.at(at("00:30")).failures["node"].tolist() == ["n0"]


def test_a_watch_that_saw_nothing_knows_nothing() -> None:
    seen = Watch("key", STEP, START, START, GPUS.empty())
    assert seen.events(END).equals(EVENTS.empty())


def test_a_gpu_that_is_lost_again_is_a_failure_again() -> None:
    seen = Watch("key", STEP, START, START, GPUS.empty())
    times = START + np.arange(480) * STEP
    values = np.ones((2, 480))
    values[0, 60:120] = values[0, 300:] = np.nan  # half an hour from 00:30 on, and for good from 02:30 on
    series = (Series("DCGM_FI_DEV_GPU_TEMP", "GPU-a"), Series("DCGM_FI_DEV_GPU_TEMP", "GPU-b"))
    end = int(times[-1]) + STEP
    seen.add(Evidence({"n1": Panel("n1", times, series, values)}, {}, LOGS.empty(), START, end), ["n1"])
    ends = pd.DatetimeIndex([to_time(START + minute * 60_000_000_000) for minute in range(5, 241, 5)])
    windows = pd.DataFrame({"node": "n1", "end": ends})
    began = Hindsight(seen, LabelSettings(), None).began(windows, STRIDE)
    assert [(end - to_time(START)).total_seconds() / 60 for end in ends[began]] == [35, 155]
