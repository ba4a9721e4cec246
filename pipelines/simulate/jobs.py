"""Who computes what and when: jobs on disjoint nodes, their ends, deaths and restarts, as one walk through events."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from pipelines.simulate.cluster import Node
from pipelines.simulate.failures import Failure, Plan, aftermath
from pipelines.simulate.habits import Habits
from pipelines.simulate.trouble import HOUR, draw_signs

MINUTE = 60.0
IDLE, LOAD, TRAIN, SAVE, EVAL, HANG, DOWN = range(7)


@dataclass(frozen=True)
class Profile:
    """How a job breathes, in seconds."""

    load: float
    period: float  # from one checkpoint to the next
    save: float
    eval_every: int  # checkpoints
    eval_length: float
    intensity: float


@dataclass
class Attempt:
    """One try of a job; `hang_from` is when a member failed and the others began to wait."""

    job: str
    attempt: int
    nodes: tuple[int, ...]
    started: float
    planned_end: float
    profile: Profile
    ended: float = float("inf")
    outcome: str = ""
    excluded: tuple[int, ...] = ()
    hang_from: float = float("inf")


@dataclass(frozen=True)
class Abort:
    """A user's own error: the same code on many GPUs within seconds."""

    time: float
    xid: int
    attempt: Attempt


@dataclass
class Schedule:
    """What happened: tries, failures with their nodes, aborts, and when nodes were down."""

    attempts: list[Attempt] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    aborts: list[Abort] = field(default_factory=list)
    reboots: list[tuple[int, float, float, str]] = field(default_factory=list)  # node, from, to, why

    def on_node(self, node: int) -> list[Attempt]:
        """The tries that held a node, in time order."""
        return [attempt for attempt in self.attempts if node in attempt.nodes]


def schedule(
    nodes: tuple[Node, ...],
    span: float,
    plans: tuple[Plan, ...],
    aborts: list[float],
    reboots: list[float],
    habits: Habits,
    seed: int,
) -> Schedule:
    """Walk through `span` seconds of jobs, failures, aborts and reboots."""
    return _Walk(nodes, span, habits, seed).run(plans, aborts, reboots)


