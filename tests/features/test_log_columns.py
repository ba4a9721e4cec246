import numpy as np
import pandas as pd
import pytest

from features import log_columns
from features.log_columns import COLUMNS, columns, fit_rates, learn, top, within
from features.settings import TemplateSettings
from features.tables import ModelError
from features.templates import mine

DAY = pd.Timestamp("2026-01-01", tz="UTC")


def at(minutes: float) -> pd.Timestamp:
    return DAY + pd.Timedelta(minutes=minutes)


def said(*rows: tuple[str, float, str], error: bool = False) -> pd.DataFrame:
    """Masked lines from (node, minutes since the day began, text)."""
    return pd.DataFrame(
        {
            "node": pd.Series([row[0] for row in rows], dtype="str"),
            "time": pd.DatetimeIndex([at(row[1]) for row in rows], tz="UTC").as_unit("ns"),
            "source": "kernel",
            "masked": [row[2] for row in rows],
            "example": [row[2].upper() for row in rows],
            "kernel": True,
            "error": error,
            "count": np.ones(len(rows), dtype=np.int64),
        }
    )


def asked(*rows: tuple[str, float]) -> pd.DataFrame:
    """Windows of 20 minutes from (node, minutes at the end)."""
    return pd.DataFrame(
        {
            "window": np.arange(len(rows)),
            "node": pd.Series([row[0] for row in rows], dtype="str"),
            "start": pd.DatetimeIndex([at(row[1] - 20) for row in rows], tz="UTC").as_unit("ns"),
            "end": pd.DatetimeIndex([at(row[1]) for row in rows], tz="UTC").as_unit("ns"),
        }
    )


def days(nodes: str = "ab", until: int = 2880) -> pd.DataFrame:
    return asked(*[(node, end) for node in nodes for end in range(20, until + 1, 5)])


def heartbeat(nodes: str = "ab") -> list[tuple[str, float, str]]:
    """Each node says "all is well" every ten minutes for two days, and once "odd thing here" on a."""
    return [(node, float(minute), "all is well") for node in nodes for minute in range(0, 2880, 10)]


def value(row: pd.DataFrame, what: str) -> float:
    return float(row[f"logs.{what}__value"].iloc[0])


def test_lines_are_counted_from_the_start_up_to_the_end() -> None:
    lines = said(("a", 99.99, "x y"), ("a", 100, "x y"), ("a", 119.99, "x y"), ("a", 120, "x y"))
    row = columns(lines, asked(("a", 120)), learn(lines, asked(("a", 120))))
    assert np.expm1(value(row, "lines")) == pytest.approx(2)
    assert np.expm1(value(row, "kernel_lines")) == pytest.approx(2)
    assert value(row, "error_lines") == 0


def test_a_folded_repeat_counts_as_often_as_it_was_said() -> None:
    lines = said(("a", 110, "x y")).assign(count=5)
    assert np.expm1(value(columns(lines, asked(("a", 120)), learn(lines, days())), "lines")) == pytest.approx(5)


def test_a_silent_window_of_a_node_that_speaks_is_zero() -> None:
    lines = said(("a", 10, "x y"))
    row = columns(lines, asked(("a", 1000)), learn(lines, days("a")))
    assert (row == 0).all(axis=None)


def test_a_node_nobody_ever_heard_is_missing() -> None:
    lines = said(("a", 10, "x y"))
    row = columns(lines, asked(("z", 20)), learn(lines, asked(("a", 20))))
    assert row.isna().all(axis=None)
    assert columns(lines, asked(("z", 20)), learn(lines, asked(("a", 20))), heard=["z"]).iloc[0, 0] == 0


def test_the_index_is_the_windows() -> None:
    lines = said(*heartbeat())
    windows = days().set_index(pd.Index(range(7, 7 + len(days()))))
    found = columns(lines, windows, learn(lines, windows))
    assert found.index.equals(windows.index)
    assert tuple(found.columns) == COLUMNS


