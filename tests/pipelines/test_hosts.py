"""Names that are only addresses are joined to their node; machines are never joined, in the store as live."""

import json
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from pipelines import cli
from pipelines.config import Config
from pipelines.hosts import Hosts
from pipelines.identity import Identifier
from pipelines.ingest import ingest
from pipelines.live import panels
from pipelines.readers.metrics import READERS
from pipelines.readers.samples import ReadContext
from pipelines.readers.tally import Tally
from pipelines.store import Store

CONFIG = Config()
T0 = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
TWO_NAMES = (
    {"__name__": "DCGM_FI_DEV_GPU_TEMP", "Hostname": "n7", "instance": "gpu-node-07:9400", "UUID": "GPU-7"},
    {"__name__": "node_load1", "instance": "gpu-node-07:9100"},
)
OF_ANOTHER = (
    {"__name__": "node_load1", "instance": "login1:9100"},
    {"__name__": "node_load1", "instance": "n7:9100"},
    {"__name__": "ipmi_temperature_celsius", "node": "n7", "instance": "login1:9290"},
)
POD = (
    {"__name__": "m", "instance": "exp-ab12c", "pod": "exp-ab12c"},
    {"__name__": "k", "Hostname": "n7", "instance": "exp-ab12c", "pod": "exp-ab12c"},
)


def put(path: Path, *series: dict[str, str]) -> Path:
    """An export with one sample of each series."""
    lines = [json.dumps({"metric": one, "values": [1], "timestamps": [T0 // 10**6]}) for one in series]
    path.write_text("\n".join(lines) + "\n")
    return path


def held(store: Path) -> dict[str, list[str]]:
    """The metrics of every node."""
    opened = Store.open(store)
    return {
        node: [series.metric for series in opened.panel(node, T0, T0 + 30 * 10**9).series] for node in opened.nodes()
    }


def seen(*series: dict[str, str]) -> Hosts:
    hosts, identifier = Hosts(), Identifier(CONFIG.ingest)
    for one in series:
        hosts.see(identifier.identify(one))
    return hosts


def test_a_machine_of_two_names_keeps_the_samples_of_both(tmp_path: Path) -> None:
    ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", *TWO_NAMES)])
    assert held(tmp_path / "s") == {"gpu-node-07": ["node_load1"], "n7": ["DCGM_FI_DEV_GPU_TEMP"]}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_who_is_spoken_of_at_a_machine_is_another_in_any_order(tmp_path: Path, order: tuple[int, ...]) -> None:
    for number in order:
        ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / str(number), OF_ANOTHER[number])])
    assert held(tmp_path / "s") == {"login1": ["node_load1"], "n7": ["ipmi_temperature_celsius", "node_load1"]}


@pytest.mark.parametrize("order", [POD, POD[::-1]])
def test_a_pod_becomes_the_node_that_is_named_there_in_any_order(
    tmp_path: Path, order: tuple[dict[str, str], ...]
) -> None:
    for number, series in enumerate(order):
        ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / str(number), series)])
    assert held(tmp_path / "s") == {"n7": ["k", "m"]}


def test_lines_of_an_address_join_its_node_and_those_of_a_machine_stay(tmp_path: Path) -> None:
    logs = tmp_path / "syslog"
    logs.write_text("2026-01-01T00:00:00Z 10.0.0.7 kernel: a\n2026-01-01T00:00:00Z login1 kernel: b\n")
    named = [{"__name__": "m", "node": "n7", "instance": f"{host}:9290"} for host in ("10.0.0.7", "login1")]
    ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", *named)], logs=[logs])
    lines = Store.open(tmp_path / "s").logs(T0, T0 + 10**9)
    assert lines[["node", "message"]].to_numpy().tolist() == [["login1", "b"], ["n7", "a"]]


