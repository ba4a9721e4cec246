"""One live window from a real Prometheus: foreshock's time beside the server's own time to answer.

    python -m benchmarks.score [--nodes 63] [--gpus 8] [--metrics 751] [--folder DIR]

Simulates a few hours of a cluster at full width, freezes the statistic on it (any champion reads the same rows), puts
the samples into a Prometheus, and scores one window. The server's time is that of the very same requests with their
bodies thrown away. With --folder what was made is kept and used again.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import httpx
import numpy as np
import orjson
import pandas as pd

from features import matrix
from features.settings import to_nanoseconds
from features.tables import to_ns
from features.windows import latest_end
from models import bundle
from models.lineup import Lineup
from pipelines import experiment, featurise, sources
from pipelines.config import Config
from pipelines.frozen import Frozen, Usual
from pipelines.ingest import ingest
from pipelines.readers import prometheus_api
from pipelines.readers.tally import Tally
from pipelines.score import judge, load, score
from pipelines.simulate import simulate
from pipelines.sources import Source
from pipelines.store import Store
from pipelines.verdicts import CONTEXT

_HOURS = 3


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser()
    for name, number in (("nodes", 63), ("gpus", 8), ("metrics", 751)):
        options.add_argument(f"--{name}", type=int, default=number)
    options.add_argument("--folder", type=Path)
    said = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = said.folder or Path(scratch)
        if not (folder / "data").exists():
            prepare(folder, said.nodes, said.gpus, said.metrics)
        measure(folder)


def prepare(folder: Path, nodes: int, gpus: int, metrics: int) -> None:
    """An export, a store, a bundle, and Prometheus' blocks."""
    simulate(folder / "export", nodes=nodes, gpus=gpus, days=_HOURS / 24, failures=0, metrics=metrics, seed=1)
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
    openmetrics(folder / "export" / "metrics", folder / "history.txt", end - 2 * 3_600_000_000_000)
    command = [
        shutil.which("promtool") or "promtool",
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "history.txt",
        "data",
    ]
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603  # a program by its path
    (folder / "prometheus.yml").write_text("scrape_configs: []\n")


def openmetrics(metrics: Path, target: Path, from_ns: int) -> None:
    """VictoriaMetrics' export lines as promtool reads them, a metric's series together."""
    families: defaultdict[str, list[bytes]] = defaultdict(list)
    for path in sorted(metrics.iterdir()):
        with gzip.open(path) as lines:
            for line in lines:
                entry = orjson.loads(line)
                labels = dict(entry["metric"])
                name = labels.pop("__name__")
                said = ",".join(f'{key}="{value}"' for key, value in labels.items())
                rows = [
                    f"{name}{{{said}}} {value} {stamp / 1000}\n"
                    for stamp, value in zip(entry["timestamps"], entry["values"], strict=True)
                    if value is not None and stamp * 1_000_000 >= from_ns
                ]
                families[name].append("".join(rows).encode())
    with target.open("wb") as file:
        for name in sorted(families):
            file.write(f"# TYPE {name} unknown\n".encode())
            file.writelines(families[name])
        file.write(b"# EOF\n")


def measure(folder: Path) -> None:
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
        _report(folder, url)
    finally:
        server.terminate()
        server.wait(30)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").is_success
    except httpx.HTTPError:
        return False


def _report(folder: Path, url: str) -> None:
    config = Config()
    frozen, _ = load("", folder / "bundle", "")
    end = latest_end(Store.open(folder / "store").span()[1], config.features.window)
    stride = to_nanoseconds(config.features.window.stride)
    ends = [end - stride * back for back in range(CONTEXT, -1, -1)]
    span = min(ends) - matrix.reach(frozen.features), end
    _bare(url, frozen, span)  # the server's own caches warm
    asked, size = _bare(url, frozen, span)
    began, cpu = time.monotonic(), time.process_time()
    moment = sources.take(Source(prometheus=url), frozen, config, ends, _seen(frozen, url, span[0]))
    taken = time.monotonic() - began
    judge(moment, frozen, config, ends, end)
    judged = time.monotonic() - began - taken
    series = sum(len(panel.series) for panel in moment.panels.values())
    samples = sum(int((~np.isnan(panel.values)).sum()) for panel in moment.panels.values())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{len(moment.panels)} nodes, {series:,} series, {samples:,} samples, {size / 2**20:.0f} MiB of answers")
    print(f"the server alone {asked:.1f} s; pull, parse and grid {taken:.1f} s with it; rows and scores {judged:.1f} s")
    print(f"own time {taken + judged - asked:.1f} s, {time.process_time() - cpu:.1f} s of CPU; peak {peak:.2f} GiB")
    with tempfile.TemporaryDirectory() as out:
        began = time.monotonic()
        at = pd.Timestamp(to_ns(pd.Timestamp(end, tz="UTC")), tz="UTC")
        score(Source(prometheus=url), config, out=Path(out), at=at, bundle_dir=folder / "bundle")
        print(f"a first run, the week before read as well: {time.monotonic() - began:.1f} s")
    print(f"start-up, from the command to its first request: {_start_up(folder):.2f} s")


def _seen(frozen: Frozen, url: str, upto: int) -> sources.Watch:
    """A watch as a job that runs every five minutes has it."""
    since = upto - sources.SPAN_NS
    return sources.Watch(sources.watch_key(Source(prometheus=url), frozen), frozen.step_ns, since, upto, frozen.gpus)


def _bare(url: str, frozen: Frozen, span: tuple[int, int]) -> tuple[float, int]:
    """Seconds and bytes of the job's requests, their answers not looked at."""
    total, spent, real = 0, 0.0, httpx.Client.post

    def post(client: httpx.Client, path: str, **how: object) -> httpx.Response:
        nonlocal total, spent
        began = time.monotonic()
        answer = real(client, path, **how)  # type: ignore[arg-type]  # as it was called
        spent += time.monotonic() - began
        total += len(answer.content)
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": []}})

    httpx.Client.post = post  # type: ignore[method-assign,assignment]  # put back below
    try:
        list(prometheus_api.fetch(prometheus_api.Server(url), *span, sources.selectors(frozen.metrics), Tally()))
    finally:
        httpx.Client.post = real  # type: ignore[method-assign]  # as it was
    return spent, total


def _start_up(folder: Path) -> float:
    """Seconds from the command to the first connection."""
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        ear.listen()
        url = f"http://127.0.0.1:{ear.getsockname()[1]}"
        command = [sys.executable, "-m", "pipelines.cli", "score", "--prometheus", url, "--quiet"]
        command += ["--bundle", str(folder / "bundle"), "--out", str(folder / "out")]
        began = time.monotonic()
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)  # noqa: S603  # our own command
        ear.accept()
        took = time.monotonic() - began
        child.kill()
        child.wait()
    return took


if __name__ == "__main__":
    main()
