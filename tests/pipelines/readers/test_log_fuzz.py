"""No input breaks a reader of logs: mutated exports give lines or counts, never another exception than our own.

Each mutation is a file of its own, of which FORESHOCK_FUZZ sets how many a format gets; and ten thousand
(FORESHOCK_FUZZ_LINES) mutated lines lie beside each other in a few files, which costs a hundredth of the time.
"""

import contextlib
import os
import random
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.tables import LOGS, InputError, check
from pipelines.readers import lines
from pipelines.readers.logs import read_logs, recognise_log
from pipelines.readers.tally import Tally
from tests.pipelines.readers.test_metric_fuzz import AT_ONCE, LINES, mutated_lines, mutations, no_hang, peak
from tests.pipelines.test_logs import DEFAULT, FORMATS, LINE, Read

EXAMPLES = int(os.environ.get("FORESHOCK_FUZZ", "10"))
SEEDS = {name: (template % LINE + "\n").encode() * 3 for name, template in FORMATS.items()}
SEEDS["cri"] = b"2026-01-01T00:00:00.123Z stdout P one \n2026-01-01T00:00:00.123Z stderr F other\n" * 2


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_mutated_logs_break_no_reader(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(SEEDS[name]), st.sampled_from(sorted(SEEDS)), st.integers(0, 200))
    def broken(data: bytes, other: str, place: int) -> None:
        spliced = data[:place] + SEEDS[other][:80] + data[place:] if place < len(data) // 2 else data
        with tempfile.TemporaryDirectory() as folder, no_hang(), contextlib.suppress(InputError):
            Read(Path(folder), spliced)  # which holds read == ok + rejected

    before = peak()
    broken()
    assert peak() - before < 512 << 20


DOCUMENTS = {"elastic-search", "loki-api"}  # a file is one, so a mutation needs a file


@pytest.mark.parametrize("name", sorted(SEEDS.keys() - DOCUMENTS))
def test_ten_thousand_mutated_lines_break_no_reader(name: str, tmp_path: Path) -> None:
    draw = random.Random(name)  # noqa: S311  # mutations
    for number in range(LINES // AT_ONCE):
        data = mutated_lines(SEEDS[name].split(b"\n")[0], draw)
        path, tally = tmp_path / f"{number}.log", Tally()
        path.write_bytes(data)
        with no_hang():
            for frame in read_logs(path, DEFAULT, tally):
                check(frame, LOGS)
        assert tally.read == tally.ok + sum(tally.rejected.values()) > AT_ONCE // 2


def both_ways(data: bytes, folder: Path) -> None:
    """Compiled code and the plain way give the same table and the same counts."""
    found: list[object] = []
    for plain_bytes in (0, 1 << 40):
        with patch.object(lines, "PLAIN_BYTES", plain_bytes):
            try:
                read = Read(folder, data)
            except InputError as error:
                found.append(([], str(error), {}, {}))
                continue
            found.append((read.frame.to_numpy().tolist(), "", read.tally.rejected, read.tally.noted))
    assert found[0] == found[1]


SCANNED = {
    **{name: SEEDS[name] for name in SEEDS if name.startswith(("journald", "rfc", "short"))},
    "journald-escapes": rb'{"__REALTIME_TIMESTAMP":"1767225600250000","_HOSTNAME":"n1","_SYSTEMD_UNIT":"a\\x2db",'
    rb'"PRIORITY":"4","_TRANSPORT":"kernel","_COMM":"c","MESSAGE":"a\"b\\\u00e9\n\u20ac\/"}'
    b"\n",
    "rfc3164-usual": b"<4>Feb 29 00:00:00 n1 app[7]: a \xc3\xa9\r\nDec  9 23:59:59.5 n1 app: b\n" * 2,
}


@pytest.mark.parametrize("name", sorted(SCANNED))
def test_compiled_code_reads_what_the_plain_way_reads(name: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(mutations(SCANNED[name]))
    def same(data: bytes) -> None:
        with tempfile.TemporaryDirectory() as folder:
            both_ways(data, Path(folder))

    both_ways(SCANNED[name] * 2, Path(tempfile.mkdtemp()))  # compiles, if nothing did before
    same()


@pytest.mark.parametrize("name", sorted(SCANNED))
def test_compiled_code_reads_ten_thousand_mutated_lines_as_the_plain_way_does(name: str, tmp_path: Path) -> None:
    draw = random.Random(name)  # noqa: S311  # mutations
    for _ in range(LINES // AT_ONCE):
        both_ways(mutated_lines(SCANNED[name].split(b"\n")[0], draw), tmp_path)


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_recognised_or_not(data: bytes) -> None:
    recognise_log(data)
