import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features import checkpoint_columns, log_columns, matrix, phase, presence, windows
from features import history as been
from features.masking import lines_table
from features.settings import TemplateSettings
from features.tables import LOGS, InputError, Matrix, Panel, conform, to_time
from features.templates import Templates
from pipelines import featurise
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store, frame_bytes
from tests import small_cluster as made

CONFIG = Config()
PAST = matrix.Past(made.failures(), made.events())


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return made.store(tmp_path_factory.mktemp("featurise") / "store")


@pytest.fixture(scope="module")
def templates() -> Templates:
    asked = windows.make(made.NODES, made.START, made.END, CONFIG.features.window)
    return log_columns.learn(lines_table(made.logs()).table, asked)


@pytest.fixture(scope="module")
def history(store: Store, templates: Templates) -> Matrix:
    return featurise.historic_matrix(store, CONFIG, PAST, templates=templates, workers=1)


def seen(panel: Panel) -> Panel:
    """Only the series with a sample, as a query gives them."""
    some = [not np.isnan(row).all() for row in panel.values]
    series = tuple(one for one, known in zip(panel.series, some, strict=True) if known)
    return Panel(panel.node, panel.times, series, panel.values[some])


def live(ends: list[int], templates: Templates, nodes: tuple[str, ...] = made.NODES) -> Matrix:
    reach = matrix.reach(CONFIG.features)
    panels = {node: seen(made.panel(node).between(min(ends) - reach, max(ends))) for node in nodes}
    lines = made.logs()
    inside = (lines["time"] >= to_time(min(ends) - reach)) & (lines["time"] < to_time(max(ends)))
    return featurise.live_matrix(
        panels,
        lines[inside],
        PAST,
        ends,
        CONFIG,
        step_ns=made.STEP,
        templates=templates,
        gpus=made.gpus(),
        heard=made.NODES,
    )


def differing(left: pd.DataFrame, right: pd.DataFrame) -> list[str]:
    """Columns in which two frames of the same rows are not equal bit for bit; an absent column is all NaN."""
    columns = sorted({*left.columns, *right.columns})
    right = right.loc[left.index]
    one, other = (frame.reindex(columns=columns).to_numpy(dtype=np.float32) for frame in (left, right))
    same = (one.view(np.uint32) == other.view(np.uint32)) | (np.isnan(one) & np.isnan(other))
    return [column for column, equal in zip(columns, same.all(axis=0), strict=True) if not equal]


def test_history_has_one_row_a_window_of_every_family(history: Matrix) -> None:
    assert len(history.X) == 5 * 36
    assert history.X.dtypes.unique().tolist() == [np.dtype("float32")]
    kinds = {column.partition(".")[0] for column in history.X.columns}
    assert {"presence", "phase", "history", "logs", "node_load1__mean", "DCGM_FI_DEV_GPU_TEMP"} <= kinds
    assert set(checkpoint_columns.COLUMNS) <= kinds
    assert history.X[list(checkpoint_columns.COLUMNS)].notna().any().all()
    assert "DCGM_FI_DEV_GPU_TEMP.gpu_spread.peer__mean" in history.X.columns
    assert history.X.index.equals(
        pd.MultiIndex.from_arrays([history.windows["node"], history.windows["end"]], names=["node", "end"])
    )


def test_every_window_scored_alone_has_the_row_it_has_in_history(history: Matrix, templates: Templates) -> None:
    for end in windows.ends(made.START, made.END, CONFIG.features.window).tolist():
        got = live([end], templates)
        then = history.X[history.X.index.get_level_values("end") == to_time(end)]
        assert differing(then, got.X) == [], to_time(end)


def test_windows_scored_in_a_batch_have_the_rows_they_have_in_history(history: Matrix, templates: Templates) -> None:
    ends = windows.ends(made.START, made.END, CONFIG.features.window).tolist()
    assert differing(history.X, live(ends, templates).X) == []


def test_a_flood_of_lines_gives_the_same_columns_live_as_in_history(tmp_path: Path, templates: Templates) -> None:
    config = Config().model_copy(
        update={"features": CONFIG.features.model_copy(update={"templates": TemplateSettings(flood_lines=10)})}
    )
    store = made.store(tmp_path / "store")
    text = [f"{a}{b} is odd" for a in "abcdefgh" for b in "ijklmnop"]
    start = pd.Timestamp("2026-01-01T23:58:00Z")
    flood = pd.DataFrame({"time": pd.date_range(start, periods=64, freq="5s", unit="ns"), "message": text, "count": 1})
    lines = pd.concat([made.logs(), conform(flood.assign(node="n1"), LOGS)]).sort_values("time", kind="stable")
    days = lines["time"].astype("int64") // DAY_NS
    for day in days.unique().tolist():
        of_day = lines[(lines["node"] == "n1") & (days == day)]
        (store.logs_path("n1", day)).write_bytes(frame_bytes(of_day))
    then = featurise.historic_matrix(store, config, PAST, templates=templates, workers=1)
    ends = windows.ends(made.START, made.END, config.features.window).tolist()
    panels = {node: seen(made.panel(node)) for node in made.NODES}
    now = featurise.live_matrix(
        panels, lines, PAST, ends, config, step_ns=made.STEP, templates=templates, gpus=made.gpus(), heard=made.NODES
    )
    assert differing(then.X, now.X) == []
    assert np.expm1(then.X["logs.lines__value"].max()) > 40


