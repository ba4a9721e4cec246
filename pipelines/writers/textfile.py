"""Scores in Prometheus' text format, for node_exporter's textfile collector and the Pushgateway.

No timestamps: node_exporter refuses the whole file for one (its issue 1284); how fresh the file is says
``foreshock_window_end_timestamp_seconds``. Labels are names from the inventory only, never text from a log.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from features.tables import to_ns
from pipelines.writers.jsonlines import save

STATUS = ("ok", "stale", "down")


class _Report(Collector):
    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    def collect(self) -> Iterator[Metric]:
        report = self.report
        horizon = report["horizon"]
        ratio = GaugeMetricFamily(
            "foreshock_score_ratio", "Score over the alarm threshold; 1 and more is an alarm.", labels=_NODE
        )
        raw = GaugeMetricFamily(
            "foreshock_failure_probability_ratio", "The model's own score, 0 to 1, higher is worse.", labels=_NODE
        )
        alarm = GaugeMetricFamily(
            "foreshock_alarm", "1 while the node's score is over the threshold.", labels=["Hostname", "UUID"]
        )
        status = GaugeMetricFamily(
            "foreshock_node_status", "1 for the node's status: ok, stale or down.", labels=["Hostname", "status"]
        )
        missing = GaugeMetricFamily(
            "foreshock_features_missing_ratio",
            "Share of the columns usual in training that have no value.",
            labels=["Hostname"],
        )
        for row in report["scores"]:
            if row["score"] is not None:
                ratio.add_metric([row["node"], horizon], row["score"])
                raw.add_metric([row["node"], horizon], row["probability"])
            alarm.add_metric([row["node"], row["suspect_gpu"] if row["alarm"] else ""], float(row["alarm"]))
            for name in STATUS:
                status.add_metric([row["node"], name], float(row["status"] == name))
            missing.add_metric([row["node"]], row["missing_ratio"])
        active = GaugeMetricFamily(
            "foreshock_alert_active",
            "1 for each open alert, 0 while its node is acknowledged; an empty Hostname is the fleet.",
            labels=["Hostname", "UUID"],
        )
        for alert in report["alerts"]:
            if alert["state"] == "firing":
                active.add_metric([alert["node"], alert["gpu"]], float(not alert["silenced"]))
        yield from (ratio, raw, alarm, status, missing, active)
        yield from _of_the_run(report)


_NODE = ["Hostname", "horizon"]


def _of_the_run(report: dict[str, Any]) -> Iterator[Metric]:
    """What the job says of itself."""
    yield GaugeMetricFamily(
        "foreshock_window_end_timestamp_seconds",
        "End of the scored window.",
        value=to_ns(report["window_end"]) / 1e9,
    )
    yield GaugeMetricFamily(
        "foreshock_last_success_timestamp_seconds", "When this run finished.", value=report["finished_seconds"]
    )
    yield GaugeMetricFamily("foreshock_run_duration_seconds", "How long it took.", value=report["duration_seconds"])
    yield GaugeMetricFamily(
        "foreshock_model_suspect", "1 when too much of the fleet is over the threshold.", value=float(report["suspect"])
    )
    for name, said in sorted(report["drift"].items()):
        yield GaugeMetricFamily(f"foreshock_drift_{name}", "Against the training data.", value=said)
    rejected = GaugeMetricFamily(
        "foreshock_input_rejected", "Records of this run's input left out, by reason.", labels=["reason"]
    )
    for reason, count in sorted(report["rejected"].items()):
        rejected.add_metric([reason], count)
    yield rejected
    about = GaugeMetricFamily("foreshock_model_info", "The model that scored.", labels=["model", "digest"])
    about.add_metric([report["model"], report["digest"]], 1.0)
    yield about


def exposition(report: dict[str, Any]) -> bytes:
    """A scoring report as Prometheus text."""
    registry = CollectorRegistry()
    registry.register(_Report(report))
    return generate_latest(registry)


def write(path: Path, report: dict[str, Any]) -> None:
    """Replace the textfile whole."""
    save(path, exposition(report))
