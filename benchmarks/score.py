"""One live window from a real Prometheus: foreshock's time beside the server's own time to answer.

    python -m benchmarks.score [--nodes 63] [--simulated 4] [--gpus 8] [--metrics 751] [--folder DIR] [--bundle DIR]

Simulates three hours of a few nodes at full width, copies them under other nodes' names into a Prometheus (what a
window depends on), and scores one window by the command itself, its second run as in the field: the first reads the
week before. The server's time is that of the very same requests with their bodies thrown away. The models are
the statistic, fitted on the nodes that were simulated, or those of a bundle that was trained on the same metrics.
With --folder what was made is kept and used again.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import orjson

from features.settings import to_nanoseconds
from features.tables import to_time
from features.windows import latest_end, reach
from models import bundle
from models.lineup import Lineup
from pipelines import experiment, featurise
from pipelines.asking import AT_ONCE, CONTEXT, selectors
from pipelines.config import Config
from pipelines.frozen import Frozen, Usual
from pipelines.ingest import ingest
from pipelines.score import load
from pipelines.simulate import simulate
from pipelines.store import Store

_HOURS = 3
_CHUNK_MS = AT_ONCE * 1000
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    for name, number in (("nodes", 63), ("simulated", 4), ("gpus", 8), ("metrics", 751)):
        options.add_argument(f"--{name}", type=int, default=number)
    options.add_argument("--folder", type=Path)
    options.add_argument("--bundle", type=Path)
    said = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = said.folder or Path(scratch)
        if not (folder / "data").exists():
            prepare(folder, said.nodes, said.simulated, said.gpus, said.metrics)
        measure(folder, said.bundle or folder / "bundle")


def prepare(folder: Path, nodes: int, simulated: int, gpus: int, metrics: int) -> None:
    """An export, a store, a bundle, and Prometheus' blocks."""
    simulate(folder / "export", nodes=simulated, gpus=gpus, days=_HOURS / 24, failures=0, metrics=metrics, seed=1)
    config = Config()
    ingest(folder / "store", config=config, metrics=[folder / "export" / "metrics"])
    store = Store.open(folder / "store")
    end = latest_end(store.span()[1], config.features.window)
    wanted = featurise.all_windows(store, config, end - 3_600_000_000_000, end)
    X = featurise.historic_matrix(store, config, featurise.nothing_past(), wanted=wanted, workers=1).X
    lineup = Lineup(("robust-z",), config.models).fit(X, np.zeros(len(X)))
    frozen = Frozen(
        lineup, Usual.of(X), None, store.gpus(), config.features, config.labels, config.ingest, "robust-z", 0.9,
        tuple(store.nodes()), (), experiment.metric_names(store), store.step_ns, (0.0, 0.5, 1.0),
    )  # fmt: skip
    bundle.write(folder / "bundle", *frozen.contents({}))
    openmetrics(folder / "export" / "metrics", folder / "history.txt", span_of(folder), store.nodes(), nodes)
    program = shutil.which("promtool") or "promtool"
    command = [program, "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603  # a program by its path
    (folder / "history.txt").unlink()
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")


def span_of(folder: Path) -> tuple[int, int]:
    """What the newest window and its context depend on [ns]."""
    settings = Config().features
    end = latest_end(Store.open(folder / "store").span()[1], settings.window)
    return end - CONTEXT * to_nanoseconds(settings.window.stride) - reach(settings), end


def openmetrics(metrics: Path, target: Path, span: tuple[int, int], names: list[str], nodes: int) -> None:
    """VictoriaMetrics' export lines as promtool reads them, a metric's series together, those of a node for many."""
    families: defaultdict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for path in sorted(metrics.iterdir()):
        with gzip.open(path) as lines:
            for line in lines:
                entry = orjson.loads(line)
                labels = dict(entry["metric"])
                name = labels.pop("__name__")
                said = ",".join(f'{key}="{value}"' for key, value in labels.items())
                pairs = zip(entry["timestamps"], entry["values"], strict=True)
                rows = [
                    f" {value} {stamp / 1000}\n"
                    for stamp, value in pairs
                    if value is not None and span[0] <= stamp * 1_000_000 < span[1]
                ]
                families[name].append((said, rows))
    with target.open("w") as file:
        for name in sorted(families):
            file.write(f"# TYPE {name} unknown\n")
            for said, rows in families[name]:
                own = next(at for at, node in enumerate(names) if node in said)
                for number in range(own, nodes, len(names)):
                    other = re.sub(r'UUID="GPU-..', f'UUID="GPU-{number:02x}', said.replace(names[own], f"n{number}"))
                    file.writelines(f"{name}{{{other}}}{row}" for row in rows)
        file.write("# EOF\n")


def measure(folder: Path, models: Path) -> None:
    """Start the server, ask it the job's questions bare, and run the job."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [shutil.which("prometheus") or "prometheus", f"--web.listen-address=127.0.0.1:{port}"]
    command += ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    command += ["--query.max-samples=500000000"]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)  # noqa: S603  # a program by its path
    try:
        while not _ready(url):
            time.sleep(0.1)
        _report(folder, models, url, server.pid)
    finally:
        server.terminate()
        server.wait(30)


def _ready(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/-/ready").is_success
    return False


def _report(folder: Path, models: Path, url: str, pid: int) -> None:
    span = span_of(folder)
    metrics = load("", models, "")[0].metrics
    _bare(url, metrics, span, pid)  # the server's own caches warm
    with tempfile.TemporaryDirectory() as out:
        stride = to_nanoseconds(Config().features.window.stride)
        first = _run(url, models, Path(out), span[1] - stride)
        before = _bare(url, metrics, span, pid)
        own = _cpu(pid)
        wall, cpu, peak = _run(url, models, Path(out), span[1])
        own = _cpu(pid) - own
        after = _bare(url, metrics, span, pid)
        last = max((Path(out) / "scores").iterdir())
        print(f"{len(last.read_bytes().splitlines())} nodes scored, {before[2] / 2**20:.0f} MiB of answers")
    print(f"machine: {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"server alone: {before[0]:.1f} and {after[0]:.1f} s, of CPU {before[1]:.1f} and {after[1]:.1f} s")
    print(f"the whole command: {wall:.1f} s with the server's time in it, {cpu:.1f} s of CPU, peak {peak:.2f} GiB")
    print(f"the command's CPU over the server's: {2 * cpu / (before[1] + after[1]):.2f}")
    print(f"over the server's in the same run, {own:.1f} s: {cpu / own:.2f}")
    print(f"a first run, the week before read as well: {first[0]:.1f} s, {first[1]:.1f} s of CPU")
    starts = [_start_up(folder, models) for _ in range(5)]
    print(f"start-up, from the command to its first request: {min(starts):.2f} to {max(starts):.2f} s")


def _run(url: str, models: Path, out: Path, end: int) -> tuple[float, float, float]:
    """Seconds, seconds of CPU (children's too) and peak GiB of the command."""
    command = [sys.executable, "-m", "pipelines.cli", "score", "--prometheus", url, "--bundle", str(models)]
    command += ["--out", str(out), "--at", to_time(end).isoformat(), "--textfile", str(out / "f.prom"), "--quiet"]
    began = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603  # our own command
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"the command ended with {child.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def _cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _bare(url: str, metrics: tuple[str, ...], span: tuple[int, int], pid: int) -> tuple[float, float, int]:
    """Seconds, the server's seconds of CPU, and bytes of the job's requests, their answers not looked at."""
    began, cpu, total = time.monotonic(), _cpu(pid), 0
    low, high = span[0] // 1_000_000, span[1] // 1_000_000
    with httpx.Client(base_url=url, timeout=300) as client:
        for selector in selectors(metrics):
            for start in range(low, high, _CHUNK_MS):
                stop = min(high, start + _CHUNK_MS)
                query = {"query": f"{selector}[{stop - start + 1}ms]", "time": f"{stop / 1000:.3f}"}
                with client.stream("POST", "/api/v1/query", data=query) as answer:
                    total += sum(map(len, answer.iter_bytes()))
    return time.monotonic() - began, _cpu(pid) - cpu, total


def _start_up(folder: Path, models: Path) -> float:
    """Seconds from the command to the first connection."""
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        ear.listen()
        url = f"http://127.0.0.1:{ear.getsockname()[1]}"
        command = [sys.executable, "-m", "pipelines.cli", "score", "--prometheus", url, "--quiet"]
        command += ["--bundle", str(models), "--out", str(folder / "out")]
        began = time.monotonic()
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603  # our own command
        ear.accept()
        took = time.monotonic() - began
        child.kill()
        child.wait()
    return took


if __name__ == "__main__":
    main()
