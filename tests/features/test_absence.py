"""GPUs that vanish without an XID."""

import numpy as np
import pandas as pd

from features.absence import Sight, join, lost_gpus
from features.tables import EVENTS, GPUS, check, conform

MINUTE = 60_000_000_000
START = pd.Timestamp("2026-01-01T00:00:00Z").value


def lost(*rows: str, pci: tuple[str, ...] = (), answered: bool = False) -> list[tuple[str, int]]:
    """GPU and minute of each loss; a row has a mark for each minute, "." is absent and "*" stands for 30 of "x"."""
    marks = [row.replace("*", "x" * 30).replace("_", "." * 30) for row in rows]
    seen = np.array([[mark == "x" for mark in row] for row in marks])
    names = tuple(f"GPU-{place}" for place in range(len(rows)))
    times = np.arange(seen.shape[1]) * MINUTE + START
    gpus = GPUS.empty()
    if pci:
        first = pd.Timestamp("2026-01-01T00:00:00Z")
        gpus = conform(pd.DataFrame({"node": "n1", "gpu": names, "pci": pci, "first": first, "last": first}), GPUS)
    events = check(lost_gpus(Sight(times, names, seen, np.full(len(times), answered)), "n1", gpus), EVENTS)
    return [(gpu, (time.value - START) // MINUTE) for gpu, time in zip(events["gpu"], events["time"], strict=True)]


def test_a_gpu_that_ends_while_its_sibling_goes_on_is_lost_then() -> None:
    assert lost("*_", "**") == [("GPU-0", 30)]


def test_a_scrape_that_fails_right_after_does_not_date_the_loss_later() -> None:
    assert lost("*" + "." * 12, "*x.xxxxxxxxxx") == [("GPU-0", 30)]


def test_a_dead_exporter_loses_no_gpu() -> None:
    assert lost("*_*", "*_*") == []


def test_a_node_that_goes_down_for_good_loses_no_gpu() -> None:
    assert lost("*_", "*_") == []


def test_lost_scrapes_lose_no_gpu() -> None:
    assert lost("xx.xx...xxxxx*", "*xxxxxxxxxxxxx") == []


def test_a_gpu_that_does_not_come_back_after_a_reboot_is_lost_when_its_siblings_are_back() -> None:
    assert lost("*__", "*_*") == [("GPU-0", 60)]


def test_a_gpu_that_goes_minutes_before_its_node_and_does_not_come_back_was_lost_then() -> None:
    assert lost("*....__", "*xxxx_*") == [("GPU-0", 30)]


def test_a_gpu_that_goes_seconds_before_its_node_and_does_not_come_back_is_missed_at_the_return() -> None:
    assert lost("*.__", "*x_*") == [("GPU-0", 61)]


def test_a_gpu_that_goes_minutes_before_its_node_and_comes_back_is_no_loss() -> None:
    assert lost("*...._*", "*xxxx_*") == []


def test_the_end_of_the_data_is_no_loss() -> None:
    assert lost("*....", "*xxxx") == []


def test_several_that_leave_and_return_together_are_a_change_of_coverage() -> None:
    assert lost("*_*", "*_*", "***") == []


def test_a_gpu_that_is_swapped_is_not_lost() -> None:
    assert lost("*_", "_*", "**", pci=("0000:01:00", "0000:01:00", "0000:02:00")) == []


def test_a_gpu_that_comes_and_goes_all_day_is_exported_by_allocation() -> None:
    assert lost("*_*_*_*_*", "*********") == []


def test_the_only_gpu_of_a_node_is_lost_when_its_exporter_still_answers() -> None:
    assert lost("*_", answered=True) == [("GPU-0", 30)]


def test_a_loss_lies_between_the_last_cell_with_the_gpu_and_the_first_in_which_only_its_siblings_were_seen() -> None:
    """Minute 3 was not scraped at all."""
    seen = np.array([[mark == "x" for mark in row] for row in ("xxx.......", "xxx.xxxxxx")])
    times = np.arange(10) * MINUTE + START
    event = lost_gpus(Sight(times, ("GPU-0", "GPU-1"), seen, np.zeros(10, dtype=bool)), "n1", GPUS.empty())
    assert [(moment.value - START) // MINUTE for moment in event[["time", "last"]].iloc[0]] == [3, 5]


def test_days_are_joined_by_their_gpus() -> None:
    days = [
        Sight(np.array([0, 1]), ("GPU-a",), np.array([[True, False]]), np.zeros(2, dtype=bool)),
        Sight(np.array([2]), ("GPU-b",), np.array([[True]]), np.zeros(1, dtype=bool)),
    ]
    assert join(days).seen.tolist() == [[True, False, False], [False, False, True]]
