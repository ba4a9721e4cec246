"""What a simulation wrote is never taken for a real cluster's."""

import gzip
import json
from pathlib import Path

import pytest

from pipelines import made_up
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.store import Store

LINE = {
    "metric": {"__name__": "up", "instance": "n1:9100"},
    "values": [1.0, 1.0],
    "timestamps": [1_767_225_600_000, 1_767_225_630_000],
}


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A metric file as it lies in an export, without what tells a simulation's."""
    folder = tmp_path / "export" / "metrics"
    folder.mkdir(parents=True)
    (folder / "n1.jsonl.gz").write_bytes(gzip.compress(json.dumps(LINE).encode() + b"\n"))
    return folder.parent


def taken(export: Path) -> Store:
    ingest(export.parent / "store", Config(), metrics=[export / "metrics"])
    return Store.open(export.parent / "store")


def test_a_store_of_a_simulation_s_export_says_so(export: Path) -> None:
    (export / made_up.TRUTH).write_text(json.dumps({"note": made_up.NOTE, "failures": []}))
    assert made_up.words(taken(export)) == made_up.WORDS


@pytest.mark.parametrize("beside", ["", "{}", '{"note": "the truth about node 7"}'])
def test_another_file_of_that_name_makes_nothing_up(export: Path, beside: str) -> None:
    if beside:
        (export / made_up.TRUTH).write_text(beside)
    assert made_up.words(taken(export)) == ""
