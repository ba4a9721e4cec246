"""Made-up spells and event figures that tests of checkpoints change one thing of."""

from typing import Any

import numpy as np
import pandas as pd

from features.checkpoint_cells import SAVE
from features.checkpoint_path import Stages
from features.checkpoint_spells import Spell
from features.tables import SESSIONS, conform

STEP = 30_000_000_000
START = pd.Timestamp("2026-01-04T10:00:00Z")
BEGIN = int(START.value)
NAN = float("nan")


def spell(node: str, first: int = 0, cells: int = 4, rate: float = 1e9, **more: Any) -> Spell:
    """A save of a node at `rate` bytes a second, all other measures as of a client without trouble."""
    usual: dict[str, Any] = {
        "node": node,
        "kind": SAVE,
        "start": BEGIN + first * STEP,
        "end": BEGIN + (first + cells) * STEP,
        "moved": np.full(cells, rate * 30),
        "operations": 1000.0,
        "queue_seconds": 1.0,
        "response_seconds": 4.0,
        "resent": 0.0,
        "in_flight": 10.0,
        "slots_seen": 128.0,
        "connections": 1,
        "backlog": 0.0,
        "link_rate": rate,
        "link_speed": NAN,
        "cpu": 0.2,
        "kernel_cpu": 0.1,
        "use": 10.0,
        "gpus": 8,
        "lost": 0,
        "restarts": 0,
        "stages": Stages(),
    }
    return Spell(**{**usual, **more})


def sessions(*rows: tuple[str, int, int, list[str]]) -> pd.DataFrame:
    """Tries (job, first cell, end cell, nodes)."""
    frame = pd.DataFrame(
        [
            {
                "job": job,
                "attempt": 1,
                "started": START + pd.Timedelta(seconds=30 * first),
                "ended": START + pd.Timedelta(seconds=30 * end),
                "outcome": "completed",
                "nodes": nodes,
                "excluded": [],
            }
            for job, first, end, nodes in rows
        ]
    )
    return conform(frame, SESSIONS) if rows else SESSIONS.empty()


def event(**more: Any) -> dict[str, Any]:
    """Figures of a save that no limit binds."""
    usual: dict[str, Any] = {
        "kind": SAVE,
        "start": START,
        "end": START + pd.Timedelta(minutes=2),
        "nodes": 20,
        "link_share": 0.05,
        "port_share": 0.05,
        "storage_share": 0.1,
        "storage_bytes_per_second": 25e9,
        "bytes": 3e12,
        "bytes_per_second": 25e9,
        "node_bytes_per_second": 1.2e9,
        "duration_seconds": 120.0,
        "operations": 1000.0,
        "resent": 0.0,
        "queue_share": 0.1,
        "queue_milliseconds": 1.0,
        "response_milliseconds": 9.0,
        "client_nodes": 20,
        "slots_in_use": 20.0,
        "slot_table": 128.0,
        "cpu_share": 0.3,
        "kernel_cpu_share": 0.1,
        "stragglers": [],
        "tail_share": 0.0,
        "gpu_memory_bytes": NAN,
        "gpu_memory_share": NAN,
        "gpu_memory_filled_bytes": NAN,
        "host_waiting_bytes": NAN,
        "disk_bytes": NAN,
        "disk_busy": NAN,
        "by_node": [],
    }
    return {**usual, **more}
