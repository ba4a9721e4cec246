"""Folds never let a model see what it is judged on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.labels import label
from features.tables import InputError
from features.windows import as_ns
from models.settings import EvaluationSettings
from models.splits import (
    Folds,
    chronological,
    leave_one_class_out,
    leave_one_failure_out,
    leave_one_node_out,
    sample_quiet,
)
from tests.models.planted import LABELS, SETTINGS, failures_at, random_failures, windows_of

MINUTE = 60_000_000_000
HOUR = 60 * MINUTE
Split = Callable[..., Folds]
SPLITS = [leave_one_failure_out, leave_one_class_out, leave_one_node_out]


@pytest.mark.parametrize("split", SPLITS)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 71), st.sampled_from([31, 79])), max_size=5, unique=True),
)
@settings(max_examples=15, deadline=None)
def test_every_window_is_tested_once_by_who_did_not_see_it_or_its_neighbours(
    split: Split, drawn: list[tuple[int, int, int]]
) -> None:
    windows = windows_of(3, 3)
    failures = failures_at(
        *[(f"node{node:02d}", f"2026-01-{1 + hour // 24:02d}T{hour % 24:02d}:07") for node, hour, _ in drawn],
        xids=tuple(code for *_, code in drawn),
    )
    folds = split(windows, failures, LABELS, SETTINGS)
    assert np.array_equal(np.sort(np.concatenate([fold.test for fold in folds])), np.arange(len(windows)))
    for fold in folds:
        assert_apart(windows, fold.train, fold.test, 60 * MINUTE)
        labels = label(windows, failures, LABELS)["failure"].to_numpy()
        assert not set(labels[fold.train]) & set(fold.held_out)


def assert_apart(windows: pd.DataFrame, train: np.ndarray, test: np.ndarray, embargo: int) -> None:
    start, end, node = as_ns(windows["start"]), as_ns(windows["end"]), windows["node"].to_numpy()
    for name in set(node[test]):
        held, seen = test[node[test] == name], train[node[train] == name]
        near = (start[seen][:, None] < end[held] + embargo) & (end[seen][:, None] > start[held] - embargo)
        assert not near.any()


def test_an_incident_is_held_out_on_every_node_it_touched() -> None:
    windows = windows_of(3, 2)
    failures = failures_at(("node00+node02", "2026-01-02T10:00"), ("node01", "2026-01-01T10:00"))
    fold = next(f for f in leave_one_failure_out(windows, failures, LABELS, SETTINGS) if f.held_out == ("f0",))
    end = as_ns(windows["end"])
    near = np.abs(end - pd.Timestamp("2026-01-02T10:00Z").value) < 60 * MINUTE
    there = windows["node"].isin(["node00", "node02"]).to_numpy()
    assert set(np.flatnonzero(near & there)) <= set(fold.test)
    assert not set(np.flatnonzero(near & there)) & set(fold.train)


def test_quiet_time_is_dealt_by_whole_days_of_a_node() -> None:
    windows = windows_of(4, 5)
    folds = leave_one_failure_out(windows, failures_at(), LABELS, SETTINGS)
    fold_of = np.empty(len(windows), dtype=int)
    for fold in folds:
        fold_of[fold.test] = fold.number
    day = as_ns(windows["end"]) // (24 * HOUR)
    spread = pd.DataFrame({"n": windows["node"], "d": day, "f": fold_of}).groupby(["n", "d"])["f"]
    assert (spread.min() == spread.max()).all()


def test_no_fold_loses_another_failure_s_warnings_to_the_embargo() -> None:
    windows = windows_of(4, 10)
    failures = random_failures(6, 4, 10, seed=1)
    labels = label(windows, failures, LABELS)
    warned, owner = (labels["label"] == 1).to_numpy(), labels["failure"].to_numpy()
    for fold in leave_one_failure_out(windows, failures, LABELS, SETTINGS):
        others = np.flatnonzero(warned & ~np.isin(owner, fold.held_out))
        assert np.isin(others, fold.train).all()


def test_without_failures_there_are_quiet_folds_only() -> None:
    folds = leave_one_failure_out(windows_of(2, 10), failures_at(), LABELS, SETTINGS)
    assert [fold.name for fold in folds] == [f"quiet-{number}" for number in range(SETTINGS.quiet_folds)]


def test_one_failure_leaves_its_fold_without_a_warning_to_learn_from() -> None:
    windows = windows_of(2, 10)
    failures = failures_at(("node00", "2026-01-05T10:00"))
    fold = leave_one_failure_out(windows, failures, LABELS, SETTINGS)[0]
    assert fold.held_out == ("f0",)
    assert (label(windows, failures, LABELS)["label"].to_numpy()[fold.train] != 1).all()


def test_many_incidents_share_folds_with_their_neighbours_in_time() -> None:
    few = EvaluationSettings(most_folds=6)
    folds = leave_one_failure_out(windows_of(4, 20), random_failures(12, 4, 20, seed=1), LABELS, few)
    assert [fold.held_out for fold in folds][:2] == [("f0", "f1"), ("f2", "f3")]
    assert len(folds) == 6


def test_a_class_left_out_is_in_no_training_part() -> None:
    failures = failures_at(
        ("node00", "2026-01-01T10:00"),
        ("node01", "2026-01-02T10:00"),
        ("node00", "2026-01-02T20:00"),
        xids=(31, 79, 31),
    )
    folds = leave_one_class_out(windows_of(2, 3), failures, LABELS, SETTINGS)
    assert {fold.name: fold.held_out for fold in folds if fold.held_out} == {"xid-31": ("f0", "f2"), "xid-79": ("f1",)}


@pytest.mark.parametrize("seed", range(8))
def test_chronological_folds_train_on_what_was_known_by_then(seed: int) -> None:
    windows = windows_of(2, 12)
    failures = random_failures(6, 2, 12, seed=seed)
    for fold in chronological(windows, failures, LABELS, SETTINGS):
        begin = as_ns(windows["end"])[fold.test].min()
        assert as_ns(windows["end"])[fold.train].max() <= begin - HOUR
        known = label(windows, failures[~failures["failure"].isin(fold.held_out)], LABELS)
        told = set(known["failure"].to_numpy()[fold.train]) - {""}
        assert all(as_ns(failures.loc[failures["failure"] == name, "time"])[0] < begin for name in told)


def test_a_hole_in_the_watched_time_is_no_step_of_it() -> None:
    windows = windows_of(2, 12)
    windows.loc[windows["end"] > pd.Timestamp("2026-01-02T12:00Z"), ["start", "end"]] += pd.Timedelta(days=400)
    folds = chronological(windows, failures_at(), LABELS, SETTINGS)
    assert len(folds) == SETTINGS.quiet_folds
    assert max(len(fold.test) for fold in folds) < 2 * min(len(fold.test) for fold in folds)


def test_no_window_is_a_clear_refusal() -> None:
    with pytest.raises(InputError, match="no windows"):
        leave_one_failure_out(windows_of(2, 1).iloc[:0], failures_at(), LABELS, SETTINGS)


def test_leave_one_node_out_needs_two_nodes() -> None:
    with pytest.raises(InputError, match="two nodes"):
        leave_one_node_out(windows_of(1, 1), failures_at(), LABELS, SETTINGS)


def test_thinned_quiet_rows_weigh_as_much_as_all_and_warnings_stay() -> None:
    windows = windows_of(4, 10)
    failures = random_failures(5, 4, 10, seed=2)
    labels = label(windows, failures, LABELS)["label"].to_numpy()
    fold = leave_one_failure_out(windows, failures, LABELS, SETTINGS)[0]
    thin, weights = sample_quiet(fold, labels, 1000)
    quiet = labels[thin.train] == 0
    assert abs(quiet.sum() - 1000) < 50
    assert weights[quiet].sum() == pytest.approx((labels[fold.train] == 0).sum())
    assert (labels[thin.train] == 1).sum() == (labels[fold.train] == 1).sum()
