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
    save_rate, load_rate
        Bytes a second of a node that saves or loads alone, with 128 slots.
    save_half, load_half
        Nodes of a job at which half of that is left to each.
    slots_fill_at
        Nodes of a job from which on its saves and loads fill the slots; below, the server is quick enough.
    queue_ratio
        Time that an operation waits for a slot over the time of its reply, where they are full.
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
    save_rate: float = 1.7e9
    load_rate: float = 2.3e9
    save_half: float = 80.0
    load_half: float = 60.0
    slots_fill_at: int = 0
    queue_ratio: float = 13.0
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
# Its loads reach 21.5 % of 700 GB/s and its saves 16.0 % of 250 GB/s: with 57 nodes at work 2.6 and 0.70 GB/s a node.
# A load keeps that at every size, for no node of the study uses more than 10.4 % of a 200 Gb/s link; a save has
# 1.7 GB/s in a job of four. Its slots bound 60 nodes and not two to four; 93.1 % of a WRITE's time is its queue's.
STUDY = Habits(
    save_rate=1.9e9,
    load_rate=2.6e9,
    save_half=33.2,
    load_half=1e9,
    slots_fill_at=8,
    queue_ratio=0.931 / 0.069,
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
