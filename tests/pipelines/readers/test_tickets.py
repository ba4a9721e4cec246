"""Incidents that people keep by hand."""

from pathlib import Path

import pytest

from pipelines.readers.context import LogContext
from pipelines.readers.tickets import read_incidents

CONTEXT = LogContext(aliases={"gpu-rack4-7": "n7"})


@pytest.mark.parametrize(("host", "node"), [("n1.example.net", "n1"), (" gpu-rack4-7 ", "n7")])
@pytest.mark.parametrize(
    "text", ["node,start,end\n{},2026-01-01T00:00:00Z,\n", "time,node,xid\n2026-01-01T00:00:00Z,{},79\n"]
)
def test_nodes_have_the_names_they_have_in_logs_and_metrics(tmp_path: Path, text: str, host: str, node: str) -> None:
    (tmp_path / "i.csv").write_text(text.format(host))
    assert read_incidents(tmp_path / "i.csv", CONTEXT)["node"].tolist() == [node]
