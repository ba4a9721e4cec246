"""What a run leaves for the next, also when it is killed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features.tables import BusyError, InputError
from pipelines.paging import Alert
from pipelines.state import State, acknowledge, locked

ROW: dict[str, Any] = {"node": "n1", "score": 1.5, "probability": 0.3, "alarm": True, "status": "ok", "reasons": []}
ALERT = Alert("a1", "n1", "GPU-1", 100, 100, 1.5, 0.2, ({"text": "hot"},))


def test_a_window_comes_back_as_committed(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [ROW], {"n1": ALERT})
    with State.open(tmp_path) as state:
        assert state.rows(300, "m") == [ROW]
        assert state.rows(600, "m") is None
        assert (state.last("m"), state.last(), state.last("other")) == (300, 300, None)
        assert state.alerts() == {"n1": ALERT}


def test_the_same_window_twice_is_one_row(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [ROW], None)
        state.commit(300, "m", [ROW], None)
        assert state.rows(300, "m") == [ROW]


def test_an_open_alert_is_sent_again_and_a_closed_one_once(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [], {"n1": ALERT})
        for _ in range(2):
            assert state.unsent() == [ALERT]
            state.sent(state.unsent())
        over = replace(ALERT, end=900)
        state.commit(900, "m", [], {"n1": over})
        assert state.unsent() == [over]
        state.sent([over])
        assert state.unsent() == []


def test_an_alert_that_closed_before_it_was_ever_sent_pages_no_one(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [], {"n1": replace(ALERT, end=900)})
        assert state.unsent() == []


def test_a_silenced_alert_is_not_sent(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [], {"n1": replace(ALERT, silenced=True)})
        assert state.unsent() == []


def test_a_node_is_silent_until_the_time_given(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [ROW], None)
    until = pd.Timestamp("2026-01-01T00:00:00Z")
    assert acknowledge(tmp_path, "n1", until, "new board") == until
    with State.open(tmp_path) as state:
        assert state.silenced(until.value - 1) == {"n1"}
        assert state.silenced(until.value) == set()


def test_acknowledging_where_nothing_was_scored_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no scoring state"):
        acknowledge(tmp_path / "absent", "n1", None, "")


def test_a_node_that_was_never_scored_is_not_acknowledged_and_near_names_are_told(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [{**ROW, "node": f"gpu-{number}"} for number in (11, 12, 40)], None)
    with pytest.raises(InputError, match=r"never scored a node gpu-13; it knows 3: gpu-1[12], gpu-1[12]"):
        acknowledge(tmp_path, "gpu-13", None, "")


def test_windows_of_a_clock_that_ran_ahead_are_forgotten_and_their_alerts_are_not(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state.commit(300, "m", [ROW], None, b"seen")
        assert state.forget_after(300) == 0
        assert state.memory() == b"seen"
        state.commit(9_000, "m", [ROW], {"n1": ALERT}, b"seen")
        assert state.forget_after(600) == 1
        assert (state.last(), state.rows(300, "m"), state.memory()) == (300, [ROW], None)
        assert state.alerts() == {"n1": ALERT}


def test_old_scores_leave_the_database(tmp_path: Path) -> None:
    month = 31 * 86_400_000_000_000
    with State.open(tmp_path) as state:
        state.commit(300, "m", [ROW], None)
        state.commit(300 + month, "m", [ROW], None)
        assert state.rows(300, "m") is None


def test_a_second_run_is_busy(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BusyError, match="another run"), locked(tmp_path):
        pass


def test_a_killed_run_leaves_no_lock_and_no_half_window(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from pipelines import state\n"
        "out = Path(sys.argv[1])\n"
        "with state.locked(out), state.State.open(out) as s:\n"
        "    s._db.execute('begin immediate')\n"
        "    s._db.execute(\"insert into windows values (300, 'm')\")\n"
        "    os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    with locked(tmp_path), State.open(tmp_path) as state:
        assert state.last() is None


def test_a_damaged_database_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database, but long enough to be read as one" * 100)
    with pytest.raises(InputError, match="damaged"), State.open(tmp_path):
        pass


def test_a_newer_foreshock_s_database_is_left_alone(tmp_path: Path) -> None:
    with State.open(tmp_path) as state:
        state._db.execute("pragma user_version = 99")
    with pytest.raises(InputError, match="newer foreshock"), State.open(tmp_path):
        pass
