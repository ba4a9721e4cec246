import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features import peers, phase
from features.matrix import index_of
from features.settings import PeerSettings

NAN = float("nan")
END = 1_800_000_000_000_000_000


def rows(values: dict[str, list[float]], groups: dict[str, float] | None = None) -> pd.DataFrame:
    """One moment; by node its values of load__mean at one or more later moments."""
    parts = []
    for node, series in values.items():
        index = index_of(node, END + np.arange(len(series)) * 300_000_000_000)
        frame = pd.DataFrame({"load__mean": np.array(series, dtype=np.float32)}, index=index)
        frame[phase.GROUP] = np.float32((groups or {}).get(node, 3))
        parts.append(frame)
    return pd.concat(parts)


def first(frame: pd.DataFrame) -> dict[str, float]:
    got = peers.columns(frame, PeerSettings(least=3))["load.peer__mean"]
    start = got.groupby(level="node").first().astype(float).round(4)
    return dict(zip(start.index.astype(str), start.tolist(), strict=True))


def test_the_odd_node_stands_out_by_how_many_deviations_it_is_off() -> None:
    got = first(rows({"a": [10], "b": [11], "c": [12], "d": [13], "e": [42]}))
    # median 12, MAD 1
    assert got["e"] == pytest.approx(np.log1p(30 / 1.4826), abs=1e-4)
    assert got["c"] == 0
    assert got["a"] == pytest.approx(-np.log1p(2 / 1.4826), abs=1e-4)


def test_a_node_with_too_few_peers_is_not_judged() -> None:
    assert all(np.isnan(value) for value in first(rows({"a": [1], "b": [2], "c": [9]})).values())


def test_only_nodes_that_do_the_same_work_are_peers() -> None:
    busy = {"a": [90.0], "b": [91.0], "c": [92.0], "d": [93.0]}
    idle = {"w": [1.0], "x": [2.0], "y": [3.0], "z": [4.0]}
    got = first(rows({**busy, **idle}, dict.fromkeys(idle, 1.0)))
    assert got["a"] == got["w"]
    assert abs(got["w"]) < 2


def test_an_unknown_value_is_nobodys_peer() -> None:
    got = peers.columns(rows({"a": [1], "b": [2], "c": [3], "d": [NAN]}), PeerSettings(least=3))
    assert got["load.peer__mean"].isna().all()


def test_a_rare_count_among_zeros_is_larger_for_more_of_it() -> None:
    one = first(rows({"a": [0], "b": [0], "c": [0], "d": [1]}))["d"]
    many = first(rows({"a": [0], "b": [0], "c": [0], "d": [1000]}))["d"]
    assert 0 < one < many < 20


def test_nodes_may_come_in_any_order_and_moments_do_not_mix() -> None:
    frame = rows({"a": [1, 5], "b": [2, 5], "c": [3, 5], "d": [4, 9], "e": [9, 5]})
    shuffled = frame.iloc[[7, 2, 9, 0, 4, 1, 8, 3, 6, 5]]
    ordered = peers.columns(frame, PeerSettings(least=3))
    assert peers.columns(shuffled, PeerSettings(least=3)).loc[ordered.index].equals(ordered)


def test_columns_of_other_families_have_no_peers() -> None:
    assert peers.names_of(pd.Index(["load__mean", "presence.frozen__value", "logs.lines__value"])) == ["load__mean"]


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=4, max_size=30))
@settings(max_examples=50, deadline=None)
def test_the_scale_is_the_median_absolute_deviation_that_numpy_gives(values: list[float]) -> None:
    ascending = np.sort(np.array(values))
    centre = float(np.median(ascending))
    assert peers._deviation(ascending, centre) == pytest.approx(np.median(np.abs(ascending - centre)))
