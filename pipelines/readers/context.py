"""What a log file does not say of itself: its zone, year, boot time and node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pandas as pd

from features.tables import UsageError
from pipelines.identity import LOOPBACK

_ADDRESS = re.compile(r"[\d.]+|.*:.*")


@dataclass(frozen=True)
class LogContext:
    """What the user says about log files.

    Attributes
    ----------
    timezone
        IANA name for times without a zone; "" takes UTC and says so.
    reference_time
        When the export was made, for times without a year; None takes the file's own time.
    reference_guessed
        Whether that is the file's own time.
    boot_time
        For seconds since boot (dmesg, kmsg).
    node
        For formats that name no host.
    strip_domain
        ``n7.example.net`` is ``n7``.
    aliases
        A host name as exported: the canonical node.
    max_line_bytes
        Longer lines are cut here.
    """

    timezone: str = ""
    reference_time: pd.Timestamp | None = None
    reference_guessed: bool = False
    boot_time: pd.Timestamp | None = None
    node: str = ""
    strip_domain: bool = True
    aliases: Mapping[str, str] = field(default_factory=dict)
    max_line_bytes: int = 1 << 20

    def zone(self) -> ZoneInfo:
        """The zone of times that name none.

        Raises
        ------
        UsageError
            The name is unknown.
        """
        try:
            return ZoneInfo(self.timezone or "UTC")
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise UsageError(f"--timezone {self.timezone}: unknown zone; write one as America/New_York") from error

    def canonical(self, host: str) -> str:
        """The node a host name means; "" becomes the node said by the user."""
        if not host or host in LOOPBACK:
            return self.node
        if host in self.aliases:
            return self.aliases[host]
        if self.strip_domain and not _ADDRESS.fullmatch(host):
            host = host.split(".", 1)[0] or host
        return self.aliases.get(host, host)
