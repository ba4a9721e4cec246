"""Log lines that name a device or its driver.

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

_WORDS = (
    # accelerators and what joins them
    r"nvrm|nvidia|nvlink|nvswitch|nvml|dcgm|hostengine|fabricmanager|\bgsp\b|\bxid\b|amdgpu|\bgpu\b",
    # buses, memory, processors
    r"pcieport|pcie|\baer\b|edac|machine check|\bmce\b|mcelog|rasdaemon|hardware error|iommu|dmar|\becc\b|dimm",
    # network and storage devices
    r"mlx|infiniband|\broce\b|rdma|nvme|i/o error|\bsmartd\b|ext4-fs|xfs \(|link (is )?(up|down)|nfs: ",
    # heat and power
    r"thermal|throttl|temperature|\bfan\b|\bpsu\b|power supply|ipmi|\bbmc\b",
    # a kernel that waits
    r"hung task|blocked for more than|soft lockup|hard lockup|rcu.{0,20}stall|watchdog|not responding|out of memory",
)
_DEVICE = re.compile("|".join(_WORDS), re.IGNORECASE)


def names_device(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Which texts (lines, or templates of them) name a device, its driver or a kernel that waits for one [n].

    Examples
    --------
    >>> names_device(["pcieport <PCI>: AER: Corrected error", "New session <NUM> of user ops."]).tolist()
    [True, False]
    """
    if isinstance(texts, pd.Series):
        codes, known = pd.factorize(texts)
        return names_device(known.astype(str))[codes] if len(known) else np.zeros(len(texts), dtype=bool)
    return np.fromiter((_DEVICE.search(text) is not None for text in texts), dtype=bool)
