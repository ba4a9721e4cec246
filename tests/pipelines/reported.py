"""A small training's report and evidence, as `foreshock train` logs them."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd

from models.crossfit import Crossfit
from models.splits import Fold
from models.tracking import Dataset, Tracker
from pipelines import experiment
from pipelines.config import Config

MOMENT = "2026-01-01T10:00:00+00:00"


def judged(before: int = 1, name: str = "f1") -> dict[str, Any]:
    outcome = "before" if before else "missed"
    lead = 20.0 if before else None
    return {
        "before": before,
        "at": 0,
        "missed": 1 - before,
        "before_interval": [0.0, 0.975],
        "false_alarms": 1,
        "false_alarms_per_day": 0.5,
        "false_alarms_interval": [0.01, 2.8],
        "lead_minutes_median": lead,
        "threshold": 0.5,
        "thresholds": {0: 0.5},
        "p_permutation": 0.01,
        "before_by_chance": 0.1,
        "monitored_days": 2.0,
        "monitored_node_days": 6.0,
        "unjudged": 0,
        "curve": [
            {
                "budget": budget,
                "before": before,
                "at": 0,
                "missed": 1 - before,
                "lead_minutes_median": lead,
                "false_alarms": 1,
                "false_alarms_per_day": 0.5,
            }
            for budget in (0.25, 0.84, 1.0)
        ],
        "by_failure": [
            {"failure": name, "node": "n1", "time": MOMENT, "xid": 79, "outcome": outcome, "lead_minutes": lead}
        ],
    }


MODELS = {"blend": judged(), "random": judged(0)}


def report(**change: Any) -> dict[str, Any]:
    return {
        "run_id": "0" * 32,
        "failures": 1,
        "monitored_days": 2.0,
        "budget_per_day": 0.84,
        "models": {"blend": judged(), "random": judged(0)},
        "champion": "blend",
        "verdict": "signal",
        "reason": "1 of 1 failures caught before; chance gives 0.1 (p = 0.0100)",
        "mcnemar": {"random": 1.0},
        "start": "2026-01-01T00:00:00+00:00",
        "end": "2026-01-03T00:00:00+00:00",
        "windows": 100,
        "columns": 10,
        "skipped": {},
        "protocols": {
            "node": {"words": "leave one node out", "why_not": "", "folds": 3, "seconds": 1.0, "models": MODELS},
            "class": {
                "words": "leave one class out",
                "why_not": "all failures are of XID 79: there is no other class to learn from",
                "folds": 0,
                "seconds": 0.0,
                "models": {},
            },
        },
        "cost": {
            "stages": {"recalling": 60.0, "telling": 30.0},
            "seconds": 95.0,
            "cpu_seconds": 90.0,
            "peak_mebibytes": 900,
        },
    } | change


REASON = {
    "feature": "up__maximum",
    "value": 1.0,
    "peers": 0.0,
    "usual": 0.0,
    "effect": 1.0,
    "text": "up (maximum) is 1; its peers' 0, its own usual 0",
}


def evidence(line: str = "a line", node: str = "n1") -> dict[str, Any]:
    told = {
        "reasons": [REASON],
        "suspect_gpu": "GPU-1",
        "phase": "computing",
        "lines": [{"template": "a <*>", "example": line, "lines": 2, "surprise": 3.0, "why": "rare"}],
    }
    failure = {
        **judged()["by_failure"][0],
        "kind": "hardware",
        "xids": [79],
        "nodes": [node],
        "gpu": "GPU-1",
        "pci": "0000:4e:00",
        "evidence": line,
        "meaning": "fell off the bus",
        "action": "RESTART_BM",
        "threshold": 0.5,
        "points": [[-30.0, 0.2], [-20.0, 0.7], [0.0, 0.1]],
        **told,
    }
    alarm = {"node": node, "time": MOMENT, "last": MOMENT, "score": 0.7, "threshold": 0.5, "cost": 1, **told}
    return {
        "failures": [failure],
        "false_alarms": [alarm],
        "causes": [{"cause": "up (maximum)", "phase": "computing", "count": 1}],
        "nodes": [
            {
                "node": node,
                "risk_30_days": 1.5,
                "failures": 1,
                "xids": [79],
                "last_failure": MOMENT,
                "days_between": None,
                "false_alarms": 1,
                "score_lately": 0.5,
                "watched_days": 2.0,
            }
        ],
        "quality": {
            "nodes": 1,
            "series": 5,
            "samples": 5000,
            "log_lines": 12,
            "inputs": [
                {"format": "victoria", "files": 1, "read": 10, "ok": 9, "rejected": {"no node": 1}, "noted": {}}
            ],
            "gaps": {
                "count": 1,
                "hours": 0.5,
                "longest": [{"node": node, "start": MOMENT, "end": MOMENT, "hours": 0.5}],
            },
            "missing_share": 0.1,
            "missing_nodes": [{"node": node, "share": 0.1}],
        },
        "horizon_minutes": 60.0,
        "window_minutes": 20.0,
        "gap_minutes": 1.0,
        "preset": "hardware",
    }


def trained(tracker: Tracker, before: int, digest: str = "d" * 64) -> str:
    """A run as `foreshock train` logs one."""
    ends = pd.date_range("2026-01-01T08:00Z", "2026-01-01T11:00Z", freq="5min").as_unit("ns")
    predictions = pd.DataFrame({"model": "blend", "node": "n1", "fold": 0, "end": ends, "score": 0.3})
    predictions["window"] = np.arange(len(ends))
    fitted = cast("Crossfit", SimpleNamespace(predictions=predictions, seconds={0: 1.0}))
    fold = Fold(0, "f1", np.arange(5), np.arange(5, 30), ("f1",))
    said = report(models={"blend": judged(before), "random": judged(0)})
    tags = {experiment.STORE_TAG: digest, experiment.KIND_TAG: "train"}
    with tracker.start("foreshock", "train s", tags=tags, datasets=[Dataset("s", "s", digest)]) as run:
        said["run_id"] = run.run_id
        experiment.record(run, said, evidence(), fitted, (fold,), Config())
        run.files({"bundle/manifest.json": b"{}"})
        tracker.register(run, "bundle", "foreshock", "digest")
        return run.run_id