def test_an_unseen_line_is_unknown_and_as_rare_as_can_be() -> None:
    templates = learn(said(*heartbeat()), days())
    row = columns(said(("a", 3000, "odd thing here")), asked(("a", 3010)), templates)
    assert np.expm1(value(row, "unknown")) == pytest.approx(1)
    assert value(row, "rarity_max") == pytest.approx(np.log10((len(days()) + 1) / 0.5))


def test_a_line_said_once_in_training_is_as_new_to_its_own_window_as_to_a_live_one() -> None:
    lines = said(*heartbeat(), ("a", 1000.5, "odd thing here"))
    row = columns(lines, asked(("a", 1010)), learn(lines, days()))
    assert np.expm1(value(row, "unknown")) == pytest.approx(1)


def test_what_another_node_says_daily_is_new_only_to_this_node() -> None:
    lines = said(*heartbeat(), *[("b", minute + 1.0, "fan speed changed") for minute in range(0, 2880, 60)])
    live = said(("a", 3000, "fan speed changed"))
    row = columns(live, asked(("a", 3010)), learn(lines, days()))
    assert value(row, "unknown") == 0
    assert np.expm1(value(row, "node_new")) == pytest.approx(1)


def test_new_to_the_node_is_missing_for_a_node_that_was_not_in_training() -> None:
    templates = learn(said(*heartbeat()), days())
    row = columns(said(("z", 3000, "all is well")), asked(("z", 3010)), templates)
    assert np.isnan(value(row, "node_new"))
    assert value(row, "unknown") == 0


def test_a_burst_surprises_more_on_a_quiet_node_than_on_one_that_always_chatters() -> None:
    noisy = [("b", minute + k, "link retry") for minute in range(0, 2880, 10) for k in range(8)]
    quiet = [("a", float(minute), "link retry") for minute in range(0, 2880, 700)]
    templates = learn(said(*noisy, *quiet), days())
    burst = [(node, 2991.0 + k, "link retry") for node in "ab" for k in range(18)]
    found = columns(said(*burst), asked(("a", 3010), ("b", 3010)), templates)["logs.burst_max__value"]
    assert found.iloc[0] > np.log1p(3)
    assert found.iloc[1] < np.log1p(1)


def test_lines_that_name_a_device_are_judged_apart_from_bursts_of_others() -> None:
    now_and_then = [("b", float(minute), "pcieport AER corrected") for minute in range(0, 2880, 700)]
    templates = learn(said(*heartbeat(), *now_and_then), days())
    sessions = said(*[("a", 2991.0 + k, "all is well") for k in range(18)])
    device = said(*[("a", 2991.0 + 2 * k, "pcieport AER corrected") for k in range(9)])
    assert value(columns(sessions, asked(("a", 3010)), templates), "device_bus") == 0
    assert value(columns(device, asked(("a", 3010)), templates), "device_bus") > np.log1p(3)
    assert value(columns(device, asked(("a", 3010)), templates), "device_gpu") == 0


def test_an_unknown_line_that_names_a_device_counts_by_its_minutes() -> None:
    templates = learn(said(*heartbeat()), days())
    once = said(("a", 3000.0, "mlx5_core health poll failed"), ("a", 3000.5, "mlx5_core health poll failed"))
    twice = said(("a", 3000.0, "mlx5_core health poll failed"), ("a", 3002.0, "mlx5_core health poll failed"))
    found = [np.expm1(value(columns(lines, asked(("a", 3010)), templates), "device_fabric")) for lines in (once, twice)]
    assert found[0] > 2
    assert found[1] == pytest.approx(2 * found[0])


def test_a_line_each_minute_surprises_and_a_flood_of_one_minute_does_not() -> None:
    templates = learn(said(*heartbeat()), days())
    windows = asked(("a", 3010))
    flood = said(("a", 3000, "all is well")).assign(count=10**12)
    spread = [said(*[("a", 2991.0 + k, "all is well") for k in range(minutes)]) for minutes in (2, 6, 18)]
    found = [value(columns(lines, windows, templates), "burst_max") for lines in (flood, *spread)]
    assert np.isfinite(found).all()
    assert sorted(set(found)) == found


