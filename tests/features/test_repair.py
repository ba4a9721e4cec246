"""When a node was whole again."""

import numpy as np
import pytest

from features.absence import Sight
from features.repair import repair

MINUTE = 60_000_000_000


def came(*rows: str, failed: int = 10, within: int = 60) -> tuple[int | None, bool]:
    """Minute of the repair and whether anything was away; a mark a minute, "." is absent."""
    seen = np.array([[mark == "x" for mark in row] for row in rows])
    times = np.arange(seen.shape[1], dtype=np.int64) * MINUTE
    names = tuple(f"GPU-{place}" for place in range(len(rows)))
    found = repair(Sight(times, names, seen, np.zeros(len(times), dtype=bool)), failed * MINUTE, within * MINUTE)
    return None if found.repaired is None else found.repaired // MINUTE, found.away


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (("x" * 40,), (None, False)),
        (("x" * 12 + "." * 10 + "x" * 18,), (22, True)),
        (("x" * 40, "x" * 12 + "." * 10 + "x" * 18), (22, True)),
        (("x" * 12 + ".",), (None, False)),
        (("x" * 12 + "." * 20,), (None, True)),
        (("x" * 12 + "." + "x" * 20,), (None, False)),
        (("x" * 12 + "..." + "x" + "...." + "x" * 20,), (20, True)),
    ],
    ids=["never away", "node", "one GPU", "the data end", "stays away", "a lost scrape", "back for a minute"],
)
def test_a_node_is_repaired_when_all_its_gpus_are_back_for_good(rows: tuple[str, ...], wanted: object) -> None:
    assert came(*rows) == wanted


def test_a_grid_finer_than_the_scrapes_has_no_outages_of_its_own() -> None:
    assert came("x." * 20) == (None, False)
    assert came("x." * 6 + "." * 10 + "x." * 9) == (22, True)


def test_a_swapped_gpu_makes_the_node_whole() -> None:
    assert came("x" * 12 + "." * 28, "." * 20 + "x" * 20, "x" * 40) == (20, True)


def test_an_outage_long_after_the_failure_is_another_s() -> None:
    assert came("x" * 80 + "." * 10 + "x" * 10) == (None, False)


def test_a_node_without_gpus_before_its_failure_tells_nothing() -> None:
    assert came("." * 15 + "x" * 10) == (None, False)
