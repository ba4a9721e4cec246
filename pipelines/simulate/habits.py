"""How a cluster lives, beyond its size: what a run may change without touching the code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Habits:
    """Shares, rates and lengths; rates are per node and day.

    Attributes
    ----------
    rpc_slots
        Requests that one node's NFS transport holds in flight; 0 lifts the limit.
    job_divisors
        A new job takes the cluster's nodes divided by one of these.
    jobs_at_once
        0: a third of the number of nodes, at most six.
    stumble
        Share of restarts that die within minutes.
    set_aside
        Share of those after which a suspected but healthy node is left out for hours.
    give_up
        Share of those after which nobody tries again.
    by_hand
        Share of restarts that wait for a person instead of the 11-minute retry.
    weak_nodes
        Nodes that break most often; None draws each with a chance of 0.15.
    """

    rpc_slots: int = 128
    checkpoint_minutes: tuple[float, float] = (20.0, 60.0)
    job_hours: float = 14.0
    job_divisors: tuple[float, ...] = (1.8, 2.5, 3.5, 5.0)
    jobs_at_once: int = 0
    stumble: float = 0.3
    set_aside: float = 0.1
    give_up: float = 0.0
    by_hand: float = 0.15
    longest_chain: int = 8
    weak_nodes: int | None = None
    weak_weight: float = 6.0
    user_errors: float = 0.08
    planned_reboots: float = 0.03


# Set so that 63 nodes, 55 days and 10 failures give about the counts of arXiv 2605.09370: one large job at a time,
# 224 sessions, 523 saves, 12 chains with 73 tries of which a third succeed, three nodes with over half the exclusions.
STUDY = Habits(
    checkpoint_minutes=(105.0, 142.0),
    job_hours=6.6,
    job_divisors=(1.05, 1.05, 1.3, 2.0, 4.0, 16.0),
    jobs_at_once=1,
    stumble=0.93,
    set_aside=0.25,
    give_up=0.16,
    by_hand=0.05,
    longest_chain=20,
    weak_nodes=3,
    weak_weight=300.0,
    user_errors=0.001,
    planned_reboots=0.005,
)
