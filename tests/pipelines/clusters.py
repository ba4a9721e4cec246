"""The small cluster as real servers hold it: Prometheus' blocks, a log file, a systemd journal."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from features.tables import Panel, to_ns
from tests import small_cluster
from tests.pipelines.servers import server

JOURNAL_REMOTE = Path("/usr/lib/systemd/systemd-journal-remote")


class Cluster(NamedTuple):
    """A running Prometheus' address, and a file of journald's JSON lines."""

    url: str
    logs: Path


def labels(series: str, gpu: str, node: str) -> str:
    name, brace, said = series.partition("{")
    more = [f'Hostname="{node}"', *([f'UUID="{gpu}"'] if gpu else []), *([said.removesuffix("}")] if brace else [])]
    return f"{name}{{{','.join(more)}}}"


def openmetrics(path: Path, panel_of: Callable[[str], Panel] = small_cluster.panel) -> None:
    """The small cluster as promtool reads it: samples of a series together and in time order."""
    families: dict[str, list[str]] = {}
    for node in small_cluster.NODES:
        panel = panel_of(node)
        for series, values in zip(panel.series, panel.values, strict=True):
            lines = families.setdefault(series.metric.partition("{")[0], [])
            said = labels(series.metric, series.gpu, node)
            known = np.flatnonzero(~np.isnan(values))
            lines += [f"{said} {float(values[k])!r} {panel.times[k] / 1e9:.3f}" for k in known]
    text = [line for name in sorted(families) for line in (f"# TYPE {name} unknown", *families[name])]
    path.write_text("\n".join([*text, "# EOF", ""]))


def entries(lines: pd.DataFrame) -> list[dict[str, str]]:
    """Lines as journald says them, in time order."""
    return [
        {
            "__REALTIME_TIMESTAMP": str(to_ns(time) // 1000),
            "_HOSTNAME": node,
            "_TRANSPORT": "kernel",
            "PRIORITY": "6",
            "MESSAGE": message,
        }
        for node, time, message in lines.sort_values("time")[["node", "time", "message"]].itertuples(index=False)
    ]


def journal_folder(folder: Path, lines: pd.DataFrame) -> Path:
    """A real journal of these lines, written by systemd itself."""
    if not JOURNAL_REMOTE.exists():
        pytest.skip("systemd-journal-remote is not installed")
    folder.mkdir()
    boot, machine = "0" * 31 + "1", "0" * 31 + "2"
    exported = "".join(
        "".join(f"{key}={value}\n" for key, value in entry.items()) + f"_BOOT_ID={boot}\n_MACHINE_ID={machine}\n"
        f"__MONOTONIC_TIMESTAMP={number + 1}\n\n"
        for number, entry in enumerate(entries(lines))
    )
    command = [str(JOURNAL_REMOTE), f"--output={folder / 'system.journal'}", "-"]
    made = subprocess.run(command, input=exported.encode(), capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
    return folder


@contextmanager
def serving(
    folder: Path, panel_of: Callable[[str], Panel] = small_cluster.panel, lines: pd.DataFrame | None = None
) -> Iterator[Cluster]:
    """A Prometheus that holds the cluster, and its log file."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    openmetrics(folder / "history.txt", panel_of)
    said = entries(small_cluster.logs() if lines is None else lines)
    (folder / "journal.json").write_text("".join(json.dumps(entry) + "\n" for entry in said))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")
    arguments = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y")
    with server("prometheus", folder, *arguments) as url:
        yield Cluster(url, folder / "journal.json")
