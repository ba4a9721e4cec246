"""Made-up data stay known as that: what `foreshock simulate` wrote is marked in the store, the run and the report."""

from __future__ import annotations

from pathlib import Path

from pipelines.store import Store

TRUTH = "truth.json"  # beside a made-up export
NOTE = "made-up data: figures obtained from it say nothing about a real cluster"
WORDS = "These figures are of a simulated cluster and say nothing of how foreshock does on a real one."
TAG = "data.made_up"  # of a run in MLflow
KEY = "made_up"  # of an input's record in the store
_FOLDERS = 2  # above a file: OUT/metrics/FILE


def beside(path: Path) -> bool:
    """Whether a file to be taken in lies in what `foreshock simulate` wrote."""
    for folder in path.absolute().parents[:_FOLDERS]:
        try:
            with (folder / TRUTH).open("rb") as file:
                if NOTE.encode() in file.read(1000):
                    return True
        except OSError:
            continue
    return False


def words(store: Store) -> str:
    """What to say of figures from a store: `WORDS` where something in it is made up, else nothing."""
    return WORDS if any(record.get(KEY) for record in store.inputs()) else ""
