"""Log lines that name a device or its driver, by class of device.

A cluster's logs are mostly of services, sessions and jobs, and their bursts hide the few lines in which hardware
speaks. What the field's own watchers look for (the kernel's PCIe AER, EDAC, MCE and NVMe messages, NVIDIA's and
Mellanox's drivers, hung tasks and lost servers as in Kubernetes' node-problem-detector) is told apart by words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# What a line speaks of by its words, tried in this order: a driver that is named comes before what it complains of, so
# that the bus errors of a disk are the disk's. A burst of one class then hides no line of another.
CLASSES: dict[str, str] = {
    # accelerators and what joins them
    "gpu": r"nvrm|nvidia|nvlink|nvswitch|nvml|dcgm|hostengine|fabricmanager|\bgsp\b|\bxid\b|amdgpu|\bgpu\b",
    "fabric": r"mlx\d|infiniband|\broce\b|rdma|link (is )?(up|down)",
    "storage": r"nvme|i/o error|\bsmartd\b|ext4-fs|xfs \(|nfs: |nfs.{0,40}not responding",
    "memory": r"edac|machine check|\bmce\b|mcelog|rasdaemon|hardware error|\becc\b|dimm",
    "bus": r"pcieport|pcie|\baer\b|iommu|dmar",
    "heat": r"thermal|throttl|temperature|\bfan\b|\bpsu\b|power supply|ipmi|\bbmc\b",
    # a kernel that waits
    "waits": r"hung task|blocked for more than|soft lockup|hard lockup|rcu.{0,20}stall|watchdog|not responding",
}
_COMPILED = tuple(re.compile(words, re.IGNORECASE) for words in CLASSES.values())
NONE = -1


def device_class(texts: Iterable[str]) -> NDArray[np.int64]:
    """Which of `CLASSES` each text (a line, or a template of them) speaks of, by number [n]; `NONE` of none.

    Examples
    --------
    >>> device_class(["pcieport <PCI>: AER: Corrected error", "New session <NUM> of user ops."]).tolist()
    [4, -1]
    """
    if isinstance(texts, pd.Series):
        codes, known = pd.factorize(texts)
        return device_class(known.astype(str))[codes] if len(known) else np.full(len(texts), NONE, dtype=np.int64)
    return np.fromiter(
        (next((number for number, words in enumerate(_COMPILED) if words.search(text)), NONE) for text in texts),
        dtype=np.int64,
    )
