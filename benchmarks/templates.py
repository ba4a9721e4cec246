"""Log templates against Drain3 on the same raw lines, in CPU-seconds: ``python -m benchmarks.templates --json``.

Both sides mask and mine every line; Drain3 with the masks its own documentation gives. Also: whether mining
gives Drain3's clusters on the same masked lines, and the time from raw lines to window columns.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from drain3 import TemplateMiner
from drain3.drain import Drain
from drain3.masking import MaskingInstruction
from drain3.template_miner_config import TemplateMinerConfig

from features.log_columns import columns, learn
from features.masking import lines_table, mask
from features.settings import TemplateSettings
from features.tables import LOGS, conform
from features.templates import mine

# https://github.com/logpai/Drain3, examples/drain3.ini
_BEFORE, _AFTER = r"((?<=[^A-Za-z0-9])|^)", r"((?=[^A-Za-z0-9])|$)"
STOCK_MASKS = (
    (_BEFORE + r"(([0-9a-f]{2,}:){3,}([0-9a-f]{2,}))" + _AFTER, "ID"),
    (_BEFORE + r"(\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3})" + _AFTER, "IP"),
    (_BEFORE + r"([0-9a-f]{6,} ?){3,}" + _AFTER, "SEQ"),
    (_BEFORE + r"([0-9A-F]{4} ?){4,}" + _AFTER, "SEQ"),
    (_BEFORE + r"(0x[a-f0-9A-F]+)" + _AFTER, "HEX"),
    (_BEFORE + r"([\-\+]?\d+)" + _AFTER, "NUM"),
)


def main() -> None:
    """Print one line per set of lines, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lines", type=int, default=100_000, help="made-up kernel lines, and a cap for other sets")
    wanted = parser.parse_args()
    mask(pd.Series(["warm up 1"], dtype="str"))
    result = {name: compare(messages[: wanted.lines]) for name, messages in sets(wanted.lines).items()}
    if wanted.json:
        print(json.dumps(result, indent=2))
        return
    for name, found in result.items():
        print(
            f"{name:10s} {found['lines']:>7d} lines  {found['templates']:>4d} templates  "
            f"{found['microseconds_per_line']:6.2f} us a line, Drain3 {found['drain3_microseconds_per_line']:7.2f}  "
            f"ratio {found['ratio']:5.1f}  same clusters: {found['same_clusters']}"
        )


def sets(lines: int) -> dict[str, list[str]]:
    """Raw messages by name: made-up kernel lines, and the real ones that are here."""
    found = {"kernel": made_up(lines)}
    data = Path(os.environ.get("FORESHOCK_REAL_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
    for path in sorted(data.glob("loghub/*_structured.csv")):
        with path.open(newline="") as stream:
            messages = [row["Content"] for row in csv.DictReader(stream)]
        found[path.name.split("_")[0]] = messages * (lines // len(messages) // 5 + 1)
    for path in data.glob("nezha/logs/logs.jsonl.gz"):
        with gzip.open(path, "rt") as stream:
            found["nezha"] = [json.loads(line)["message"] for line in stream]
    return found


def made_up(lines: int) -> list[str]:
    """Lines as a kernel and its daemons write them, hardly two alike."""
    draw = np.random.default_rng(0)
    kinds = (
        "usb {a}-{b}: new high-speed USB device number {c} using xhci_hcd",
        "nfs: server 10.0.{a}.{b} not responding, still trying",
        "mlx5_core 0000:{a:02x}:00.0: poll_health:{c}:(pid {d}): Fatal error detected",
        "EDAC MC{a}: {b} CE memory read error on CPU_SrcID#{a}_Ha#0 (page:0x{d:x} offset:0x{c:x})",
        "systemd[1]: Started Session {d} of user root.",
        "sshd[{c}]: Accepted publickey for ops from 10.{a}.{b}.7 port {d} ssh2",
        "perf: interrupt took too long ({d} > {c}), lowering kernel.perf_event_max_sample_rate to {c}",
        "step={d} loss=1.{c} took {c}ms",
    )
    kind, small, large = (draw.integers(0, high, (lines, 2)) for high in (len(kinds), 250, 10**6))
    return [
        kinds[k].format(a=a, b=b, c=c, d=d)
        for (k, _), (a, b), (c, d) in zip(kind.tolist(), small.tolist(), large.tolist(), strict=True)
    ]


def compare(messages: list[str]) -> dict[str, Any]:
    """CPU-seconds of both sides on these messages, and whether the clusters agree."""
    logs = conform(
        pd.DataFrame(
            {
                "node": np.array([f"n{k}" for k in range(8)])[np.arange(len(messages)) % 8],
                "time": pd.date_range("2026-01-01", periods=len(messages), freq="s", tz="UTC", unit="ns"),
                "message": pd.Series(messages, dtype="str"),
                "kernel": False,
                "count": 1,
            }
        ),
        LOGS,
    )
    settings = TemplateSettings()
    ours, (masked, templates) = cpu(lambda: ours_on(logs, settings))
    theirs, _ = cpu(lambda: stock_on(messages, settings))
    drain = Drain(settings.depth, settings.similarity, settings.max_children, settings.max_clusters)
    for line in masked:
        drain.add_log_message(line)
    clusters = sorted(drain.clusters, key=lambda cluster: int(cluster.cluster_id))
    first, lines = cpu(lambda: lines_table(logs, settings))
    ends = pd.date_range(logs["time"].min(), periods=len(logs) // 300 + 2, freq="5min")
    windows = pd.MultiIndex.from_product([sorted(set(logs["node"])), ends], names=["node", "end"]).to_frame(index=False)
    windows["start"] = windows["end"] - pd.Timedelta("20min")
    fitting, fitted = cpu(lambda: learn(lines.table, windows, settings))
    last, _ = cpu(lambda: columns(lines.table, windows, fitted))
    return {
        "lines": len(messages),
        "templates": len(templates.texts),
        "microseconds_per_line": ours / len(messages) * 1e6,
        "drain3_microseconds_per_line": theirs / len(messages) * 1e6,
        "ratio": theirs / ours,
        "same_clusters": [(c.get_template(), c.size) for c in clusters]
        == list(zip(templates.texts, templates.sizes, strict=True)),
        "lines_table_seconds": first,
        "learn_seconds": fitting,
        "windows": len(windows),
        "columns_seconds": last,
    }


def ours_on(logs: pd.DataFrame, settings: TemplateSettings) -> tuple[list[str], Any]:
    """Mask and mine every line, in order."""
    masked = mask(logs["message"], settings.max_line_characters)
    return masked.tolist(), mine(pd.DataFrame({"time": logs["time"], "masked": masked}), settings)


def stock_on(messages: list[str], settings: TemplateSettings) -> TemplateMiner:
    """Drain3 as its documentation sets it up."""
    miner = stock(settings)
    for message in messages:
        miner.add_log_message(message)
    return miner


def stock(settings: TemplateSettings) -> TemplateMiner:
    """A fresh Drain3 with its documented masks and our parameters."""
    config = TemplateMinerConfig()
    config.drain_sim_th, config.drain_depth = settings.similarity, settings.depth
    config.drain_max_children, config.drain_max_clusters = settings.max_children, settings.max_clusters
    config.masking_instructions = [MaskingInstruction(pattern, name) for pattern, name in STOCK_MASKS]
    return TemplateMiner(config=config)


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU-seconds of the process, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


if __name__ == "__main__":
    main()