def test_a_window_alone_gives_the_bit_equal_row_of_the_batch() -> None:
    draw = np.random.default_rng(0)
    lines = said(
        *[
            (str(draw.choice(list("abc"))), float(draw.uniform(0, 600)), f"w{draw.integers(30)} said so")
            for _ in range(900)
        ]
    )
    windows = days("cab", 600)
    templates = learn(lines, windows[windows["end"] <= at(300)])
    batch = columns(lines, windows, templates)
    for place in range(0, len(windows), 17):
        alone = windows.iloc[[place]]
        live = within(lines, alone)
        assert columns(live, alone, templates).to_numpy().tobytes() == batch.iloc[[place]].to_numpy().tobytes()


def test_lines_outside_the_training_windows_teach_nothing() -> None:
    lines = said(*heartbeat(), ("a", 2000, "odd thing here"))
    assert learn(lines, asked(("a", 500), ("b", 600))) == learn(
        lines[lines["time"] < at(1000)], asked(("a", 500), ("b", 600))
    )


def test_rates_are_rounded_trip_with_the_templates() -> None:
    lines = said(*heartbeat())
    templates = learn(lines, days())
    assert type(templates).from_json(templates.to_json()) == templates


def test_a_pair_of_unknown_node_in_the_json_is_refused() -> None:
    text = learn(said(*heartbeat("a")), days("a")).to_json().replace('"pair_node":[0]', '"pair_node":[5]')
    with pytest.raises(ModelError, match="unknown node"):
        mine(said()).from_json(text)


def test_templates_without_rates_say_what_to_do() -> None:
    lines = said(("a", 1, "x y"))
    with pytest.raises(ModelError, match="fit_rates"):
        columns(lines, asked(("a", 20)), mine(lines))


def test_a_repeated_burst_in_training_widens_what_is_expected() -> None:
    steady = said(*[("a", float(minute), "x y") for minute in range(0, 2880, 5)])
    bursts = said(*[("a", float(minute + k), "x y") for minute in range(0, 2880, 50) for k in range(10)])
    live, window = said(*[("a", 2991.0 + k, "x y") for k in range(15)]), asked(("a", 3010))
    tight = columns(live, window, fit_rates(steady, days("a"), mine(steady)))
    wide = columns(live, window, fit_rates(bursts, days("a"), mine(bursts)))
    assert value(tight, "burst_max") > value(wide, "burst_max")


def test_minutes_are_counted_from_the_windows_start_whatever_its_second() -> None:
    lines = said(("a", 3000.2, "all is well"), ("a", 3000.8, "all is well"), ("a", 3001.2, "all is well"))
    templates = learn(said(*heartbeat()), days())
    full, half = asked(("a", 3010)), asked(("a", 3010.5))  # two minutes hold a line, and of the others' minutes two
    assert value(columns(lines, full, templates), "burst_max") == value(columns(lines, half, templates), "burst_max")


def test_windows_of_several_phases_in_one_batch_give_each_its_own_row() -> None:
    lines = said(*[("a", 2990 + k / 3, "all is well") for k in range(60)])
    templates = learn(said(*heartbeat()), days())
    windows = asked(("a", 3010), ("a", 3010.25), ("a", 3010.5))
    batch = columns(lines, windows, templates)
    for place in range(3):
        alone = columns(lines, windows.iloc[[place]], templates)
        assert alone.to_numpy().tobytes() == batch.iloc[[place]].to_numpy().tobytes()


def test_only_what_is_odd_is_told_with_a_line_of_the_window() -> None:
    templates = learn(said(*heartbeat()), days())
    live = said(("a", 3000, "all is well"), ("a", 3001, "odd thing here"), ("b", 3001, "not mine"))
    told = top(live, asked(("a", 3010)), templates)
    assert [(one.why, one.example, one.template) for one in told] == [("unknown", "ODD THING HERE", "")]


def test_no_lines_and_no_windows_are_no_trouble() -> None:
    nothing = said()
    templates = learn(nothing, days("a", 40), TemplateSettings())
    assert columns(nothing, days("a", 40), templates)["logs.lines__value"].tolist() == [0.0] * 5
    assert columns(nothing, days("a", 40).iloc[:0], templates).shape == (0, len(COLUMNS))
    assert log_columns.top(nothing, asked(("a", 20)), templates) == []
