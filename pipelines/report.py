"""``foreshock report``: a training as one HTML page that needs nothing but a browser."""

from __future__ import annotations

import importlib
import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from features.tables import InputError, UsageError
from models import tracked
from models.tracking import Tracker
from pipelines import experiment, report_page
from pipelines.config import Config
from pipelines.store import Store, replace_file
from pipelines.train import train

log = logging.getLogger(__name__)

# Chapters of other analyses: the module and function of the result, and the module whose section(result) tells it
SECTIONS = (
    ("pipelines.checkpoints", "checkpoints", "pipelines.checkpoints_report"),
    ("pipelines.retries", "retries", "pipelines.retries_report"),
)
BY_PATH = ("checkpoints",)  # its processes open the store for themselves


def report(what: str, config: Config, out: Path) -> dict[str, Any]:
    """Write the page of a run, or of the newest run on a store; a store without a run is trained on first.

    Raises
    ------
    UsageError
        The output is a folder, or its folder does not exist.
    InputError
        There is no such run or store.
    """
    if out.is_dir() or not out.parent.is_dir():
        raise UsageError(f"--out {out}: give a file in a folder that exists")
    tracker = Tracker(config.tracking.uri, config.tracking.artifacts)
    told, store = _find(tracker, what, config)
    found = json.loads(tracked.fetch(tracker, told.run_id, "report.json"))
    evidence = json.loads(tracked.fetch(tracker, told.run_id, "evidence.json"))
    more = _sections(store, config) if store is not None else {}
    page = report_page.render(found, evidence, told.tags, list(more.values())).encode()
    replace_file(out, page)
    return {"run_id": told.run_id, "out": str(out), "bytes": len(page), "sections": list(more)}


def _find(tracker: Tracker, what: str, config: Config) -> tuple[tracked.Told, Store | None]:
    """The run, and the store it is of where that is at hand."""
    path = Path(what)
    if not path.exists():
        if not re.fullmatch(r"[0-9a-f]{32}", what):
            raise InputError(f"{what} is neither a store's folder nor a run's id (32 letters and digits)")
        return tracked.run(tracker, what), None
    store = Store.open(path)
    found = tracked.newest(
        tracker, config.tracking.experiment, {experiment.STORE_TAG: store.digest(), experiment.KIND_TAG: "train"}
    )
    if found is None:
        log.info("no finished training on %s in experiment %s; training now", path, config.tracking.experiment)
        run_id = train(path, config, register=False)["run_id"]
        found = tracked.run(tracker, run_id)
    return found, store


def _sections(store: Store, config: Config) -> dict[str, str]:
    """What else there is to tell of a store, as HTML; an analysis that its data do not support is left out."""
    out = {}
    for analysis, name, page in SECTIONS:
        try:
            result = getattr(importlib.import_module(analysis), name)(store.path if name in BY_PATH else store, config)
            out[name] = str(importlib.import_module(page).section(result))
        except InputError as error:
            log.info("no section on %s: %s", name, error)
    return out


def describe(done: Mapping[str, Any]) -> str:
    """What was written, in a line."""
    return f"{done['out']}: run {done['run_id']}, {done['bytes'] / 1024:.0f} KiB"
