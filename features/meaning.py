"""What a metric's name says: counter or gauge, the values it can have, whether it tells the target.

An export carries no types, so names decide. Each rule is data with its reason; `PanelSettings` overrides any.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from features.settings import PanelSettings

Kind = Literal["counter", "gauge"]


class Rule(NamedTuple):
    """A pattern that must match a metric's whole name, and why it is here."""

    pattern: str
    why: str


class Bound(NamedTuple):
    """Lowest and highest value a metric can really have, and why."""

    pattern: str
    low: float
    high: float
    why: str


# Looked at before COUNTERS.
GAUGES = (
    Rule(
        r"node_vmstat_(nr_(?!dirtied$|written$|throttled_written$|vmscan_|foll_pin_|tlb_).*|workingset_nodes)",
        "/proc/vmstat: nr_* are pages at this moment, save those that mm/vmstat.c only adds to",
    ),
    Rule(r"node_netstat_(Tcp_(CurrEstab|Rto.*|MaxConn)|Ip_(Forwarding|DefaultTTL))", "RFC 1213: states and limits"),
    Rule(r"DCGM_EXP_.*", "dcgm-exporter's own counts are over a sliding window"),
)
COUNTERS = (
    Rule(r".*_(total|bucket|sum|count)", "Prometheus naming: counters, histograms and summaries"),
    Rule(r"node_(vmstat|netstat)_.*", "/proc counts since boot"),
    Rule(
        r"node_(time|boot_time)_seconds|.*_start_time_seconds|.*_timestamp_seconds|.*_created",
        "a clock: its level tells the date, its step tells a restart or a jump",
    ),
    Rule(r"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "NVML: replays since the driver was loaded"),
    Rule(r"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ since boot"),
    Rule(
        r"DCGM_FI_DEV_ECC_(?!CURRENT|PENDING).*",
        "ECC errors, volatile since driver load, aggregate over life",
    ),
    Rule(r"DCGM_FI_DEV_RETIRED_(SBE|DBE)", "pages retired over life"),
    Rule(r"DCGM_FI_DEV_(UN)?CORRECTABLE_REMAPPED_ROWS", "rows remapped over life"),
    Rule(
        r"DCGM_FI_DEV_(ROW_REMAP_(PENDING|FAILURE)|RETIRED_PENDING)|nvidia_smi_\w*(remapped_rows|retired_pages)\w*"
        r"_(pending|failure)\w*",
        "a flag that stands until the GPU is reset: what is new is that it rose, not that it stands",
    ),
    Rule(r"DCGM_FI_DEV_.*_VIOLATION", "time throttled since the driver was loaded"),
    Rule(r"DCGM_FI_DEV_CLOCKS_(EVENT|THROTTLE)_REASONS?_.*_NS", "time throttled since the driver was loaded"),
    Rule(r"DCGM_FI_DEV_NVLINK_.*(ERROR|BANDWIDTH|REPLAY|RECOVERY|COUNT|PACKETS|BYTES).*", "link counts since reset"),
    Rule(r"DCGM_FI_DEV_NVSWITCH_.*(ERROR|COUNT|BYTES|THROUGHPUT).*", "switch counts since reset"),
    Rule(r"nvidia_smi_(ecc_errors|retired_pages|remapped_rows)_.*(?<!pending)(?<!failure)", "NVML counts over life"),
    Rule(r"nvidia_smi_.*_counters_.*", "time throttled since the driver was loaded"),
)
BOUNDS = (
    Bound(r"DCGM_FI_DEV_\w*UTIL", 0, 100, "percent; 4294967295 and 41232 are seen (NVIDIA/DCGM 199)"),
    Bound(r"DCGM_FI_PROF_\w*(ACTIVE|OCCUPANCY)", 0, 1.1, "a share of time; a little over 1 is rounding"),
    Bound(r"nvidia_smi_utilization_\w*_ratio", 0, 1.1, "a share of time; a little over 1 is rounding"),
    Bound(r"DCGM_FI_DEV_\w*TEMP\w*", -60, 250, "degrees Celsius of silicon, limits and margins among them"),
    Bound(r"(node_hwmon_temp_celsius|node_thermal_zone_temp|nvidia_smi_temperature\w*)", -60, 250, "degrees Celsius"),
    Bound(r"DCGM_FI_DEV_\w*POWER\w*(?<!VIOLATION)(?<!_NS)", 0, 20_000, "watts of one GPU or its module"),
    Bound(r"DCGM_FI_DEV_\w*_CLOCK", 0, 20_000, "MHz"),
    Bound(r"DCGM_FI_DEV_FB_\w+", 0, 4_194_304, "MiB; 4 TiB is more than any GPU has"),
    Bound(r"up", 0, 1, "Prometheus sets it to 0 or 1"),
)
# NVML's clocksEventReasons, a bit each. An idle GPU (1), one at the clocks it was set to (2, 256), at its power cap (4)
# or kept in step with others (16) is well; slowed by hardware (8), heat (32, 64) or the power brake (128) it is not.
REASONS = re.compile(r"DCGM_FI_DEV_CLOCKS?_(THROTTLE|EVENT)_REASONS|nvidia_smi_clocks_(throttle|event)_reasons_active")
SLOWED = (8, 32, 64, 128)
# Any name or label with these is a copy of what is to be foretold.
TARGET = re.compile(r"xid|fallen_off|recovery_action", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)
def name_of(metric: str) -> str:
    """A metric's name without its labels."""
    return metric.partition("{")[0]


@lru_cache(maxsize=1 << 16)
def is_target(metric: str) -> bool:
    """Whether a metric tells the failure itself and so may never be a feature."""
    return bool(TARGET.search(metric))


def kind(metric: str, settings: PanelSettings) -> Kind:
    """Whether a metric counts up; a name no rule knows is a gauge."""
    name = name_of(metric)
    if not settings.gauges and not settings.counters:  # as nearly always, and asked a hundred thousand times
        return _known_kind(name)
    for patterns, said in ((settings.gauges, "gauge"), (settings.counters, "counter")):
        if any(re.fullmatch(pattern, name) for pattern in patterns):
            return "gauge" if said == "gauge" else "counter"
    return _known_kind(name)


@lru_cache(maxsize=1 << 16)
def _known_kind(name: str) -> Kind:
    if any(re.fullmatch(rule.pattern, name) for rule in GAUGES):
        return "gauge"
    return "counter" if any(re.fullmatch(rule.pattern, name) for rule in COUNTERS) else "gauge"


def bounds(metric: str, settings: PanelSettings) -> tuple[float, float] | None:
    """Lowest and highest real value of a metric, where known; the settings' word goes first."""
    name = name_of(metric)
    for pattern, (low, high) in settings.bounds.items():
        if re.fullmatch(pattern, name):
            return low, high
    return _known_bounds(name)


@lru_cache(maxsize=1 << 16)
def _known_bounds(name: str) -> tuple[float, float] | None:
    for bound in BOUNDS:
        if re.fullmatch(bound.pattern, name):
            return bound.low, bound.high
    return None
