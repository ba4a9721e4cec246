"""No input breaks a reader: mutated exports give samples or counts, never another exception than our own.

Each mutation is a file of its own, of which FORESHOCK_FUZZ sets how many a reader gets; and ten thousand
(FORESHOCK_FUZZ_LINES) mutated lines lie beside each other in a few files, which costs a hundredth of the time.
"""

import io
import os
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.tables import InputError
from pipelines.config import Config
from pipelines.identity import Identifier
from pipelines.readers import victoria
from pipelines.readers.metrics import READERS, recognise_metrics
from pipelines.readers.samples import EARLIEST_NS, LATEST_NS, ReadContext, SampleChunk
from pipelines.readers.tally import Tally
from pipelines.staging import Finished, Staged, stage_chunks

EXAMPLES = int(os.environ.get("FORESHOCK_FUZZ", "25"))
STEP = 30_000_000_000


def _parquet() -> bytes:
    sink = io.BytesIO()
    frame = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=8, freq="30s", tz="UTC"), "a": 1.5, "node": "n1"})
    frame.to_parquet(sink)
    return sink.getvalue()


SEEDS: dict[str, bytes] = {
    "victoria": (
        b'{"metric":{"__name__":"up","node":"n1","UUID":"GPU-a"},"values":[1,null,2.5e3],'
        b'"timestamps":[1767225600000,1767225615000,1767225630000]}\n'
    )
    * 2,
    "prometheus-json": (
        b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"m","instance":"n1:9400"},'
        b'"values":[[1767225600,"1"],[1767225615.5,"NaN"]]},{"metric":{"__name__":"h","node":"n1"},'
        b'"histograms":[[1767225600,{"count":"3"}]],"value":[1767225600,"+Inf"]}]}}'
    ),
    "exposition": b'# HELP m x\nm{node="n1",a="b\\"c"} 1.5 1767225600000\nup 1 1767225600.5 # {x="y"} 1\nm 2\n',
    "tsdb-dump": b'{__name__="m", node="n1"} 1.5 1767225600000\n{__name__="m", node="n1"} NaN 1767225630000\n' * 2,
    "csv-long": b'timestamp,metric,value,node,labels\n2026-01-01T00:00:00Z,m,1,n1,"{""a"":""b""}"\n1767225600,m,x,,\n',
    "csv-wide": b"time,a,b,node\n2026-01-01T00:00:00Z,1,2,n1\n2026-01-01 00:00:30,,NaN,n2\n1767225600000,1e999,-,n1\n",
    "csv-node-gpu": b"Time,n1-0,n1-1\n2026-01-01 00:00:00+08:00,1,\n2026-01-01 00:00:15+08:00,43,0\n",
    "parquet": _parquet(),
}
SPLICES = (
    b'"',
    b"{",
    b"}",
    b"[",
    b"null",
    b"-1",
    b"1e400",
    b"\n",
    b"\0",
    b"\xff\xfe",
    b",",
    b"NaN",
    b"9" * 25,
    b"true",
    b"\\",
)


def mutations(seed: bytes) -> st.SearchStrategy[bytes]:
    """The seed mutated; a number stands for all that is drawn, which costs a tenth of drawing each part."""
    return st.integers(0, 2**63).map(lambda number: mutated(seed, random.Random(number)))  # noqa: S311  # mutations


def mutated(seed: bytes, draw: random.Random) -> bytes:
    """The seed with bits flipped, pieces cut out, doubled or swapped for others."""
    data = bytearray(seed)
    for _ in range(draw.randint(1, 6)):
        if not data:
            break
        place = draw.randrange(len(data))
        span = draw.randint(1, 12)
        match draw.choice(("flip", "cut", "splice", "double", "end")):
            case "flip":
                data[place] ^= 1 << draw.randrange(8)
            case "cut":
                del data[place : place + span]
            case "splice":
                data[place : place + span] = draw.choice(SPLICES)
            case "double":
                data[place:place] = data[place : place + 4 * span]
            case _:
                del data[place:]
    return bytes(data)


def read(kind: str, data: bytes, folder: Path) -> Tally:
    """Run a reader and the staging behind it as an ingest does, and hold it to its word."""
    path = folder / "n1.export"
    path.write_bytes(data)
    tally = Tally()
    context = ReadContext(stem="n1", label_names=frozenset({"node", "UUID"}))
    given_on = 0
    staged = Staged(folder / "staging", STEP, 1 << 20)

    def checked() -> Iterator[SampleChunk]:
        nonlocal given_on
        for chunk in READERS[kind](path, tally, context):
            assert len(chunk.times) == len(chunk.values) > 0
            assert np.isfinite(chunk.values).all()
            assert EARLIEST_NS <= chunk.times.min() <= chunk.times.max() <= LATEST_NS
            given_on += len(chunk.times)
            yield chunk

    try:
        stage_chunks(checked(), Identifier(Config().ingest, "n1"), staged, tally)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017  # most mutations raise nothing
    assert tally.read == tally.ok + sum(tally.rejected.values())
    assert given_on == tally.ok + tally.rejected["no metric name"] + tally.rejected["no node in the labels"]
    staged.finish({})
    for key in Finished(staged.folder).keys("samples"):
        assert all(len(times) for _, times, _ in Finished(staged.folder).samples(key))
    return tally


