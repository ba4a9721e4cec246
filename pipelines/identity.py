"""Labels to who was measured: the node, the GPU, the series."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from features.tables import GPUS, Series, conform
from pipelines.config import IngestSettings

_NULLS = frozenset({"", "<<<NULL>>>", "null", "None", "N/A", "unknown"})  # what exporters write for "no value"
LOOPBACK = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1", "0.0.0.0", "::"})  # noqa: S104  # names to pass over, nothing is bound
_PORT = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[^:]+):\d{1,5}$")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://")
_PCI = re.compile(r"^(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?$", re.IGNORECASE)
_BARE_UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", re.IGNORECASE)
# dcgm-exporter-x1y2z, prometheus-node-exporter-ab12c: the exporter's own pod
_EXPORTER_POD = re.compile(r"exporter.*-[a-z0-9]{4,10}$|^dcgm-exporter$|^node-exporter$")
# Metrics about the scraping or the exporter's own process: without their job two exporters of a node would be one
_OF_A_TARGET = re.compile(r"^(up|scrape_|go_|process_|promhttp_|python_)")
# node_exporter knows no GPU; its uuid labels are file systems' and caches'
_NEVER_OF_A_GPU = re.compile(r"^node_")
_NOTHING = frozenset({"", "<<<NULL>>>"})  # a label's value that says nothing
_NAME_CHARACTERS = 200  # a longer one is no host name, and no file name either


class Identity(NamedTuple):
    """Who one labelled series is about.

    ``node`` is "" when nothing names one; ``settled`` is False when it is only an address or a pod's name, for
    want of a better one; ``address`` is the scraped host, as a node would be named by it.
    """

    node: str
    series: Series
    pci: str
    settled: bool
    address: str


@lru_cache(maxsize=1 << 12)
def pci(text: str) -> str:
    """The canonical ``dddd:bb:dd`` of a PCI address in any form; "" when it is none.

    The domain keeps at least four digits, the function goes.
    """
    found = _PCI.match(text.strip())
    if not found:
        return ""
    domain = (found[1] or "").lower().lstrip("0").rjust(4, "0")
    return f"{domain}:{found[2].lower()}:{found[3].lower()}"


@lru_cache(maxsize=1 << 12)
def gpu(text: str) -> str:
    """The canonical UUID; one exporter leaves off the ``GPU-`` that the others write."""
    text = text.strip()
    if text in _NULLS or len(text) > _NAME_CHARACTERS:
        return ""
    if _BARE_UUID.match(text):
        return f"GPU-{text.lower()}"
    return text.replace("|", "_")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_address(name: str) -> bool:
    """Whether this is a bare IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1 << 12)
def without_port(text: str) -> str:
    """``n7:9400`` is n7, ``[::1]:9100`` is ::1, ``http://n7:9400/metrics`` is n7."""
    text = _SCHEME.sub("", text.strip()).split("/", 1)[0]
    found = _PORT.match(text)
    return (found[1] if found else text).strip("[]")


def host(name: str, settings: IngestSettings) -> str:
    """The canonical node of a host name or address: aliases first, then without the domain."""
    for form in (name.strip(), without_port(name)):
        if form in settings.aliases:
            return settings.aliases[form]
    name = without_port(name)
    if settings.strip_domain and not is_address(name):
        name = name.split(".", 1)[0]
        name = settings.aliases.get(name, name)
    return name


