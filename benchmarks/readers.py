"""Metric readers beside bare parsing of the same bytes, in CPU-seconds: ``python -m benchmarks.readers --json``.

The bar of VictoriaMetrics lines is ``orjson.loads`` of each line and nothing else; that of the API's JSON is
``orjson.loads`` of the file and its pairs as numpy arrays. Each side runs several times with the garbage collector
off, as an ingest runs, and its best counts. Writing the store is in none of the ratios and is told beside them.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.readers.metrics import READERS
from pipelines.readers.samples import ReadContext
from pipelines.readers.tally import Tally

START_MS = 1_767_225_600_000
STEP_MS = 30_000
Series = tuple[dict[str, str], list[int], list[float]]


def main() -> None:
    """Print one line per format, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--series", type=int, default=400)
    parser.add_argument("--samples", type=int, default=2880, help="of a series: a day at 30 s")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    gc.disable()
    shared, apart = (made_up(wanted.series, wanted.samples, together=together) for together in (True, False))
    with tempfile.TemporaryDirectory() as folder:
        result: dict[str, Any] = {
            "load_average": os.getloadavg()[0],
            "victoria, times shared": compare("victoria", victoria(shared), loads, Path(folder), wanted.rounds),
            "victoria, times apart": compare("victoria", victoria(apart), loads, Path(folder), wanted.rounds),
            "prometheus-json": compare("prometheus-json", response(apart), to_arrays, Path(folder), wanted.rounds),
        }
    if wanted.json:
        print(json.dumps(result, indent=2))
        return
    for name, found in result.items():
        print(f"{name:24} {found if isinstance(found, float) else line_of(found)}")


def line_of(found: dict[str, float]) -> str:
    """A format's figures in a line."""
    return (
        f"{found['ratio']:.2f} of the bar's speed: {found['samples_per_second'] / 1e6:.1f} M samples a CPU-second; "
        f"with the store written {found['ingest_samples_per_second'] / 1e6:.1f} M"
    )


def made_up(count: int, samples: int, *, together: bool) -> list[Series]:
    """Series of small integers, of decimals and of large counters, scraped at the same moments or at their own."""
    draw = random.Random(0)  # noqa: S311  # made-up samples
    out: list[Series] = []
    for number in range(count):
        kind, total = number % 3, 1e12
        values: list[float] = []
        for _ in range(samples):
            total += draw.randrange(10**6)
            values.append(draw.randrange(100) if kind == 0 else round(draw.random() * 100, 3) if kind == 1 else total)
        offset = 0 if together else draw.randrange(STEP_MS)
        times = [
            START_MS + offset + STEP_MS * place + (0 if together else draw.randrange(9)) for place in range(samples)
        ]
        labels = {"__name__": f"metric_{number % 50}", "Hostname": f"n{number % 4}", "UUID": f"GPU-{number // 50:04}"}
        out.append((labels, times, values))
    return out


def victoria(series: list[Series]) -> bytes:
    """As ``/api/v1/export`` writes them."""
    entries = ({"metric": labels, "values": values, "timestamps": times} for labels, times, values in series)
    return b"".join(orjson.dumps(entry) + b"\n" for entry in entries)


def response(series: list[Series]) -> bytes:
    """As ``/api/v1/query_range`` answers."""
    entries = [
        {"metric": labels, "values": [[stamp / 1000, repr(value)] for stamp, value in zip(times, values, strict=True)]}
        for labels, times, values in series
    ]
    return orjson.dumps({"status": "success", "data": {"resultType": "matrix", "result": entries}})


def loads(path: Path) -> None:
    """The bar of export lines."""
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def to_arrays(path: Path) -> None:
    """The bar of the API's JSON."""
    for entry in orjson.loads(path.read_bytes())["data"]["result"]:
        stamps, values = zip(*entry["values"], strict=True)
        np.array(stamps, dtype=np.float64)
        np.array(list(map(float, values)), dtype=np.float64)


def compare(kind: str, content: bytes, bar: Callable[[Path], None], folder: Path, rounds: int) -> dict[str, float]:
    """CPU-seconds of the bar and of the reader in turns, and of a whole ingest."""
    path = folder / "export"
    path.write_bytes(content)
    counts: list[int] = []

    def read() -> None:
        tally = Tally()
        for _ in READERS[kind](path, tally, ReadContext()):
            pass
        counts.append(tally.ok)

    best = {"bar": np.inf, "reader": np.inf}
    for _ in range(rounds):
        for name, run in (("bar", lambda: bar(path)), ("reader", read)):
            best[name] = min(best[name], seconds(run))
    whole = seconds(lambda: ingest(folder / f"store-{time.monotonic_ns()}", Config(), metrics=[path]))
    return {
        "bytes": len(content),
        "samples": counts[-1],
        "bar_seconds": best["bar"],
        "reader_seconds": best["reader"],
        "ratio": best["bar"] / best["reader"],
        "samples_per_second": counts[-1] / best["reader"],
        "ingest_seconds": whole,
        "ingest_samples_per_second": counts[-1] / whole,
    }


def seconds(run: Callable[[], object]) -> float:
    """CPU-seconds of one run."""
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
