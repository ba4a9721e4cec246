"""No input breaks a reader of logs: mutated exports give lines or counts, never another exception than our own.

FORESHOCK_FUZZ sets how many mutations a format gets; the default keeps the suite short.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.tables import InputError
from pipelines.readers.logs import recognise_log
from tests.pipelines.readers.test_metric_fuzz import mutations, no_hang, peak
from tests.pipelines.test_logs import FORMATS, LINE, Read

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


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_recognised_or_not(data: bytes) -> None:
    recognise_log(data)
