"""What training programs say of their saves."""

from typing import Any

import pandas as pd
import pytest

from features.checkpoint_lines import attach, find
from features.tables import LOGS, conform
from tests.features.checkpoint_data import START, event


def logs(*rows: tuple[float, str, str]) -> pd.DataFrame:
    """Lines (seconds, node, message)."""
    frame = pd.DataFrame(
        {
            "node": [node for _, node, _ in rows],
            "time": pd.Series([START + pd.Timedelta(seconds=s) for s, _, _ in rows], dtype="datetime64[ns, UTC]"),
            "message": [message for *_, message in rows],
        }
    )
    return conform(frame, LOGS)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("saving checkpoint at iteration    1000 to /ckpt in torch_dist format", ("save", "start")),
        ("  successfully saved checkpoint from iteration    1000 to /ckpt", ("save", "end")),
        ("[INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving /ckpt/mp_rank_00.pt...", ("save", "start")),
        ("[INFO] [torch_checkpoint_engine.py:23:save] [Torch] Saved /ckpt/mp_rank_00.pt.", ("save", "end")),
        ("[rank0]: Finished saving the checkpoint (or staging if async is enabled)in 5.53 seconds.", ("save", "end")),
        ("Saving a full checkpoint at step 500", ("save", "start")),
        (" loading checkpoint from /ckpt at iteration 1000", ("load", "start")),
        ("Restoring states from the checkpoint path at /ckpt/last.ckpt", ("load", "start")),
        ("Restored all states from the checkpoint at /ckpt/last.ckpt", ("load", "end")),
    ],
)
def test_each_framework_s_words_are_known(message: str, said: tuple[str, str]) -> None:
    (row,) = find(logs((0, "n1", message))).to_dict("records")
    assert (row["kind"], row["edge"]) == said


def test_other_lines_are_passed_over() -> None:
    assert find(logs((0, "n1", "checkpoint interval is 1000"), (1, "n1", "link up"))).empty


def save(second: float, *nodes: str) -> dict[str, Any]:
    start = START + pd.Timedelta(seconds=second)
    parts = [{"node": node, "start": start} for node in nodes]
    return event(start=start, end=start + pd.Timedelta(seconds=120), by_node=parts)


def test_an_event_gains_when_the_program_began_and_ended() -> None:
    one = save(0, "n1", "n2")
    lines = logs((5, "n1", "saving checkpoint"), (90, "n1", "saved checkpoint"), (95, "n2", "saved checkpoint"))
    told = attach([one], find(lines))
    assert one["logged_start"] == START + pd.Timedelta(seconds=5)
    assert one["logged_end"] == START + pd.Timedelta(seconds=95)
    assert one["logged_nodes"] == 1
    assert told["unseen"] == {"save": 0, "load": 0}


def test_another_jobs_lines_are_not_an_events() -> None:
    one = save(0, "n1")
    attach([one], find(logs((5, "n9", "saving checkpoint"))))
    assert (one["logged_start"], one["logged_nodes"]) == (None, 0)


def test_saves_that_only_the_log_tells_are_counted_once_each() -> None:
    lines = [(second, node, "saving checkpoint") for second in (5, 3600, 7200) for node in ("n1", "n2")]
    assert attach([save(0, "n1", "n2")], find(logs(*lines)))["unseen"]["save"] == 2


def test_without_lines_nothing_is_claimed() -> None:
    one = save(0, "n1")
    assert attach([one], find(logs()))["lines"] == 0
    assert one["logged_end"] is None


def test_a_log_clock_that_is_steadily_off_is_told() -> None:
    saves = [save(3600 * k, "n1", "n2") for k in range(6)]
    lines = [(3600 * k + 600, "n1", "saving checkpoint") for k in range(6)]
    lines += [(3600 * k + 4, "n2", "saving checkpoint") for k in range(6)]
    assert attach(saves, find(logs(*lines)))["apart"] == {"n1": 600.0}
