"""Scores to a Pushgateway.

It never forgets, so the whole group is replaced (PUT) under one fixed grouping key: a node that is gone from the
scores is gone from the gateway too.
"""

from __future__ import annotations

from typing import Any

from pipelines.writers.post import deliver
from pipelines.writers.textfile import exposition

GROUP = "metrics/job/foreshock"


def push(url: str, report: dict[str, Any]) -> None:
    """Replace foreshock's group.

    Raises
    ------
    UpstreamError
        The gateway can't be reached or refuses.
    """
    content_type = "text/plain; version=0.0.4; charset=utf-8"
    deliver("Pushgateway", "PUT", f"{url.rstrip('/')}/{GROUP}", exposition(report), content_type)
