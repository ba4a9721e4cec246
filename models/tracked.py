"""Reading back what was tracked: a run's tags and figures, its files, the newest run on some data."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from features.tables import InputError
from models.tracking import Tracker, quiet, shown


class Told(NamedTuple):
    """A run as it was left."""

    run_id: str
    name: str
    status: str  # FINISHED | FAILED | KILLED | RUNNING
    tags: dict[str, str]
    metrics: dict[str, float]


def run(tracker: Tracker, run_id: str) -> Told:
    """The run of this id.

    Raises
    ------
    InputError
        There is none.
    """
    with quiet(f"look up run {run_id}", tracker.uri):
        try:
            found = tracker.client.get_run(run_id)
        except Exception as error:
            # MLflow's own errors carry a code; the library itself is imported in models.tracking only
            if getattr(error, "error_code", "") in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND"):
                raise InputError(f"run {run_id} is not in MLflow at {shown(tracker.uri)}") from error
            raise
    info, data = found.info, found.data
    return Told(str(info.run_id), str(info.run_name), str(info.status), dict(data.tags), dict(data.metrics))


def newest(tracker: Tracker, experiment: str, tags: Mapping[str, str]) -> Told | None:
    """The newest finished run of an experiment with these tags, None without one."""
    with quiet(f"search experiment {experiment!r}", tracker.uri):
        place = tracker.client.get_experiment_by_name(experiment)
        if place is None:
            return None
        asked = " and ".join([*(f"tags.`{k}` = '{v}'" for k, v in tags.items()), "attributes.status = 'FINISHED'"])
        found = tracker.client.search_runs(
            [place.experiment_id], asked, order_by=["attributes.start_time DESC"], max_results=1
        )
    return run(tracker, str(found[0].info.run_id)) if found else None


def fetch(tracker: Tracker, run_id: str, path: str) -> bytes:
    """A file that a run logged.

    Raises
    ------
    InputError
        The run has no such file.
    """
    with quiet(f"fetch {path} of run {run_id}", tracker.uri):
        folder, _, _ = path.rpartition("/")
        listed = {item.path for item in tracker.client.list_artifacts(run_id, folder or None)}
        if path not in listed:
            raise InputError(f"run {run_id} has no file {path}; it was not made by this 'foreshock train'")
        with tempfile.TemporaryDirectory() as scratch:
            return Path(tracker.client.download_artifacts(run_id, path, scratch)).read_bytes()