def metric_text(name: str, labels: Mapping[str, str]) -> str:
    """``name`` or ``name{a="x",b="y"}`` with sorted labels, quoted as Prometheus does."""
    if not labels:
        return name
    quoted = (
        f'{key}="{value}"'
        for key, value in sorted(
            (key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, value in labels.items()
        )
    )
    return f"{name}{{{','.join(quoted)}}}"


def last_known(rows: Sequence[Mapping[Hashable, object]]) -> pd.DataFrame:
    """GPUS: every GPU once, with the address it was last seen at."""
    if not rows:
        return GPUS.empty()
    frame = conform(pd.DataFrame(list(rows)), GPUS).sort_values(["node", "gpu", "last", "pci"])
    frame["pci"] = frame["pci"].replace("", None)
    folded = frame.groupby(["node", "gpu"], as_index=False).agg({"pci": "last", "first": "min", "last": "max"})
    return conform(folded, GPUS)


@lru_cache(maxsize=1 << 14)
def _kinds(name: str) -> tuple[bool, bool]:
    """Whether a metric may be of a GPU, and whether it is about the scraping itself."""
    return not _NEVER_OF_A_GPU.match(name), bool(_OF_A_TARGET.match(name))


def _first(canonical: Callable[[str], str], labels: Mapping[str, str], names: Sequence[str]) -> str:
    """The first of these labels that says something, in its canonical form."""
    for name in names:
        text = labels.get(name)
        if text and (found := canonical(text)):
            return found
    return ""


class Identifier:
    """Identities by `IngestSettings`; labels that all metrics of a target share are looked at once."""

    def __init__(self, settings: IngestSettings, node: str = "") -> None:
        """Prepare; ``node`` is the name the user gives to what names none itself."""
        self._settings = settings
        self._node = node
        self._dropped = frozenset(settings.dropped_labels)
        self._dropped_of_gpu = frozenset(settings.gpu_dropped_labels)
        self._known: dict[tuple[object, ...], tuple[str, str, str, str, bool, str]] = {}
        self._hidden: dict[tuple[frozenset[str], bool, bool, bool], frozenset[str]] = {}
        self._naming = (*settings.node_labels, "pod", "exported_pod")
        self._nodes: dict[tuple[str | None, ...], tuple[str, bool, frozenset[str]]] = {}

    def identify(self, labels: Mapping[str, str]) -> Identity:
        """Who these labels are about; ``series.metric`` is "" when they name no metric."""
        rest = dict(labels)
        name = rest.pop("__name__", "")
        kinds = _kinds(name)
        key = kinds, *rest, None, *rest.values()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._look(rest, *kinds)
        node, uuid, said, address, settled, where = known
        return Identity(node, Series(name + said if name else "", uuid), address, settled, where)

    def _look(
        self, labels: Mapping[str, str], of_a_gpu: bool, of_a_target: bool
    ) -> tuple[str, str, str, str, bool, str]:
        """Node, GPU, what follows the metric's name, PCI address, whether the node is settled, the host scraped."""
        node, settled, named = self._node_of(labels)
        uuid = _first(gpu, labels, self._settings.gpu_labels) if of_a_gpu else ""
        address = _first(pci, labels, self._settings.pci_labels)
        hidden = self._hidden_of(named, of_a_gpu, of_a_target, uuid != "")
        rest = {key: value for key, value in labels.items() if key not in hidden and value not in _NOTHING}
        return node, uuid, metric_text("", rest), address, settled, host(labels.get("instance", ""), self._settings)

    def _hidden_of(self, named: frozenset[str], of_a_gpu: bool, of_a_target: bool, has_gpu: bool) -> frozenset[str]:
        """Labels that are no part of a series' own name."""
        key = named, of_a_gpu, of_a_target, has_gpu
        known = self._hidden.get(key)
        if known is None:
            gpu_labels = self._settings.gpu_labels if of_a_gpu else ()
            hidden = self._dropped.union(named, self._settings.pci_labels, gpu_labels)
            if of_a_target:
                hidden = hidden - {"job"}
            if has_gpu:
                hidden = hidden | self._dropped_of_gpu
            known = self._hidden[key] = hidden | {"__name__"}
        return known

    def _node_of(self, labels: Mapping[str, str]) -> tuple[str, bool, frozenset[str]]:
        """As `_find_node`, and the labels that name it; looked at once for all series of a target."""
        key = tuple(map(labels.get, self._naming))
        known = self._nodes.get(key)
        if known is None:
            node, settled = self._find_node(labels)
            # a numeric "node" is a NUMA node (node_exporter's meminfo_numa) and tells series apart
            named = frozenset(
                key for key in self._settings.node_labels if not _is_number(labels.get(key, "")) or labels[key] == node
            )
            known = self._nodes[key] = node, settled, named
        return known

    def _find_node(self, labels: Mapping[str, str]) -> tuple[str, bool]:
        """The node and whether its name is a real one, by the precedence of the settings."""
        pods = {labels[key] for key in ("pod", "exported_pod") if labels.get(key)}
        second_best: list[str] = []
        for name in self._settings.node_labels:
            text = labels.get(name, "").strip()
            bare = without_port(text)
            if bare in _NULLS or len(bare) > _NAME_CHARACTERS:
                continue
            canonical = host(text, self._settings)
            aliased = canonical not in {bare, bare.split(".", 1)[0]}
            if aliased:
                return canonical, True
            if bare in LOOPBACK:  # every node calls itself so: none can be told from another
                continue
            if is_address(bare) or _is_number(bare) or text in pods or _EXPORTER_POD.search(text):
                second_best.append(canonical)
            elif canonical:
                return canonical, True
        if self._node:
            return self._node, True
        # an address says where, a pod's name at least tells two apart
        second_best.sort(key=lambda text: (_is_number(text), not is_address(text)))
        return (second_best[0] if second_best else ""), False