def test_lines_read_a_stretch_at_a_time_are_those_read_at_once(store: Store, history: Matrix) -> None:
    counts: Counter[str] = Counter()
    found = featurise.lines(store, CONFIG, history.windows, counts)
    whole = lines_table(store.logs(*store.span()))
    pd.testing.assert_frame_equal(found, whole.table)
    assert counts == whole.counts


def test_a_window_without_a_sample_has_the_columns_of_the_history_and_knows_nothing(
    history: Matrix, templates: Templates
) -> None:
    end = windows.ends(made.START, made.END, CONFIG.features.window).tolist()[-1]
    panels = {node: made.panel(node) for node in made.NODES}
    for panel in panels.values():
        panel.values[:, panel.times >= end - matrix.reach(CONFIG.features)] = np.nan
    silent = made.logs().iloc[:0]
    found = featurise.live_matrix(
        panels, silent, PAST, [end], CONFIG, step_ns=made.STEP, templates=templates, gpus=made.gpus(), heard=made.NODES
    ).X
    assert set(history.X.columns) <= set(found.columns)
    told = {*presence.COLUMNS, *phase.COLUMNS, *been.COLUMNS, *log_columns.COLUMNS}
    assert found[[name for name in found.columns if name not in told]].isna().all().all()
    assert (found["presence.node_down__value"] == 1).all()


def test_a_window_with_one_sample_has_the_columns_of_the_history(history: Matrix, templates: Templates) -> None:
    end = windows.ends(made.START, made.END, CONFIG.features.window).tolist()[-1]
    panels = {node: made.panel(node).between(end - made.STEP, end) for node in made.NODES}
    found = featurise.live_matrix(
        panels, made.logs(), PAST, [end], CONFIG, step_ns=made.STEP, templates=templates, heard=made.NODES
    ).X
    assert set(history.X.columns) <= set(found.columns)
    assert found["node_load1__mean"].equals(found["node_load1__maximum"])
    assert found['node_load1__linear_trend__attr_"slope"'].isna().all()
    assert found["node_intr_total__sum_values"].isna().all()


def test_the_order_in_which_nodes_come_changes_nothing(templates: Templates) -> None:
    ends = windows.ends(made.START, made.END, CONFIG.features.window).tolist()[-3:]
    assert differing(live(ends, templates).X, live(ends, templates, made.NODES[::-1]).X) == []


def test_no_column_names_the_target(history: Matrix) -> None:
    assert [column for column in history.X.columns if "xid" in column.lower()] == []


def test_labels_stand_beside_the_rows(history: Matrix) -> None:
    warned = history.windows[history.labels["label"].to_numpy() == 1]
    assert warned["node"].unique().tolist() == ["n3"]
    assert warned["end"].min() == pd.Timestamp("2026-01-01T23:30:00Z")


def test_only_the_wanted_windows_are_given_in_the_order_they_were_wanted(store: Store, history: Matrix) -> None:
    wanted = history.windows.iloc[[100, 3, 50]]
    got = featurise.historic_matrix(store, CONFIG, PAST, wanted=wanted, workers=1)
    assert got.windows["window"].tolist() == [100, 3, 50]
    assert differing(history.X.iloc[[100, 3, 50]].drop(columns=list(log_columns.COLUMNS)), got.X) == []


def test_a_second_run_computes_nothing_and_new_samples_only_their_node(tmp_path: Path) -> None:
    store = made.store(tmp_path / "store")
    assert featurise.featurise(store, CONFIG, workers=1).computed == 10
    assert featurise.featurise(store, CONFIG, workers=1).computed == 0
    day = store.days("n1")[0]
    cells = store.day_cells("n1", day)
    series = cells.names()[0]
    cells.add(series, made.TIMES[:1] + 1, np.array([7.0]))
    store.merge_day("n1", day, cells)
    again = featurise.featurise(store, CONFIG, workers=1)
    # the day itself, and the next one that looks back into it
    assert (again.computed, again.kept) == (2, 8)


