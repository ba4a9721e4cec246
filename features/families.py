"""Metrics by what part of a node they speak of, told from their names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, get_args

Family = Literal[
    "thermal",
    "power",
    "clocks",
    "memory",
    "ecc",
    "nvlink",
    "pcie",
    "network",
    "storage",
    "os",
    "utilisation",
    "presence",
    "logs",
    "phase",
    "history",
    "other",
]
FAMILIES: tuple[Family, ...] = get_args(Family)
Role = Literal["fault", "host", "condition", "work", "presence"]

# Tried in this order, case aside: the first that is found anywhere in the name (not in its labels) decides.
PATTERNS: tuple[tuple[Family, str], ...] = (
    ("presence", r"^(presence(\.|$)|up$|scrape_|node_scrape_|absent)"),
    ("logs", r"^logs(\.|$)"),
    ("phase", r"^phase(\.|$)"),
    ("history", r"^history(\.|$)"),
    # node_exporter's collectors say it themselves; parts of their long names would mislead ("DelayedACK" holds "edac")
    ("network", r"^node_(netstat|sockstat|network|infiniband|lnstat|qdisc|nf_conntrack|ethtool|bonding|arp|tcp|udp)"),
    ("storage", r"^node_(vmstat_(pgpg|pswp)|mountstats|nfs|nfsd|disk|filesystem|xfs|zfs|btrfs|md|nvme|lustre)"),
    ("memory", r"^node_(memory|vmstat|zoneinfo|slabinfo|buddyinfo)_"),
    ("os", r"^node_(procs|processes|load|context|forks|intr|softirqs|schedstat|pressure|filefd|time|timex|entropy)"),
    ("ecc", r"ecc|edac|remap|retired|sbe|dbe|mce_|corrected|poison"),
    ("nvlink", r"nvlink|nvswitch|fabric|nvl_|c2c"),
    ("pcie", r"pcie|pci_|_aer_"),
    ("thermal", r"temp(?!late|orary)|thermal|fan|cool|hwmon(?!.*(power|volt|curr|in_))|throttle.*therm"),
    ("power", r"power|energy|watt|volt|joule|ampere|curr_amp|psu|rapl"),
    ("clocks", r"clock|frequency|freq_|_mhz|_hertz|throttle|pstate|violation|slowdown"),
    ("storage", r"nfs|mountstats|disk|filesystem|lustre|gpfs|ceph|nvme|smart|xfs|ext4|zfs|btrfs|md_|block|pgpg|rpc"),
    (
        "network",
        (
            r"infiniband|rdma|_roce|mlx|network|netstat|sockstat|socket|ethtool|softnet|tcp|udp|conntrack|arp|bond|"
            r"(^|_)(rx|tx|ib|eth|net|nic)_|(^|_)(in|out)_(bytes|packets|pkts|segs)|link_(down|error)"
        ),
    ),
    ("memory", r"mem|fb_|framebuffer|bar1|vmstat|swap|numa|slab|hugepage|pgfault|oom|cache|buffer|rss|heap"),
    ("utilisation", r"util|active|occupancy|prof_|busy|gpu_usage|sm_|tensor|dram|engine|encoder|decoder"),
    ("os", r"cpu|load|proc|intr|interrupt|context_switch|fork|entropy|schedstat|softirq|pressure|time|filefd|boot|go_"),
)
_COMPILED = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in PATTERNS)


@lru_cache(maxsize=1 << 16)
def family(metric: str) -> Family:
    """The family of a metric, or of a pseudo-kind such as ``logs.lines``; "other" when no pattern fits.

    Examples
    --------
    >>> family("DCGM_FI_DEV_GPU_TEMP")
    'thermal'
    >>> family('node_mountstats_nfs_total_read_bytes_total{export="a"}')
    'storage'
    """
    name = metric.partition("{")[0]
    for known, pattern in _COMPILED:
        if pattern.search(name):
            return known
    return "other"


# Field names of what counts faults, and of what strains a device; parts of other words are barred ("interrupts"). Of
# the time a GPU's clocks are held back only heat and reliability are faults: at its power cap it does its work.
_FAULT = re.compile(
    r"(?<!int)err|replay|crc|ecc|sbe|dbe|remap|retired|(thermal|reliability)_violation|throttle|edac|"
    r"event_reasons|(therm|hw|brake)_slowdown_ns|retrans|drop|(?<!disk_)discard|recovery|"
    r"link_down|corrected|_aer|mce_|symbol|timeout|fail|(?<!de)(?<!pg)(?<!pgmaj)fault|reset|poison|xid|lost|overrun",
    re.IGNORECASE,
)
_AT_WORK = re.compile(
    r"(power|board_limit|sync_boost|low_util|total_\w+)_violation|(power_cap|sync_boost)_ns", re.IGNORECASE
)
# Faults of these are of an accelerator, of memory or of what joins them; any other is the host's
_NEAR = frozenset({"ecc", "nvlink", "pcie", "thermal", "power", "clocks"})
_NEAR_LINES = frozenset(f"logs.device_{name}" for name in ("gpu", "bus", "memory"))
_WAIT = re.compile(r"latency|duration|(queue|response|request)_time|_wait", re.IGNORECASE)
# How wide or fast a link was agreed to be: that falls when its contacts go bad
_LINK = re.compile(r"link_?(width|gen|speed)|_lanes|speed_bytes|infiniband_rate", re.IGNORECASE)
# What no class of device is named in may be anything, as a metric whose name says nothing
_TELLING_LINES = frozenset(f"logs.{what}" for what in ("burst_max", "unknown", "node_new", "rarity_max"))


@lru_cache(maxsize=1 << 16)
def role(metric: str) -> Role:
    """What a metric's excursion speaks of: a fault (of an accelerator or its links; else of the host), a device's
    condition, its work, or only of being scraped.

    A metric whose name says nothing may be anything but is not known to follow the work: a condition.

    Examples
    --------
    >>> role("DCGM_FI_DEV_PCIE_REPLAY_COUNTER"), role("DCGM_FI_DEV_GPU_TEMP"), role("node_intr_total")
    ('fault', 'condition', 'work')
    """
    known = family(metric)
    if known == "presence":
        return "presence"
    if known == "logs":
        if metric.startswith("logs.device_"):
            return "fault" if metric in _NEAR_LINES else "host"
        return "condition" if metric in _TELLING_LINES else "work"
    name = metric.partition("{")[0]
    if _FAULT.search(name):
        return "fault" if known in _NEAR else "host"
    if _AT_WORK.search(name):
        return "work"
    telling = known in {"thermal", "power", "clocks", "other"} or _WAIT.search(name) or _LINK.search(name)
    return "condition" if telling else "work"


_LEVELS = frozenset({"mean", "median", "maximum", "minimum", "quantile", "value", "from_siblings", "sum_values"})
_SPREAD = "gpu_spread"
_HOT = re.compile(r"temp(?!late|orary)", re.IGNORECASE)
_LIMIT = re.compile(r"max|limit|slowdown|shutdown|app_|_mem(ory)?_clock", re.IGNORECASE)


@lru_cache(maxsize=1 << 16)
def harm(metric: str, step: str, calculator: str) -> int:
    """On which side of what is usual a column's excursions speak of harm: 1 above, -1 below, 0 on both.

    Fewer errors than usual, less waiting and a cooler or faster GPU foretell nothing; a session of light work shows
    all of these.

    Parameters
    ----------
    step
        The last of the column's steps, "" without.
    calculator
        Its name, with or without parameters.

    Examples
    --------
    >>> harm("DCGM_FI_DEV_GPU_TEMP", "gpu_max", "mean"), harm("DCGM_FI_DEV_SM_CLOCK", "gpu_0", "from_siblings")
    (1, -1)
    """
    kind, name = role(metric), metric.partition("{")[0]
    if kind in {"fault", "host"}:
        return 1
    if kind != "condition" or calculator.partition("__")[0] not in _LEVELS:
        return 0
    hot = bool(_HOT.search(name))
    slow = bool(_LINK.search(name)) or (family(metric) == "clocks" and not _LIMIT.search(name))
    if step == _SPREAD:
        return 1 if hot or slow else 0
    if slow:
        return -1
    return 1 if hot or _WAIT.search(name) else 0