@pytest.mark.parametrize("series", [TWO_NAMES, OF_ANOTHER, POD])
def test_live_panels_are_those_of_the_store(tmp_path: Path, series: tuple[dict[str, str], ...]) -> None:
    ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", *series)])
    chunks = READERS["victoria"](tmp_path / "m", Tally(), ReadContext())
    live, _ = panels(chunks, CONFIG, 30 * 10**9, T0, T0 + 30 * 10**9)
    store = Store.open(tmp_path / "s")
    assert list(live) == store.nodes()
    for node, panel in live.items():
        stored = store.panel(node, T0, T0 + 30 * 10**9)
        assert panel.series == stored.series
        np.testing.assert_array_equal(panel.values, stored.values)


def test_an_address_of_several_nodes_is_none_s() -> None:
    at = [{"__name__": "m", "node": node, "instance": "10.0.0.1:8080"} for node in ("n7", "n8")]
    assert seen(at[0]).names() == {"10.0.0.1": "n7"}
    assert seen(*at).names() == {}


def test_a_domain_makes_no_other_host() -> None:
    hosts = seen(
        {"__name__": "m", "Hostname": "n7", "instance": "gpu-node-07.example.net:9400"},
        {"__name__": "k", "instance": "gpu-node-07.example.net:9100"},
    )
    assert hosts.doubles(["gpu-node-07", "n7"]) == [("n7", "gpu-node-07")]


def test_what_was_seen_is_the_same_after_writing_and_reading() -> None:
    hosts = seen(*TWO_NAMES, *POD)
    assert Hosts.read(json.loads(json.dumps(hosts.said()))).said() == hosts.said()


@pytest.mark.parametrize(
    ("series", "nodes"),
    [
        (OF_ANOTHER, ["login1", "n7"]),  # n7 is scraped under its own name
        ([{"__name__": "m", "node": node, "instance": "login1:1"} for node in ("n7", "n8")], ["login1", "n7", "n8"]),
        ([{"__name__": "m", "node": "n7", "instance": "10.0.0.7:1"}], ["n7"]),
        (TWO_NAMES[:1], ["n7"]),  # nothing is held under the host's name
    ],
)
def test_machines_that_are_two_look_like_two(series: tuple[dict[str, str], ...], nodes: list[str]) -> None:
    assert seen(*series).doubles(nodes) == []


@pytest.mark.parametrize(("name", "host"), [("GPU07", "gpu07"), ("gpu07", "GPU07")])
def test_names_that_differ_in_case_alone_look_like_one_machine_once(name: str, host: str) -> None:
    hosts = seen({"__name__": "m", "Hostname": name, "instance": f"{host}:1"}, {"__name__": "k", "instance": host})
    assert hosts.doubles([name, host]) == [(name, host)]
    assert Hosts().doubles(["GPU07", "gpu07", "gpu08"]) == [("GPU07", "gpu07")]


def test_a_machine_of_two_names_is_told_in_one_line_and_its_cure_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, export = tmp_path / "config.toml", put(tmp_path / "m", *TWO_NAMES)
    other = put(tmp_path / "other", *({**one, "instance": "GPU-08:1", "Hostname": "gpu-08"} for one in TWO_NAMES[:1]))
    put(tmp_path / "more", {"__name__": "node_load1", "instance": "GPU-08:1"})

    def said(store: str, *words: object) -> list[str]:
        with pytest.raises(SystemExit):
            cli.main(["ingest", str(tmp_path / store), "--metrics", *map(str, words)])
        return [line for line in capsys.readouterr().err.splitlines() if "one machine" in line]

    (line,) = said("s", export)
    assert "n7 and its scraped host gpu-node-07 are kept as two nodes but look like one machine" in line
    assert 'set ingest.aliases to { "gpu-node-07" = "n7" }' in line
    (line,) = said("t", export, "--metrics", other, "--metrics", tmp_path / "more")
    assert "gpu-08 and GPU-08 (and 1 more such pairs) are kept as two nodes" in line
    config.write_text('[ingest]\naliases = { "gpu-node-07" = "n7" }\n')
    assert said("u", export, "--config", config) == []
    assert held(tmp_path / "u") == {"n7": ["DCGM_FI_DEV_GPU_TEMP", "node_load1"]}