def test_a_piece_sent_elsewhere_fills_the_same_cache(tmp_path: Path, history: Matrix) -> None:
    store = made.store(tmp_path / "store")
    for piece in featurise._pieces(store, CONFIG.features, made.START, made.END):
        featurise.fill(pickle.loads(pickle.dumps(piece)))  # noqa: S301  # as an executor sends it
    assert featurise.featurise(store, CONFIG).kept == 10
    got = featurise.historic_matrix(store, CONFIG, PAST)
    assert differing(history.X.drop(columns=list(log_columns.COLUMNS)), got.X) == []


def test_a_metric_of_very_many_label_sets_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(featurise, "_MANY", 1)
    featurise.featurise(made.store(tmp_path / "store"), CONFIG, workers=1)
    said = [record.getMessage() for record in caplog.records]
    assert [line for line in said if line.startswith("node_cpu_seconds_total has 2 label sets")]
    assert all("features.panel.sum_over" in line for line in said)


def test_columns_that_say_nothing_of_their_own_are_recorded_with_the_reason(store: Store, history: Matrix) -> None:
    left_out = featurise.idle_columns(store, CONFIG)
    assert left_out
    screened = featurise.historic_matrix(store, CONFIG, PAST, screened=True, workers=1)
    gone = set(history.X.columns) - set(screened.X.columns) - set(log_columns.COLUMNS)
    assert {name.replace(".peer__", "__") for name in gone} <= set(left_out)
    assert differing(history.X[screened.X.columns], screened.X) == []
    for name, why in left_out.items():
        if why != "no value":
            twin = why.removeprefix("same as ")
            assert history.X[name].equals(history.X[twin])
    assert json.loads((store.cache_dir / "columns.json").read_bytes())["left_out"] == left_out


def test_only_the_columns_asked_for_are_made(store: Store, history: Matrix) -> None:
    asked = ["DCGM_FI_DEV_GPU_TEMP.gpu_max.peer__mean", "node_load1__mean", "presence.node_down__value"]
    got = featurise.historic_matrix(store, CONFIG, PAST, columns=asked, workers=1)
    assert sorted(got.X.columns) == asked
    assert differing(history.X[asked], got.X) == []


def test_a_damaged_cache_file_is_deleted_and_said(tmp_path: Path) -> None:
    store = made.store(tmp_path / "store")
    featurise.featurise(store, CONFIG, workers=1)
    victim = min((store.cache_dir / "rows" / "n1").iterdir())
    victim.write_bytes(victim.read_bytes()[:100])
    with pytest.raises(InputError, match="run the command again"):
        featurise.historic_matrix(store, CONFIG, PAST, workers=1)
    assert len(featurise.historic_matrix(store, CONFIG, PAST, workers=1).X) == 5 * 36


def test_a_history_shorter_than_a_window_is_refused_with_the_cure(store: Store) -> None:
    with pytest.raises(InputError, match="make --window shorter"):
        featurise.featurise(store, CONFIG, made.START, made.START + 240_000_000_000)


def test_a_node_that_should_be_there_and_sends_nothing_is_down() -> None:
    end = windows.ends(made.START, made.END, CONFIG.features.window).tolist()[-1]
    got = featurise.live_matrix(
        {"n1": made.panel("n1")}, made.logs(), PAST, [end], CONFIG, step_ns=made.STEP, nodes=["n1", "gone"]
    )
    assert got.X["presence.node_down__value"].droplevel("end").to_dict() == {"gone": 1.0, "n1": 0.0}


def test_a_node_that_only_ever_logged_is_not_down(tmp_path: Path, templates: Templates) -> None:
    store = made.store(tmp_path / "store")
    for day in store.days("n1"):
        store.panel_path("n1", day).unlink()
    others = made.gpus()[made.gpus()["node"] != "n1"]
    (store.path / "gpus.parquet").write_bytes(frame_bytes(others))
    then = featurise.historic_matrix(store, CONFIG, PAST, templates=templates, workers=1)
    of_n1 = then.X[then.X.index.get_level_values("node") == "n1"]
    assert presence.status(of_n1).unique().tolist() == ["ok"]
    panels = {node: made.panel(node) for node in made.NODES if node != "n1"}
    ends = windows.ends(made.START, made.END, CONFIG.features.window).tolist()[-2:]
    now = featurise.live_matrix(
        panels,
        made.logs(),
        PAST,
        ends,
        CONFIG,
        step_ns=made.STEP,
        templates=templates,
        gpus=others,
        nodes=made.NODES,
        heard=made.NODES,
    )
    same_time = then.X[then.X.index.get_level_values("end") >= to_time(ends[0])]
    assert differing(same_time, now.X) == []
