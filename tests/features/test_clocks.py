"""A log whose clock is not that of the metrics is noticed by an error that both tell."""

import pandas as pd
import pytest

from features.clocks import apart
from features.tables import EVENTS, conform

TEN = pd.Timestamp("2026-01-01T10:00:00Z")


def events(*told: tuple[str, float, int], gpu: str = "GPU-a") -> pd.DataFrame:
    """Of origin, minutes after ten, and code, on one GPU of n1."""
    times = [TEN + pd.Timedelta(minutes=minutes) for _, minutes, _ in told]
    rows = {"node": "n1", "gpu": gpu, "time": times, "last": times, "count": 1}
    return conform(pd.DataFrame(rows).assign(origin=[row[0] for row in told], xid=[row[2] for row in told]), EVENTS)


@pytest.mark.parametrize(
    ("minutes", "seconds"), [(7, 420), (-7, -420), (300, 18_000), (-418, -25_080), (4, None), (80, None), (1000, None)]
)
def test_one_error_told_minutes_or_whole_hours_apart_is_a_doubt(minutes: float, seconds: float | None) -> None:
    found = apart(events(("gauge", 0, 79), ("log", minutes, 79)))
    assert found == ({} if seconds is None else {"n1": seconds})


def test_an_error_with_its_echo_near_is_no_doubt() -> None:
    assert apart(events(("log", -1, 79), ("gauge", 0, 79), ("log", 7, 79))) == {}


def test_another_code_or_another_gpu_is_no_echo() -> None:
    assert apart(events(("gauge", 0, 31), ("log", 7, 79))) == {}
    both = [events(("gauge", 0, 79)), events(("log", 7, 79), gpu="GPU-b")]
    assert apart(pd.concat(both, ignore_index=True)) == {}
