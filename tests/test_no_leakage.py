"""The future is poisoned: whatever comes after a window's end moves no bit of its row."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from features import log_columns, matrix, meaning, names, windows
from features.masking import lines_table
from features.settings import LabelSettings
from features.tables import EVENTS, Matrix, Panel, Series, conform, to_ns, to_time
from features.xid import is_target_line
from pipelines import featurise
from pipelines.config import Config
from tests import small_cluster as made

CONFIG = Config()
NOW = to_ns("2026-01-02T00:15:00Z")
REST = [end for end in windows.ends(made.START, made.END, CONFIG.features.window).tolist() if end <= NOW]


def rows(poisoned: bool) -> Matrix:
    """Rows of every window up to now, with all of the future there or with another."""
    panels = {node: made.panel(node) for node in made.NODES}
    lines, failures, events, gpus = made.logs(), made.failures(), made.events(), made.gpus()
    templates = log_columns.learn(lines_table(lines).table, windows.at(made.NODES, REST, CONFIG.features.window))
    if poisoned:
        rng = np.random.default_rng(5)
        later = made.TIMES >= NOW
        for node, panel in panels.items():
            values = panel.values.copy()
            values[:, later] = rng.normal(1e12, 1e11, (len(values), int(later.sum())))
            values[:, later & (rng.random(len(later)) < 0.3)] = np.nan
            extra = np.where(later, 1.0, np.nan)[None]
            series = (*panel.series, Series("brand_new_total"), Series("DCGM_FI_DEV_GPU_TEMP", "GPU-new"))
            panels[node] = Panel(node, panel.times, series, np.vstack([values, extra, extra]))
        after = lines["time"] >= to_time(NOW)
        lines.loc[after, "message"] = "a line nobody has ever heard"
        lines = pd.concat([lines, lines[after], lines[after]], ignore_index=True)
        failures["end"] = to_time(made.END)
        failures = pd.concat([failures, failures.assign(failure="g", time=to_time(NOW), node="n1")], ignore_index=True)
        events.loc[events["time"] >= to_time(NOW), "kind"] = "degradation"
        more = events.assign(time=to_time(NOW), kind="degradation", node="n1")
        events = conform(pd.concat([events, more], ignore_index=True), EVENTS)
        gpus["last"] = to_time(NOW)
        newcomer = gpus.iloc[:1].assign(gpu="GPU-new", first=to_time(NOW))
        gpus = pd.concat([gpus, newcomer], ignore_index=True)
    return featurise.live_matrix(
        panels,
        lines,
        matrix.Past(failures, events),
        REST,
        CONFIG,
        step_ns=made.STEP,
        templates=templates,
        gpus=gpus,
        heard=made.NODES,
    )


@pytest.fixture(scope="module")
def honest() -> Matrix:
    return rows(poisoned=False)


def test_a_poisoned_future_moves_no_bit_of_a_past_row(honest: Matrix) -> None:
    poisoned = rows(poisoned=True)
    held = poisoned.X.reindex(columns=honest.X.columns)
    same = (held.to_numpy().view(np.uint32) == honest.X.to_numpy().view(np.uint32)) | (
        held.isna().to_numpy() & honest.X.isna().to_numpy()
    )
    assert honest.X.columns[~same.all(axis=0)].tolist() == []
    brought = poisoned.X.columns.difference(honest.X.columns)
    assert "brand_new_total__maximum" in brought
    assert poisoned.X[brought].isna().all(axis=None)


def test_the_same_poison_moves_rows_of_the_future() -> None:
    end = [NOW + 600_000_000_000]
    clean = {node: made.panel(node) for node in made.NODES}
    spoilt = {}
    for node, panel in clean.items():
        values = panel.values.copy()
        values[0, made.TIMES >= NOW] = 1e9
        spoilt[node] = Panel(node, panel.times, panel.series, values)
    one, other = (
        featurise.live_matrix(panels, made.logs(), featurise.nothing_past(), end, CONFIG, step_ns=made.STEP).X
        for panels in (clean, spoilt)
    )
    assert (one["node_load1__maximum"] != other["node_load1__maximum"]).all()


def test_no_column_comes_from_what_names_the_failure(honest: Matrix) -> None:
    assert any(meaning.is_target(series.metric) for series in made.panel("n1").series)
    assert [column for column in honest.X.columns if meaning.is_target(names.original(column))] == []


def test_a_line_that_names_the_failure_changes_no_row() -> None:
    end = [NOW]
    lines = made.logs()
    templates = log_columns.learn(lines_table(lines).table, windows.at(made.NODES, REST, CONFIG.features.window))
    telling = lines.iloc[:1].assign(
        time=to_time(NOW - 60_000_000_000),
        message="NVRM: Xid (PCI:0000:4e:00): 79, pid=9962, name=python, GPU has fallen off the bus.",
    )
    assert is_target_line(telling["message"]).all()
    one, other = (
        featurise.live_matrix(
            {node: made.panel(node) for node in made.NODES},
            given,
            featurise.nothing_past(),
            end,
            CONFIG,
            step_ns=made.STEP,
            templates=templates,
        ).X
        for given in (lines, pd.concat([lines, telling], ignore_index=True))
    )
    assert one.equals(other)


def test_labels_alone_look_ahead_and_never_reach_the_columns(tmp_path: Path) -> None:
    store = made.store(tmp_path / "store")
    past = matrix.Past(made.failures(), made.events())
    near = featurise.historic_matrix(store, CONFIG, past, workers=1)
    wide = Config(labels=LabelSettings.model_validate({"horizon": "2h"}))
    far = featurise.historic_matrix(store, wide, past, workers=1)
    assert not near.labels.equals(far.labels)
    assert near.X.equals(far.X)
