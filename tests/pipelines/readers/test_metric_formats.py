"""The same samples through every reader of metrics are the same panel, and the same store."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features.tables import Panel
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.live import panels
from pipelines.readers.metrics import READERS
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally
from pipelines.store import Store

CONFIG = Config()
T0 = 1_767_225_600_000
TIMES = [T0 + 15_000 * number + 37 for number in range(6)]
NS = 1_000_000
# one node, two metrics of a GPU and one of the node
SERIES: list[tuple[dict[str, str], list[float]]] = [
    ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "node": "n1", "UUID": "GPU-a"}, [40, 41.1, 42, 43, 44.5, 45]),
    ({"__name__": "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "node": "n1", "UUID": "GPU-a"}, [1e12 + k for k in range(6)]),
    ({"__name__": "node_load1", "node": "n1", "note": 'a"b\\c'}, [0.1, 0.2, 0.30000000000000004, 4, 5, 6e-12]),
]


def victoria() -> str:
    return "".join(
        json.dumps({"metric": labels, "values": values, "timestamps": TIMES}, separators=(",", ":")) + "\n"
        for labels, values in SERIES
    )


def entries() -> list[dict[str, object]]:
    return [
        {"metric": labels, "values": [[t / 1000, repr(v)] for t, v in zip(TIMES, values, strict=True)]}
        for labels, values in SERIES
    ]


def response(**layout: int) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": entries()}}, **layout)  # type: ignore[arg-type]  # json's own options


def label_text(labels: dict[str, str]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"')

    return ",".join(f'{name}="{quoted(value)}"' for name, value in labels.items())


def series_text(labels: dict[str, str]) -> str:
    rest = {name: value for name, value in labels.items() if name != "__name__"}
    return f"{labels['__name__']}{{{label_text(rest)}}}"


def rows() -> Iterator[tuple[dict[str, str], float, int]]:
    for number, stamp in enumerate(TIMES):
        for labels, values in SERIES:
            yield labels, values[number], stamp


def exposition() -> str:
    lines = [f"{series_text(labels)} {value!r} {stamp}\n" for labels, value, stamp in rows()]
    return "# TYPE node_load1 gauge\n" + "".join(lines)


def openmetrics() -> str:
    lines = [f"{series_text(labels)} {value!r} {stamp / 1000:.3f}\n" for labels, value, stamp in rows()]
    return "".join(lines) + "# EOF\n"


def tsdb_dump() -> str:
    return "".join(f"{{{label_text(labels)}}} {value!r} {stamp}\n" for labels, value, stamp in rows())


def long_frame() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "timestamp": pd.Timestamp(stamp, unit="ms", tz="UTC"),
                "metric": labels["__name__"],
                "value": value,
                "node": labels["node"],
                "UUID": labels.get("UUID", ""),
                "note": labels.get("note", ""),
            }
            for labels, value, stamp in rows()
        ]
    )


def packed_frame() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "ts": stamp,
                "metric": labels["__name__"],
                "labels": json.dumps({k: v for k, v in labels.items() if k != "__name__"}),
                "value": value,
            }
            for labels, value, stamp in rows()
        ]
    )


def text_of(name: str) -> str:
    texts = {
        "VictoriaMetrics lines": victoria,
        "API response": response,
        "API response, indented": lambda: response(indent=2),
        "API entries, one a line": lambda: "".join(json.dumps(entry) + "\n" for entry in entries()),
        "text exposition": exposition,
        "OpenMetrics": openmetrics,
        "tsdb dump": tsdb_dump,
        "long CSV": lambda: long_frame().to_csv(index=False),
        "long CSV with semicolons": lambda: long_frame().to_csv(index=False, sep=";"),
        "long CSV with labels in a cell": lambda: packed_frame().to_csv(index=False),
        "VictoriaMetrics CSV": victoria_csv,
    }
    return texts[name]()


def victoria_csv() -> str:
    """As ``/api/v1/export/csv`` writes it, under its own format string as header."""
    header = "__name__,node,UUID,note,__value__,__timestamp__:unix_ms\n"
    frame = pd.DataFrame(
        [
            [labels["__name__"], labels["node"], labels.get("UUID", ""), labels.get("note", ""), value, stamp]
            for labels, value, stamp in rows()
        ]
    )
    return header + frame.to_csv(index=False, header=False)


def chunks() -> Iterator[SampleChunk]:
    for labels, values in SERIES:
        yield SampleChunk(labels, np.array(TIMES) * NS, np.array(values, dtype=float))


def live() -> Panel:
    found, _ = panels(chunks(), CONFIG, 30_000 * NS, T0 * NS, (T0 + 90_000) * NS)
    return found["n1"]


def assert_same(store: Path) -> None:
    panel = Store.open(store).panel("n1", T0 * NS, (T0 + 90_000) * NS)
    assert panel.series == live().series
    np.testing.assert_array_equal(panel.values, live().values)


def test_a_live_panel_holds_the_last_sample_of_each_cell() -> None:
    np.testing.assert_array_equal(live().values, [[41.1, 43, 45], [1e12 + 1, 1e12 + 3, 1e12 + 5], [0.2, 4, 6e-12]])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("VictoriaMetrics lines", "victoria"),
        ("API response", "prometheus-json"),
        ("API response, indented", "prometheus-json"),
        ("API entries, one a line", "prometheus-json"),
        ("text exposition", "exposition"),
        ("OpenMetrics", "exposition"),
        ("tsdb dump", "tsdb-dump"),
        ("long CSV", "csv-long"),
        ("long CSV with semicolons", "csv-long"),
        ("long CSV with labels in a cell", "csv-long"),
        ("VictoriaMetrics CSV", "csv-long"),
    ],
)
def test_every_text_format_gives_the_same_panel(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / "export"
    path.write_text(text_of(name), encoding="utf-8")
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert (item["format"], item["ok"], item["rejected"]) == (kind, 18, {})
    assert_same(tmp_path / "s")


@pytest.mark.parametrize("form", ["long", "labels in a cell", "indexed by time"])
def test_every_form_of_parquet_gives_the_same_panel(tmp_path: Path, form: str) -> None:
    frame = packed_frame() if form == "labels in a cell" else long_frame()
    if form == "indexed by time":
        frame = frame.set_index("timestamp")
    frame.to_parquet(tmp_path / "export")
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "export"])["inputs"]
    assert (item["format"], item["ok"], item["rejected"]) == ("parquet", 18, {})
    assert_same(tmp_path / "s")


def wide_frame() -> pd.DataFrame:
    return pd.DataFrame({"time": pd.to_datetime(TIMES, unit="ms", utc=True), "load": [1.0, 2, 3, 4, 5, 6]})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_wide_table_takes_its_node_from_the_files_name(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"n7.{ending}"
    if ending == "csv":
        wide_frame().to_csv(path, index=False)
    else:
        wide_frame().to_parquet(path)
    ingest(tmp_path / "s", CONFIG, metrics=[path])
    panel = Store.open(tmp_path / "s").panel("n7", T0 * NS, (T0 + 90_000) * NS)
    np.testing.assert_array_equal(panel.values, [[2, 4, 6]])


def test_a_wide_table_may_hold_several_nodes(tmp_path: Path) -> None:
    frame = pd.concat([wide_frame().assign(node="n1"), wide_frame().assign(node="n2", load=9.0)])
    frame.to_csv(tmp_path / "all.csv", index=False)
    ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "all.csv"])
    store = Store.open(tmp_path / "s")
    assert store.nodes() == ["n1", "n2"]
    assert store.panel("n2", T0 * NS, (T0 + 30_000) * NS).values.tolist() == [[9.0]]


def test_a_table_without_a_header_is_told_by_its_first_row(tmp_path: Path) -> None:
    path = tmp_path / "n1.csv"
    path.write_text("DCGM_FI_DEV_GPU_TEMP,GPU-0a1b,41,1767225600\nDCGM_FI_DEV_GPU_TEMP,GPU-0a1b,42.5,1767225630\n")
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert (item["format"], item["ok"]) == ("csv-long", 2)
    panel = Store.open(tmp_path / "s").panel("n1", T0 * NS, (T0 + 60_000) * NS)
    assert [(series.metric, series.gpu) for series in panel.series] == [("DCGM_FI_DEV_GPU_TEMP", "GPU-0a1b")]
    assert panel.values.tolist() == [[41, 42.5]]


def test_the_user_may_name_the_columns_of_a_table_without_a_header(tmp_path: Path) -> None:
    text = "".join(line for line in victoria_csv().splitlines(keepends=True)[1:])
    (tmp_path / "export").write_text(text)
    columns = ("__name__", "node", "UUID", "note", "__value__", "__timestamp__:unix_ms")
    config = CONFIG.model_copy(update={"ingest": CONFIG.ingest.model_copy(update={"csv_columns": columns})})
    (item,) = ingest(tmp_path / "s", config, metrics=[tmp_path / "export"])["inputs"]
    assert (item["format"], item["ok"], item["rejected"]) == ("csv-long", 18, {})
    assert_same(tmp_path / "s")


def test_export_lines_may_be_written_with_blanks(tmp_path: Path) -> None:
    lines = [json.dumps({"metric": labels, "values": values, "timestamps": TIMES}) + "\n" for labels, values in SERIES]
    (tmp_path / "export").write_text("".join(lines))
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "export"])["inputs"]
    assert (item["format"], item["ok"]) == ("victoria", 18)
    assert_same(tmp_path / "s")


@pytest.mark.parametrize("first", [1_767_225_600_000, 1_767_299_999_990, 999_999_999_000, 1_767_225_600_123])
def test_times_of_export_lines_are_exact_however_they_are_written(tmp_path: Path, first: int) -> None:
    stamps = [first, first + 7, first + 20, first - 3, first + 10**8]
    entry = {"metric": {"__name__": "m", "node": "n1"}, "values": [1, 2, 3, 4, 5], "timestamps": stamps}
    (tmp_path / "export").write_text(json.dumps(entry, separators=(",", ":")))
    (chunk,) = READERS["victoria"](tmp_path / "export", Tally(), ReadContext())
    assert chunk.times.tolist() == [stamp * NS for stamp in stamps]


def test_cells_that_are_empty_or_no_number_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "n1.csv"
    path.write_text("time,a,b\n2026-01-01T00:00:00Z,1,\n2026-01-01T00:00:30Z,oops,NaN\nyesterday,1,1\n1,2\n")
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert item["ok"] == 1
    assert item["rejected"] == {
        "empty": 1,
        "nan": 1,
        "not a number": 1,
        "row of another length": 1,
        "unreadable time": 2,
    }


def test_a_time_without_a_zone_is_in_the_zone_that_was_said(tmp_path: Path) -> None:
    path = tmp_path / "n1.csv"
    path.write_text("time,a\n2026-05-04 08:15:00,1\n")
    report = ingest(tmp_path / "s", CONFIG, metrics=[path], timezone="America/New_York")
    assert report["start"] == "2026-05-04T12:15:00+00:00"


def test_a_time_with_a_stray_sign_is_no_time(tmp_path: Path) -> None:
    path = tmp_path / "n1.csv"
    path.write_text("time,a\n2026-05-04 08:15:00,1\n2026-05-04 08:1-5:00,1\n")
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert (item["ok"], item["rejected"]) == (1, {"unreadable time": 1})


def test_one_file_a_metric_with_a_column_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "XID_ERRORS.csv"
    path.write_text(
        "Time,172.31.0.122-0,172.31.0.122-1,172.31.0.7-0\n"
        "2023-08-15 15:30:15+08:00,0,,0\n2023-08-15 15:30:30+08:00,43,,0\n"
    )
    report = ingest(tmp_path / "s", CONFIG, metrics=[path])
    assert (report["inputs"][0]["format"], report["inputs"][0]["rejected"]) == ("csv-node-gpu", {"empty": 2})
    store = Store.open(tmp_path / "s")
    assert store.nodes() == ["172.31.0.122", "172.31.0.7"]
    start, end = store.span()
    panel = store.panel("172.31.0.122", start, end)
    assert [(series.metric, series.gpu) for series in panel.series] == [("DCGM_FI_DEV_XID_ERRORS", "172.31.0.122-0")]
    assert panel.values.tolist() == [[0, 43]]
    assert report["start"] == "2023-08-15T07:30:00+00:00"


def test_values_that_are_not_finite_are_counted_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "api.json"
    path.write_text(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"m","node":"n1"},"values":'
        '[[1767225600,"1"],[1767225615,"NaN"],[1767225630,"+Inf"],[1767225645,"-Inf"],[1767225660.5,"2e0"]]}]}}'
    )
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert (item["ok"], item["rejected"]) == (2, {"+inf": 1, "-inf": 1, "nan": 1})


def test_a_null_of_victoria_metrics_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text(
        '{"metric":{"__name__":"m","node":"n1"},"values":[1,null,2],"timestamps":[1767225600000,1767225630000,1767225660000]}\n'
    )
    ingest(tmp_path / "s", CONFIG, metrics=[path])
    panel = Store.open(tmp_path / "s").panel("n1", T0 * NS, (T0 + 90_000) * NS)
    np.testing.assert_array_equal(panel.values, [[1, np.nan, 2]])


def test_a_native_histogram_is_counted_and_what_is_beside_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "api.json"
    path.write_text(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"h"},"histograms":'
        '[[1767225600,{"count":"3","sum":"0.6","buckets":[[0,"0.1","0.2","3"]]}]]},'
        '{"metric":{"__name__":"g","node":"n1"},"values":[[1767225600,"1"]]}]}}'
    )
    (item,) = ingest(tmp_path / "s", CONFIG, metrics=[path])["inputs"]
    assert (item["ok"], item["rejected"]) == (1, {"native_histogram": 1})


def test_a_page_without_times_needs_to_be_told_when_it_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "page"
    path.write_text('# HELP m x\nm{node="n1"} 1\n')
    report = ingest(tmp_path / "s", CONFIG, metrics=[path], reference_time=pd.Timestamp("2026-01-01T00:00:10Z"))
    assert report["start"] == "2026-01-01T00:00:00+00:00"


def test_the_real_pages_are_read_whole(tmp_path: Path, real_data: Path) -> None:
    report = ingest(
        tmp_path / "s",
        CONFIG,
        metrics=[real_data / "exposition"],
        node="n1",
        reference_time=pd.Timestamp("2026-01-01T00:00:10Z"),
    )
    assert report["errors"] == []
    broken = {reason for item in report["inputs"] for reason in item["rejected"]}
    assert broken <= {"nan", "+inf", "-inf"}
