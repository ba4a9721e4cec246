"""From drivers to the samples a scrape sees: gauges with noise, raw counters that restart at a reboot, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.catalogue import EXPANSIONS, Metric
from pipelines.simulate.cluster import DRIVER, MODEL, Node
from pipelines.simulate.drivers import Array, Drivers

Mask = NDArray[np.bool_]
UPTIME = 20 * 86400.0  # how long counters have run when the export begins, in seconds
LOST = 0.013  # share of scrapes that are missing at random


class Row(NamedTuple):
    """One series over a day: `gpu` is the card's place, -1 for the node's, `target` its exporter."""

    name: str
    labels: dict[str, str]
    target: str
    gpu: int
    values: Array
    digits: int


@dataclass
class Presence:
    """Which scrapes there are: ``ok`` by target [T], ``up`` samples by target [T], GPUs that are gone [G, T]."""

    ok: dict[str, Mask]
    up: dict[str, Mask]
    gone: Mask


@dataclass
class Counters:
    """What a node's counters stand at when a day ends."""

    seed: int
    carry: dict[tuple[str, int], Array] = field(default_factory=dict)
    bias: dict[tuple[str, int], float] = field(default_factory=dict)


def presence(
    down: list[tuple[float, float]],
    gaps: list[tuple[str, float, float]],
    gone: Mask,
    host: Drivers,
    times: Array,
    rng: np.random.Generator,
) -> Presence:
    """Scrapes lost at random (1-2 %, more where the exporter has become slow), in gaps and while the node is down."""
    ok: dict[str, Mask] = {}
    up: dict[str, Mask] = {}
    for target in ("dcgm", "node"):
        slow = host[f"scrape_{target}"] > 0.6
        missing = rng.random(len(times)) < np.where(slow, LOST + 0.12, LOST)
        missing[1:] |= missing[:-1] & (rng.random(len(times) - 1) < 0.15)
        dead = np.zeros(len(times), dtype=bool)
        for start, end in [*down, *((a, b) for name, a, b in gaps if name == target)]:
            dead |= (times >= start) & (times < end)
        ok[target] = ~(missing | dead)
        # half of the lost scrapes are timeouts, which Prometheus writes down as up = 0; of the rest nothing is left
        up[target] = ~(missing & ~dead & (rng.random(len(times)) < 0.5))
    return Presence(ok, up, gone)


def rows(
    metrics: tuple[Metric, ...],
    node: Node,
    host: Drivers,
    cards: Drivers,
    seen: Presence,
    boots: NDArray[np.int64],
    step: float,
    counters: Counters,
    rng: np.random.Generator,
) -> Iterator[Row]:
    """Every series of a node over a day.

    Parameters
    ----------
    boots
        Cells at which the node came up again.
    """
    for metric in metrics:
        if metric.scope == "target":
            yield from _target(metric, node, host, seen)
        elif metric.scope == "gpu":
            if not node.gpus:
                continue
            shape = (len(node.gpus), len(host["cpu"]))
            driver = cards[metric.driver] if metric.driver else np.zeros(shape)
            values = _values(metric, driver, 0, boots, step, counters, rng)
            for card in node.gpus:
                yield Row(metric.name, {}, "dcgm", card.index, values[card.index], metric.digits)
        else:
            for place, (labels, suffix) in enumerate(EXPANSIONS[metric.labels]):
                driver = np.zeros(len(host["cpu"]))
                if metric.driver:
                    # not every metric of an expanded name has a driver of its own for each series
                    driver = host.get(metric.driver + suffix, host.get(metric.driver, driver))
                values = _values(metric, driver[None], place, boots, step, counters, rng)
                yield Row(metric.name, labels, "node", -1, values[0], metric.digits)


def _target(metric: Metric, node: Node, host: Drivers, seen: Presence) -> Iterator[Row]:
    for target in ("dcgm", "node"):
        alive = seen.ok[target].astype(np.float64)
        if metric.name == "up":
            values, digits = alive, 0
        elif metric.name == "scrape_duration_seconds":
            values, digits = np.where(alive > 0, host[f"scrape_{target}"], 10.0), 6
        else:
            cards = len(node.gpus) - seen.gone.sum(axis=0) if len(node.gpus) else np.zeros(len(alive))
            values, digits = alive * (80 * cards if target == "dcgm" else 0 * cards + 1900), 0
            if metric.name == "scrape_series_added":
                values = np.maximum(np.diff(values, prepend=values[:1]), 0)
        yield Row(metric.name, {}, f"up_{target}", -1, values, digits)


def _values(
    metric: Metric,
    driver: Array,
    place: int,
    boots: NDArray[np.int64],
    step: float,
    counters: Counters,
    rng: np.random.Generator,
) -> Array:
    """Values [rows, T] of one name: its gauge, or its raw counter carried on from yesterday."""
    key = (metric.name, place)
    bias = counters.bias.get(key)
    if bias is None:
        # fillers differ a little from node to node; the physical drivers bring their own differences
        bias = float(np.exp(0.05 * rng.standard_normal())) if metric.noise and metric.base else 1.0
        counters.bias[key] = bias
    level = (metric.base + metric.gain * driver) * bias
    if metric.kind == "gauge":
        if metric.noise:
            level = level * (1 + metric.noise * rng.standard_normal(level.shape, dtype=np.float32))
        return np.asarray(np.maximum(level, 0))
    mean = level * step
    if metric.noise:
        growth = mean * np.maximum(1 + metric.noise * rng.standard_normal(mean.shape, dtype=np.float32), 0)
    elif mean.any():
        growth = rng.poisson(np.maximum(mean, 0)).astype(np.float64)
    else:
        growth = mean
    carry = counters.carry.get(key)
    if carry is None:
        carry = np.round(np.median(level, axis=1) * UPTIME * rng.uniform(0.05, 1))
    total = carry[:, None] + np.cumsum(growth, axis=1)
    if not metric.persist:
        for boot in boots:
            total[:, boot:] -= total[:, boot - 1 : boot] if boot else carry[:, None]
    counters.carry[key] = total[:, -1].copy()
    return np.asarray(total)


def gpu_labels(node: Node, card: int, place: int, pod: str) -> dict[str, str]:
    """The labels DCGM exporter gives a GPU; `place` is its number now, which changes when a GPU before it is gone."""
    gpu = node.gpus[card]
    labels = {
        "gpu": str(place),
        "UUID": gpu.uuid,
        "pci_bus_id": gpu.pci_dcgm,
        "device": f"nvidia{place}",
        "modelName": MODEL,
        "Hostname": node.name,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
        **target_labels(node, "dcgm"),
    }
    if pod:
        labels |= {"pod": pod, "namespace": "training", "container": "main"}
    return labels


def target_labels(node: Node, target: str) -> dict[str, str]:
    """The labels Prometheus adds to all that one exporter says."""
    if target == "dcgm":
        return {"job": "dcgm-exporter", "instance": f"{node.name}:9400"}
    return {"job": "node-exporter", "instance": f"{node.name}:9100"}