@pytest.mark.parametrize("kind", sorted(SEEDS))
def test_a_seed_is_read_as_it_is(kind: str, tmp_path: Path) -> None:
    assert recognise_metrics(SEEDS[kind]) == kind
    read(kind, SEEDS[kind], tmp_path)


@pytest.mark.parametrize("kind", sorted(SEEDS))
def test_mutated_exports_break_no_reader(kind: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(SEEDS[kind]))
    def broken(data: bytes) -> None:
        recognise_metrics(data)
        # durability is another test's; a sync for each of thousands of mutations is most of their time
        with tempfile.TemporaryDirectory() as folder, no_hang(), patch("os.fsync"):
            read(kind, data, Path(folder))

    before = peak()
    broken()
    assert peak() - before < 512 << 20


LINES = int(os.environ.get("FORESHOCK_FUZZ_LINES", "10000"))
AT_ONCE = 500  # mutated lines in a file
# What comes before the lines, and the lines that are mutated
LINE_SEEDS = {
    "victoria": (b"", SEEDS["victoria"].splitlines()[0]),
    "prometheus-json": (
        b"",
        b'{"metric":{"__name__":"m","instance":"n1:9400"},"values":[[1767225600,"1"],[1767225615.5,"NaN"]]}',
    ),
    "exposition": (b"", b'm{node="n1",a="b\\"c"} 1.5 1767225600000'),
    "tsdb-dump": (b"", SEEDS["tsdb-dump"].splitlines()[0]),
    **{kind: tuple(SEEDS[kind].splitlines()[:2]) for kind in ("csv-long", "csv-wide", "csv-node-gpu")},
}


def mutated_lines(seed: bytes, draw: random.Random, before: bytes = b"") -> bytes:
    """A file of so many mutations of a line, after some of the line itself, by which it is recognised."""
    pieces = [mutated(seed, draw) for _ in range(AT_ONCE)]
    if before:  # of a table; an open quote would take in all rows after it
        pieces = [piece + b'"' if piece.count(b'"') % 2 else piece for piece in pieces]
    return b"\n".join([*([before] if before else []), *[seed] * 50, *pieces]) + b"\n"


@pytest.mark.parametrize("kind", sorted(LINE_SEEDS))
def test_ten_thousand_mutated_lines_break_no_reader(kind: str) -> None:
    draw = random.Random(kind)  # noqa: S311  # mutations
    before, seed = LINE_SEEDS[kind]
    for _ in range(LINES // AT_ONCE):
        data = mutated_lines(seed, draw, before)
        assert recognise_metrics(data) == kind
        with tempfile.TemporaryDirectory() as folder, no_hang(), patch("os.fsync"):
            assert read(kind, data, Path(folder)).read > AT_ONCE // 4


EXPORT = (
    b'{"metric":{"__name__":"up","node":"n1","a":"\\"values\\":["},"values":[1,null,-2.5e3,0.1234567890123456,9e15],'
    b'"timestamps":[1767225600000,1767225615000,1767225630000,1767225645000,1767225660000]}\n'
)


def test_compiled_code_reads_export_lines_as_the_plain_way_does() -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(EXPORT))
    def same(data: bytes) -> None:
        found = []
        for plain_bytes in (-1, 1 << 40):
            tally = Tally()
            with tempfile.TemporaryDirectory() as folder, patch.object(victoria, "_PLAIN_BYTES", plain_bytes):
                (Path(folder) / "x").write_bytes(data)
                chunks = list(victoria.read(Path(folder) / "x", tally, ReadContext()))
            samples = [(dict(chunk.labels), chunk.times.tolist(), chunk.values.tolist()) for chunk in chunks]
            found.append((samples, tally.read, tally.ok, tally.rejected))
        assert found[0] == found[1]

    same()


@contextmanager
def no_hang() -> Iterator[None]:
    """Five seconds of the processor's time, however busy the machine is."""
    began = time.process_time()
    yield
    assert time.process_time() - began < 5


def peak() -> int:
    """Bytes of memory that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_recognised_or_not(data: bytes) -> None:
    assert recognise_metrics(data) in {None, *READERS}


def test_a_hostile_line_takes_no_more_than_linear_time(tmp_path: Path) -> None:
    for text in ("a" * 200_000, " " * 200_000, "m{" + 'a="b",' * 50_000, 'm{a="' + "\\" * 200_001, "{" * 100_000):
        read("exposition", text.encode(), tmp_path)
        read("victoria", text.encode(), tmp_path)


@pytest.mark.parametrize("block", [7, 64])
def test_a_line_too_long_to_hold_is_one_line_that_is_not_read(tmp_path: Path, block: int) -> None:
    short = b'{"metric":{"__name__":"up","node":"n1"},"values":[1],"timestamps":[1767225600000]}\n'
    (tmp_path / "x").write_bytes(short + b"A" * 2000 + b"\n" + short + b"A" * 2000)
    tally = Tally()
    with patch.object(victoria, "_LONGEST_LINE", 500), patch.object(victoria, "_BLOCK_BYTES", block):
        assert len(list(victoria.read(tmp_path / "x", tally, ReadContext()))) == 2
    assert (tally.read, tally.ok, tally.rejected) == (4, 2, {"line too long": 2})
    assert "max_rows_per_line" in tally.hints[0]
