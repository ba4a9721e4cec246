"""A day of runs with real models and a server's answers: nothing grows."""

import gc
import os
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import numpy as np
import pytest

from features.tables import to_time
from pipelines.asking import Source
from pipelines.score import Outlets, score
from tests import small_cluster
from tests.pipelines.tiny import World

STRIDE = 300_000_000_000
RUNS = int(os.environ.get("FORESHOCK_RUNS", "300"))
SPAN = small_cluster.END - small_cluster.START
FIRST = small_cluster.END


def answer(request: httpx.Request) -> httpx.Response:
    """The small cluster's three hours, again and again; a counter begins anew with each."""
    query = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
    found = re.fullmatch(r'\{__name__=~"(.*)"\}\[(\d+)ms\]', query["query"])
    assert found is not None
    wanted, end = set(found[1].split("|")), round(float(query["time"]) * 1000) * 1_000_000
    times = np.arange((end - int(found[2]) * 1_000_000) // small_cluster.STEP + 1, end // small_cluster.STEP + 1)
    times *= small_cluster.STEP
    cells = (times - small_cluster.START) % SPAN // small_cluster.STEP
    result = []
    for node in small_cluster.NODES:
        panel = small_cluster.panel(node)
        for series, values in zip(panel.series, panel.values, strict=True):
            name, _, more = series.metric.partition("{")
            if name in wanted:
                labels = {"__name__": name, "Hostname": node, **dict(re.findall(r'(\w+)="([^"]*)"', more))}
                labels |= {"UUID": series.gpu} if series.gpu else {}
                held = values[cells]
                points = [[t / 1e9, repr(float(v))] for t, v in zip(times.tolist(), held, strict=True) if v == v]  # noqa: PLR0124  # no NaN
                result.append({"metric": labels, "values": points})
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.mark.reliability
@pytest.mark.timeout(7200)
def test_a_day_of_runs_with_real_models_grows_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = httpx.Client

    def client(**how: Any) -> httpx.Client:
        return real(**{**how, "transport": httpx.MockTransport(answer)})

    monkeypatch.setattr(httpx, "Client", client)
    seen, began = [], time.monotonic()
    for number in range(RUNS):
        at = FIRST + number * STRIDE
        score(
            Source(prometheus="http://prometheus.test"), world.config, out=tmp_path, at=to_time(at),
            bundle_dir=world.bundle, outlets=Outlets(textfile=tmp_path / "f.prom"),
        )  # fmt: skip
        if number % 10 == 9:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            size = sum(path.stat().st_size for path in tmp_path.glob("state.db*"))
            seen.append((pages * 4096 / 2**20, sum(1 for _ in Path("/proc/self/fd").iterdir()), size / 2**20))
    half = len(seen) // 2
    slope = (seen[-1][0] - seen[half][0]) / (len(seen) - 1 - half) * 10
    said = f"{slope:.2f} MiB a hundred runs in the second half, descriptors {seen[half][1]} to {seen[-1][1]}"
    print(f"\n{RUNS} runs in {time.monotonic() - began:.0f} s: {said}, state {seen[-1][2]:.1f} MiB")  # noqa: T201  # the figure is what the long run is for
    assert slope < 5
    assert seen[-1][1] <= seen[half][1]
    assert seen[-1][2] < 32
