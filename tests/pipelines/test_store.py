from pathlib import Path

import numpy as np
import pytest

from features.tables import BusyError, InputError, Series, UsageError
from pipelines.grid import DAY_NS, Cells
from pipelines.panel_files import read_day, write_day
from pipelines.store import Store

STEP = 30_000_000_000
DAY = 20454  # 2026-01-01
START = DAY * DAY_NS


def filled(path: Path, node: str = "n1", *, days: tuple[int, ...] = (DAY,)) -> Store:
    store = Store.create(path, STEP)
    for day in days:
        cells = store.day_cells(node, day)
        times = day * DAY_NS + np.arange(4) * STEP + 7
        cells.add(Series("m", "GPU-a"), times, np.array([1.0, 2.0, 3.0, 4.1]))
        cells.add(Series('up{job="x|y"}'), times[:2], np.array([1.0, 0.0]))
        store.merge_day(node, day, cells)
    return store


def test_a_panel_comes_back_as_it_was_written(tmp_path: Path) -> None:
    panel = filled(tmp_path / "s").panel("n1", START, START + 5 * STEP)
    assert panel.series == (Series("m", "GPU-a"), Series('up{job="x|y"}'))
    np.testing.assert_array_equal(panel.values, [[1, 2, 3, 4.1, np.nan], [1, 0, np.nan, np.nan, np.nan]])
    assert panel.times.tolist() == [START + k * STEP for k in range(5)]


def test_a_panel_may_begin_and_end_within_days(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", days=(DAY, DAY + 2))
    panel = store.panel("n1", START + STEP, START + 2 * DAY_NS + 2 * STEP)
    assert panel.values.shape == (2, 2 * 2880 + 1)
    np.testing.assert_array_equal(panel.values[0, [0, 1, 2880, -2, -1]], [2, 3, np.nan, 1, 2])


def test_a_panel_may_be_read_of_some_metrics_only(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", days=(DAY, DAY + 1))
    for end in (START + 2 * STEP, START + DAY_NS + STEP):
        panel = store.panel("n1", START, end, wanted=lambda metric: metric.startswith("up"))
        assert panel.series == (Series('up{job="x|y"}'),)
        assert panel.values[0, :2].tolist() == [1.0, 0.0]
    assert store.panel("n1", START, START + 2 * STEP, wanted=lambda _: False).values.shape == (0, 2)


def test_a_panel_of_an_unknown_node_has_no_series(tmp_path: Path) -> None:
    assert filled(tmp_path / "s").panel("n9", START, START + STEP).series == ()


def test_the_times_of_samples_survive_so_that_a_later_input_decides_rightly(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    for late, wanted in ((3, 1.0), (9, 50.0)):
        cells = store.day_cells("n1", DAY)
        cells.add(Series("m", "GPU-a"), np.array([START + late]), np.array([50.0]))
        assert cells.panel("n1").values[0, 0] == wanted


def test_a_day_is_the_same_bytes_after_a_round_trip(tmp_path: Path) -> None:
    path = filled(tmp_path / "s").panel_path("n1", DAY)
    again = Cells(START, START + DAY_NS, STEP)
    read_day(path, again)
    assert write_day(again, STEP) == path.read_bytes()


def test_a_value_that_float32_would_change_is_kept_whole(tmp_path: Path) -> None:
    assert filled(tmp_path / "s").panel("n1", START, START + 4 * STEP).values[0, 3] == 4.1


def test_series_scraped_apart_keep_their_own_sample_times(tmp_path: Path) -> None:
    cells = Cells(START, START + DAY_NS, STEP)
    for number in range(20):
        cells.add(Series(f"m{number}"), np.array([START + number, START + STEP]), np.array([1.0, 2.0]))
    again = Cells(START, START + DAY_NS, STEP)
    path = tmp_path / "day.parquet"
    path.write_bytes(write_day(cells, STEP))
    read_day(path, again)
    for series in cells.names():
        np.testing.assert_array_equal(again.row(series)[1], cells.row(series)[1])


def test_nodes_days_and_span_are_told(tmp_path: Path) -> None:
    store = filled(tmp_path / "s", days=(DAY, DAY + 1))
    assert (store.nodes(), store.days("n1")) == (["n1"], [DAY, DAY + 1])
    assert store.span() == (START, START + DAY_NS + 4 * STEP)


@pytest.mark.parametrize("name", ["../../x", "a/b", "..", "n 1", "ü"])
def test_a_node_of_any_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    store = filled(tmp_path / "s", name)
    assert store.nodes() == [name]
    assert sorted(child.name for child in tmp_path.iterdir()) == ["s"]


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="foreshock ingest"):
        Store.create(tmp_path / "s", STEP).span()


def test_no_store_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no store"):
        Store.open(tmp_path)


def test_a_store_keeps_its_step(tmp_path: Path) -> None:
    Store.create(tmp_path / "s", STEP)
    with pytest.raises(UsageError, match="fixed when it is made"):
        Store.create(tmp_path / "s", 2 * STEP)


def test_a_step_must_divide_a_day(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not divide a day"):
        Store.create(tmp_path / "s", 7_000_000_000)


def test_a_folder_of_something_else_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(InputError, match="no store"):
        Store.create(tmp_path, STEP)


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s", STEP)
    with store.writing(), pytest.raises(BusyError), store.writing():
        pass


def test_a_damaged_day_is_named(tmp_path: Path) -> None:
    store = filled(tmp_path / "s")
    path = store.panel_path("n1", DAY)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="damaged"):
        store.panel("n1", START, START + STEP)


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    assert filled(tmp_path / "a").digest() == filled(tmp_path / "b").digest()
    assert filled(tmp_path / "c", "n2").digest() != filled(tmp_path / "d").digest()
