"""``foreshock demo``: the main job on a small made-up cluster, and what came out in a few sentences."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines import made_up
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.score import Outlets, Source, score
from pipelines.simulate import simulate
from pipelines.train import train

log = logging.getLogger(__name__)

NODES, GPUS, DAYS, FAILURES, METRICS = 12, 4, 4.0, 12, 72


def demo(out: Path, config: Config, *, seed: int = 0) -> str:
    """Simulate, ingest, train and score below ``out``; give the summary for a person."""
    began = time.monotonic()
    settings = _settings(config)
    export, store = out / "export", out / "store"
    if (export / "truth.json").exists():
        log.info("using the made-up cluster that is in %s; remove that folder for another", export)
    else:
        log.info("making up a cluster: %d nodes, %g days, %d failures", NODES, DAYS, FAILURES)
        simulate(export, nodes=NODES, gpus=GPUS, days=DAYS, failures=FAILURES, metrics=METRICS, seed=seed)
    log.info("reading its exports into %s", store)
    kept = ingest(
        store, settings, metrics=[export / "metrics"], logs=[export / "logs"], sessions=export / "sessions.csv"
    )
    log.info("training, and judging with one failure left out at a time")
    judged = train(store, settings, tags={made_up.TAG: made_up.WORDS})
    log.info("scoring the newest window")
    scored = score(
        Source(store=store),
        settings,
        out=out / "scores",
        model=f"models:/{settings.tracking.registered_model}@champion",
        tracking_uri=settings.tracking.uri,
        outlets=Outlets(textfile=out / "scores" / "foreshock.prom"),
    )
    truth = json.loads((export / "truth.json").read_text())
    seconds = time.monotonic() - began
    return summary(kept=kept, judged=judged, scored=scored, truth=truth, out=out, seconds=seconds)


def _settings(config: Config) -> Config:
    # Names of its own: a made-up cluster's model must never answer to models:/foreshock@champion.
    tracking = config.tracking.model_copy(update={"experiment": "foreshock-demo", "registered_model": "foreshock-demo"})
    return config.model_copy(update={"tracking": tracking})


def summary(
    *,
    kept: dict[str, Any],
    judged: dict[str, Any],
    scored: dict[str, Any],
    truth: dict[str, Any],
    out: Path,
    seconds: float,
) -> str:
    """What the demo found, in a few sentences.

    The simulator's ground truth is read for one thing: to say which misses showed no warning at all.
    """
    champion, failures = judged["champion"], judged["failures"]
    model = judged["models"][champion]
    low, high = model["before_interval"]
    few, many = model["false_alarms_interval"]
    alarms = [item["node"] for item in scored["scores"] if item["alarm"]]
    lines = [
        "",
        f"MADE-UP DATA: {made_up.WORDS}",
        "",
        f"Read {kept['samples']:,} samples of {kept['series']:,} series and {kept['log_lines']:,} log lines.",
        f"{failures} failures on {kept['nodes']} nodes in {judged['monitored_days']:.1f} monitored days.",
        f"The champion, {champion}, judged with each failure left out in turn:",
        f"  before {model['before']} of {failures} ({100 * low:.0f}-{100 * high:.0f} %),",
        f"  at {model['at']}, missed {model['missed']}; {_lead(model['lead_minutes_median'])}",
        f"  {model['false_alarms_per_day']:.2f} false alarms a day ({few:.2f}-{many:.2f})",
        f"  at a budget of {judged['budget_per_day']}",
        f"  verdict: {judged['verdict']}",
        "",
        *_failures(model["by_failure"], truth),
        "",
        f"The window ending {scored['window_end']}: {_alarms(alarms, len(scored['scores']))}.",
        f"Scores: {out / 'scores'}. Took {seconds:.0f} s.",
        "Compare runs in the MLflow UI: foreshock ui, then open http://127.0.0.1:5000",
    ]
    return "\n".join(lines)


def _lead(minutes: float | None) -> str:
    return "no failure was caught before" if minutes is None else f"median lead time {minutes:.0f} minutes"


def _alarms(nodes: list[str], total: int) -> str:
    return f"alarms on {', '.join(nodes)} of {total} nodes" if nodes else f"{total} nodes scored, no alarm"


def _failures(outcomes: list[dict[str, Any]], truth: dict[str, Any]) -> list[str]:
    """A line for each failure: what happened, and how much warning the simulator had put there."""
    lines = []
    for found in outcomes:
        lead = f", {found['lead_minutes']:.0f} min ahead" if found["outcome"] == "before" else ""
        when = pd.Timestamp(found["time"])
        warning = [
            f"{made['warning_minutes']:.0f} min of warning in {made['kind']}"
            if made["warning_minutes"]
            else "no warning"
            for made in truth["failures"]
            if made["node"] == found["node"] and abs(pd.Timestamp(made["time"]) - when) < pd.Timedelta(minutes=10)
        ]
        xid = "-" if found["xid"] is None else found["xid"]
        shown = f" (the simulator put {warning[0]} there)" if warning else ""
        lines.append(f"  {found['outcome']:>6}{lead}: {found['node']}, XID {xid}, {when:%d %b %H:%M}{shown}")
    return lines
