"""Scraped hosts and the nodes named there: which names are only addresses, and whose; the same for store and live."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Self

from pipelines.identity import Identity, is_address


class Hosts:
    """What identities said of hosts; it does not depend on their order.

    Attributes
    ----------
    named
        By scraped host, every node that was named in series scraped there; a node that says no host is its own.
    unsettled
        Addresses and pods' names that stood for a node, for want of a better one.
    """

    def __init__(self, named: Mapping[str, Iterable[str]] | None = None, unsettled: Iterable[str] = ()) -> None:
        """Begin with what is known."""
        self.named: defaultdict[str, set[str]] = defaultdict(set)
        self.unsettled: set[str] = set()
        self.add(named or {}, unsettled)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Self:
        """What `said` wrote."""
        return cls(said["addresses"], said["unsettled"])

    def said(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "addresses": {host: sorted(nodes) for host, nodes in sorted(self.named.items())},
            "unsettled": sorted(self.unsettled),
        }

    def add(self, named: Mapping[str, Iterable[str]], unsettled: Iterable[str]) -> None:
        """Take over what others saw."""
        for host, nodes in named.items():
            self.named[host].update(nodes)
        self.unsettled.update(unsettled)

    def see(self, identity: Identity) -> None:
        """Learn from one series."""
        if identity.settled:
            self.named[identity.address or identity.node].add(identity.node)
        else:
            self.unsettled.add(identity.node)

    def names(self) -> dict[str, str]:
        """The node of each name that is only an address.

        One with series of several nodes (kube-state-metrics) is none's, and a host that is a node itself stays one:
        who is spoken of there (IPMI, SNMP) is another machine.
        """
        settled = set[str]().union(*self.named.values())
        return {
            host: min(nodes)
            for host, nodes in sorted(self.named.items())
            if len(nodes) == 1 and host not in settled and (host in self.unsettled or is_address(host))
        }

    def doubles(self, nodes: Iterable[str]) -> list[tuple[str, str]]:
        """Pairs of these nodes that seem to be one machine.

        The first is named only in series scraped at the second, where no third is; or their names differ in case alone.
        """
        there = set(nodes)
        scraped_at: defaultdict[str, set[str]] = defaultdict(set)
        for host, named in self.named.items():
            for node in named if host in there else ():
                scraped_at[node].add(host)
        pairs = {
            (node, min(hosts))
            for node, hosts in scraped_at.items()
            if node in there and len(hosts) == 1 and not hosts & {node} and self.named[min(hosts)] <= {node, *hosts}
        }
        spelt = sorted(there, key=lambda name: (name.casefold(), name))
        alike = {pair for pair in pairwise(spelt) if pair[0].casefold() == pair[1].casefold()}
        return sorted(pairs | {pair for pair in alike if pair[::-1] not in pairs})
