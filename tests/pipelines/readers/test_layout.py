"""Rows of a long table by their series."""

from typing import Any

import pyarrow as pa
import pytest

from pipelines.readers import layout
from pipelines.readers.samples import ReadContext
from pipelines.readers.tally import Tally

START = 1_767_225_600


def series(values: list[float], times: Any = None, **labels: Any) -> list[tuple[dict[str, str], list[float]]]:
    """Labels beside "m" of "n1", and values, of each chunk of a long table."""
    columns = {
        "time": pa.array([START + row for row in range(len(values))]) if times is None else times,
        "metric": pa.array(["m"] * len(values)),
        "value": pa.array(values, pa.float64()),
        "node": pa.array(["n1"] * len(values)),
        **labels,
    }
    context = ReadContext()
    found = layout.find(list(columns), context)
    assert found is not None
    chunks = layout.chunks(found, list(columns.values()), Tally(), context)
    return [
        ({name: text for name, text in chunk.labels.items() if name not in ("__name__", "node")}, chunk.values.tolist())
        for chunk in chunks
    ]


def test_rows_of_several_series_in_any_order_are_each_put_to_their_own() -> None:
    assert series([1, 2, 3, 4], gpu=pa.array(["1", "0", "1", "0"]), UUID=pa.array(["b", "a", "b", "c"])) == [
        ({"gpu": "1", "UUID": "b"}, [1, 3]),
        ({"gpu": "0", "UUID": "a"}, [2]),
        ({"gpu": "0", "UUID": "c"}, [4]),
    ]


@pytest.mark.parametrize("name", ["__index_level_0__", "Unnamed: 0", ""])
def test_the_number_of_a_row_is_no_label(name: str) -> None:
    assert series([1, 2], **{name: pa.array([0, 1])}) == [({}, [1, 2])]
    wide = layout.find([name, "time", "m"], ReadContext())
    assert wide is not None
    assert wide.metrics == {2: {"__name__": "m"}}


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "", None, "a"]),
        pa.array([b"a", b"", None, b"a"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", None, "a"])),
    ],
    ids=["text", "bytes", "a dictionary with a text twice"],
)
def test_nothing_and_an_empty_label_are_one_and_so_are_equal_texts(column: Any) -> None:
    assert series([1, 2, 3, 4], gpu=column) == [({"gpu": "a"}, [1, 4]), ({}, [2, 3])]


def test_labels_may_be_numbers_maps_and_no_utf_8() -> None:
    assert series(
        [1, 2],
        gpu=pa.array([3, 3]),
        labels=pa.array([{"port": "1"}, {"port": "2"}]),
        device=pa.array([b"\xff", b"\xfe"]),
    ) == [({"port": "1", "gpu": "3", "device": "\ufffd"}, [1]), ({"port": "2", "gpu": "3", "device": "\ufffd"}, [2])]


def test_more_labels_than_a_number_holds_still_tell_series_apart() -> None:
    many = {f"l{place}": pa.array(["a", "b", "a"]) for place in range(70)}
    assert [values for _, values in series([1, 2, 3], **many)] == [[1, 3], [2]]


@pytest.mark.parametrize(
    "texts",
    [
        ["1767225600", "1767225600.5"],
        ["1767225600000000000", "1767225600500000000"],
        ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z"],
        ["1767225600", "2026-01-01T00:00:00.5Z"],
        [" 1767225600", "1767225600.5 "],
    ],
    ids=["seconds", "nanoseconds", "written out", "mixed", "with blanks"],
)
def test_times_as_text_are_read_whatever_their_form(texts: list[str]) -> None:
    found = layout.find(["time", "metric", "value"], ReadContext())
    assert found is not None
    columns = [pa.array(texts).cast(pa.binary()), pa.array([b"m", b"m"]), pa.array([b"1", b"2"])]
    (chunk,) = layout.chunks(found, columns, Tally(), ReadContext(stem="n1"))
    assert chunk.times.tolist() == [START * 10**9, START * 10**9 + 500_000_000]


def test_a_time_in_the_hour_that_comes_twice_is_dropped_by_that_reason_with_the_cure() -> None:
    texts = pa.array(["2026-11-01 00:30:00", "2026-11-01 01:30:00", "soon"])
    context, tally = ReadContext(timezone="America/New_York"), Tally()
    found = layout.find(["time", "m"], context)
    assert found is not None
    (chunk,) = layout.chunks(found, [texts, pa.array([1.0, 2.0, 3.0])], tally, context)
    assert chunk.values.tolist() == [1]
    assert tally.rejected == {"time in an hour that the clock repeats or skips": 1, "unreadable time": 1}
    assert "export in UTC" in tally.hints[0]


@pytest.mark.parametrize(
    ("stem", "metric"),
    [
        ("GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
        ("PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
        ("PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
        ("DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
        ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
    ],
)
def test_a_file_of_one_metric_is_named_as_dcgm_names_it(stem: str, metric: str) -> None:
    found = layout.find(["Time", "n1-0"], ReadContext(stem=stem))
    assert found is not None
    assert found.metrics[1]["__name__"] == metric
