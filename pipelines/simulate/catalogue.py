"""The 751 metric names of a node, in the order in which a narrower export keeps them.

``catalogue.csv`` holds one row a name: DCGM exporter's fields (dcgm-exporter's counters files and dcgm_fields.h),
node_exporter's names (its end-to-end fixture, /proc/vmstat and /proc/net/netstat) and Prometheus' own scrape
series. The first sixty rows hold every family of trouble, so that few metrics still tell something.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from features.tables import UsageError

NFS = {"export": "nfs01.storage:/export/train", "mountaddr": "10.20.0.11", "protocol": "tcp"}
OPERATIONS = ("READ", "WRITE", "GETATTR", "COMMIT", "LOOKUP", "ACCESS")
CPU_MODES = ("idle", "iowait", "irq", "nice", "softirq", "steal", "system", "user")

# The series that one name has on a node: labels, and what the driver's name gains for that series.
EXPANSIONS: dict[str, tuple[tuple[dict[str, str], str], ...]] = {
    "": (({}, ""),),
    "net": (({"device": "bond0"}, ""), ({"device": "eth0"}, "")),
    "net1": (({"device": "bond0"}, ""),),
    "ib": (({"device": "mlx5_0", "port": "1"}, ""), ({"device": "mlx5_1", "port": "1"}, "")),
    "cpu": (({"cpu": "0"}, ""),),
    "cpu_mode": tuple(({"cpu": "0", "mode": mode}, f":{mode}") for mode in CPU_MODES),
    "nfs": ((NFS, ""),),
    "nfs_xprt": (({**NFS, "transport": "0"}, ""),),
    "nfs_op": tuple(({**NFS, "operation": name}, f":{name}") for name in OPERATIONS),
    "method": tuple(({"method": name, "proto": "3"}, "") for name in ("GetAttr", "Read", "Write")),
    "disk": (({"device": "nvme0n1"}, ""), ({"device": "nvme1n1"}, "")),
    "fs": (({"device": "/dev/nvme0n1p2", "fstype": "ext4", "mountpoint": "/"}, ""),),
    "chip": tuple(({"chip": "platform_coretemp_0", "sensor": f"temp{k}"}, "") for k in (1, 2)),
    "fan": tuple(({"chip": "platform_ipmi_0", "sensor": f"fan{k}"}, "") for k in (1, 2)),
    "edac": (({"controller": "0"}, ""), ({"controller": "1"}, "")),
    "numa": (({"node": "0"}, ""), ({"node": "1"}, "")),
    "zone": (({"node": "0", "zone": "Normal"}, ""),),
    "rapl": (({"index": "0", "path": "/sys/class/powercap/intel-rapl:0"}, ""),),
    "tz": (({"type": "x86_pkg_temp", "zone": "0"}, ""),),
}


class Metric(NamedTuple):
    """One name: value = (base + gain x driver), as a gauge, or as a counter's rate per second."""

    name: str
    scope: str  # gpu | node | target
    kind: str  # gauge | counter
    driver: str
    base: float
    gain: float
    noise: float  # relative
    digits: int
    labels: str
    persist: bool  # a counter kept through reboots (InfoROM)


@cache
def catalogue() -> tuple[Metric, ...]:
    """Every name, the telling ones first."""
    text = files("pipelines.simulate").joinpath("catalogue.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return tuple(
        Metric(
            row["name"],
            row["scope"],
            row["kind"],
            row["driver"],
            float(row["base"]),
            float(row["gain"]),
            float(row["noise"]),
            int(row["digits"]),
            row["labels"],
            row["persist"] == "1",
        )
        for row in rows
    )


def chosen(count: int) -> tuple[Metric, ...]:
    """The first `count` names.

    Raises
    ------
    UsageError
        More names than there are, or none.
    """
    names = catalogue()
    if not 1 <= count <= len(names):
        raise UsageError(f"--metrics {count}: the simulator knows {len(names)} names; give 1 to {len(names)}")
    return names[:count]