class _Walk:
    """The walk's state: who is free, who runs, what comes next."""

    def __init__(self, nodes: tuple[Node, ...], span: float, habits: Habits, seed: int) -> None:
        self.nodes = nodes
        self.habits = habits
        self.span = span
        self.rng = np.random.default_rng([seed, 31])
        self.free = {node.index for node in nodes}
        self.since = dict.fromkeys(self.free, -1e9)  # in service without a break since
        self.running: dict[str, Attempt] = {}
        self.waiting = 0  # jobs that will come back
        self.heap: list[tuple[float, int, str, object]] = []
        self.order = count()
        self.jobs = count(4101)
        self.out = Schedule()

    def push(self, time: float, what: str, load: object = None) -> None:
        heapq.heappush(self.heap, (time, next(self.order), what, load))

    def run(self, plans: tuple[Plan, ...], aborts: list[float], reboots: list[float]) -> Schedule:
        self.push(0.0, "arrive")
        for failure in plans:
            self.push(failure.time, "fail", failure)
        for time in aborts:
            self.push(time, "abort")
        for time in reboots:
            self.push(time, "reboot")
        while self.heap:
            time, _, what, load = heapq.heappop(self.heap)
            if time >= self.span:
                break
            getattr(self, f"on_{what}")(time, load)
        for attempt in self.running.values():
            self.out.attempts.append(attempt)
        self.out.attempts.sort(key=lambda attempt: (attempt.started, attempt.job))
        return self.out

    def on_arrive(self, time: float, _: object) -> None:
        """Fill free nodes with new jobs, leaving a spare or two in larger clusters."""
        total = len(self.nodes)
        spare = max(0, round(total * 0.1)) if total > 3 else 0
        most = self.habits.jobs_at_once or max(1, min(6, total // 3))
        while len(self.running) + self.waiting < most and len(self.free) > spare:
            share = max(1, round(total / float(self.rng.choice(self.habits.job_divisors))))
            size = min(share, len(self.free) - spare)
            chosen = tuple(sorted(int(k) for k in self.rng.permutation(sorted(self.free))[:size]))
            planned = time + float(np.clip(self.rng.lognormal(np.log(self.habits.job_hours), 0.6), 2, 60)) * HOUR
            self.start(f"job-{next(self.jobs)}", 1, chosen, time, planned, self.profile())
        self.push(time + float(self.rng.uniform(10, 50)) * MINUTE, "arrive")

    def profile(self) -> Profile:
        rng = self.rng
        return Profile(
            load=float(rng.uniform(3, 9)) * MINUTE,
            period=float(rng.uniform(*self.habits.checkpoint_minutes)) * MINUTE,
            save=float(rng.uniform(50, 200)),
            eval_every=int(rng.integers(3, 9)),
            eval_length=float(rng.uniform(4, 11)) * MINUTE,
            intensity=float(rng.uniform(0.82, 1.0)),
        )

    def start(
        self, job: str, attempt: int, chosen: tuple[int, ...], time: float, planned: float, profile: Profile
    ) -> None:
        tried = Attempt(job, attempt, chosen, round(time, 3), planned, profile)
        self.free -= set(chosen)
        self.running[job] = tried
        self.push(planned, "end", tried)
        # a restart that dies of the same disease: stale processes, a bad checkpoint
        if attempt > 1 and self.rng.random() < self.habits.stumble:
            self.push(time + float(self.rng.uniform(3, 14)) * MINUTE, "stumble", tried)

    def stop(self, attempt: Attempt, time: float, outcome: str, lost: tuple[int, ...] = ()) -> None:
        attempt.ended, attempt.outcome, attempt.excluded = round(time, 3), outcome, lost
        self.out.attempts.append(attempt)
        del self.running[attempt.job]
        self.free |= set(attempt.nodes) - set(lost)

    def alive(self, attempt: object) -> bool:
        return isinstance(attempt, Attempt) and self.running.get(attempt.job) is attempt

    def on_end(self, time: float, load: object) -> None:
        if isinstance(load, Attempt) and self.alive(load) and load.hang_from == float("inf"):
            self.stop(load, time, "completed")

    def on_stumble(self, time: float, load: object) -> None:
        if isinstance(load, Attempt) and self.alive(load) and load.hang_from == float("inf"):
            suspects = self.suspect(load, time)
            self.stop(load, time, "failed", suspects)
            if self.rng.random() >= self.habits.give_up:
                self.retry(load, time)

    def suspect(self, attempt: Attempt, time: float) -> tuple[int, ...]:
        """Now and then a healthy node is blamed and left out for some hours."""
        if len(attempt.nodes) < 2 or self.rng.random() >= self.habits.set_aside:
            return ()
        weights = np.array([self.nodes[k].weight for k in attempt.nodes])
        node = int(self.rng.choice(attempt.nodes, p=weights / weights.sum()))
        self.since[node] = float("inf")
        self.push(time + float(self.rng.uniform(1, 8)) * HOUR, "back", node)
        return (node,)

    def retry(self, dead: Attempt, time: float) -> None:
        """Come back after about 11 minutes, now and then only when somebody looks."""
        if dead.attempt >= self.habits.longest_chain:
            return
        by_hand = self.rng.random() < self.habits.by_hand
        wait = float(self.rng.uniform(30, 150)) if by_hand else float(np.clip(self.rng.normal(10.8, 0.6), 9, 13))
        self.waiting += 1
        self.push(time + wait * MINUTE, "retry", dead)

    def on_retry(self, time: float, load: object) -> None:
        dead = load
        assert isinstance(dead, Attempt)  # noqa: S101  # only `retry` pushes it
        keep = [node for node in dead.nodes if node in self.free and node not in dead.excluded]
        others = [int(k) for k in self.rng.permutation(sorted(self.free - set(keep) - set(dead.excluded)))]
        chosen = tuple(sorted((keep + others)[: len(dead.nodes)]))
        if len(chosen) < max(1, len(dead.nodes) // 2):
            self.push(time + 20 * MINUTE, "retry", dead)  # still waiting for nodes
            return
        self.waiting -= 1
        planned = max(dead.planned_end, time + HOUR)
        self.start(dead.job, dead.attempt + 1, chosen, time, planned, dead.profile)

    def on_fail(self, time: float, load: object) -> None:
        plan = load
        assert isinstance(plan, Plan)  # noqa: S101  # only `run` pushes it
        node = self.victim(plan)
        if node is None:  # nobody has been in service long enough: try again a little later
            if time + 10 * MINUTE < self.span:
                self.push(time + 10 * MINUTE, "fail", replace(plan, time=round(plan.time + 10 * MINUTE, 3)))
            return
        rng = np.random.default_rng([plan.salt, 7])
        gpus = self.nodes[node].gpus
        gpu = int(rng.integers(len(gpus))) if gpus else -1
        reboot, back = aftermath(time, rng)
        span = (plan.time - plan.warning, plan.time)
        effects, lines = draw_signs(plan.kind, node, gpu, span, plan.strength, rng) if plan.warning else ([], [])
        held = next((attempt for attempt in self.running.values() if node in attempt.nodes), None)
        job = held.job if held else ""
        self.out.failures.append(Failure(plan, node, gpu, reboot, back, job, tuple(effects), tuple(lines)))
        self.out.reboots.append((node, *reboot, "failure"))
        self.free.discard(node)
        self.since[node] = float("inf")
        self.push(back, "back", node)
        if held is not None:
            held.hang_from = min(held.hang_from, time)
            # the watchdog of the collective notices within minutes, before the node goes down
            self.push(time + float(rng.uniform(0.4, 3.5)) * MINUTE, "die", (held, node))

    def victim(self, plan: Plan) -> int | None:
        """A node in service since before the warning began; one at work if there is one."""
        ready = [n.index for n in self.nodes if self.since[n.index] < plan.time - plan.warning - 40 * MINUTE]
        hung = {k for attempt in self.running.values() if attempt.hang_from < plan.time for k in attempt.nodes}
        ready = [k for k in ready if k not in hung]
        quiet_start = plan.time - min(plan.warning, HOUR)
        busy = {k for a in self.running.values() if a.started < quiet_start for k in a.nodes}
        pool = [k for k in ready if k in busy] or ready
        if not pool:
            return None
        weights = np.array([self.nodes[k].weight for k in pool])
        return int(self.rng.choice(pool, p=weights / weights.sum()))

    def on_die(self, time: float, load: object) -> None:
        assert isinstance(load, tuple)  # noqa: S101  # a try and its lost node, pushed by on_fail
        attempt, node = load
        if self.alive(attempt):
            self.stop(attempt, time, "failed", (node,))
            self.retry(attempt, time)

    def on_back(self, time: float, load: object) -> None:
        assert isinstance(load, int)  # noqa: S101  # a node's index
        self.free.add(load)
        self.since[load] = time

    def on_abort(self, time: float, _: object) -> None:
        able = [a for a in self.running.values() if a.hang_from == float("inf") and a.started < time - 10 * MINUTE]
        if able:
            hit = able[int(self.rng.integers(len(able)))]
            self.out.aborts.append(Abort(time, int(self.rng.choice([13, 31, 43])), hit))
            self.stop(hit, time + float(self.rng.uniform(5, 40)), "failed")
            self.retry(hit, hit.ended)

    def on_reboot(self, time: float, _: object) -> None:
        """Planned work: an idle node, or the smallest job is stopped for it."""
        pool = sorted(self.free)
        if not pool:
            able = [a for a in self.running.values() if a.hang_from == float("inf")]
            if not able:
                return
            held = min(able, key=lambda a: (len(a.nodes), a.job))
            self.stop(held, time, "cancelled")
            self.retry(held, time)
            pool = sorted(held.nodes)
        node = int(self.rng.choice(pool))
        down = time + 60.0
        up = down + float(self.rng.uniform(4, 12)) * MINUTE
        self.out.reboots.append((node, round(down, 3), round(up, 3), "planned"))
        self.free.discard(node)
        self.since[node] = float("inf")
        self.push(up + float(self.rng.uniform(1, 30)) * MINUTE, "back", node)
