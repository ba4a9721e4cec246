"""What the figures of retries say, as sentences; every number in one comes from the result it is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

Told = Mapping[str, Any]

DERIVED = (
    "No scheduler's record was given (ingest --sessions): tries are told from GPU activity and incidents. Whether a "
    "try succeeded and a retry was automatic can't be said, intervals hold the loading before GPUs work, tries that "
    "died before that are not seen, and a job is followed only over a failure on mostly the same nodes."
)
NO_SESSIONS = (
    "There is neither a scheduler's record (ingest --sessions) nor GPU utilisation: nothing can be said of retries, "
    "intervals, success and lost hours."
)
NO_NODES = "The sessions name no nodes: lost hours and what exclusions cost can't be said; give them a column nodes."
NO_HOURS = "No try has both a start and an end: lost hours and intervals can't be said; give the column ended."
NO_SPARE = "The cluster has {nodes} node(s): no rule for taking nodes out can be tried, for no node could stand in."
NO_GPUS = "How many GPUs a node has is not known: hours are node-hours; set retries.gpus_per_node."
DROPPED = (
    "The sessions name no excluded nodes: whether a node was left out on purpose can't be said; nodes of a failed try "
    "that its retry ran without were taken for it."
)
NO_EXCLUSIONS = "The sessions name no excluded nodes: nothing can be said of exclusions; give them a column excluded."
NO_FAILURES = "There is no failure of preset {preset} on few nodes: nothing can be said of how nodes fail again by it."
ALL_WIDE = "All {wide} incidents of {name} touch many nodes at once: they are a job's, and say nothing of a node."
UNKNOWN_SIZE = (
    "How many nodes the cluster has is not known: those that are named anywhere ({nodes}) were taken for all, so "
    "concentration is understated; set retries.nodes."
)
CLOCKS = (
    "Clocks seem apart: moved by {hours:+d} h, {hits} of {of} failures meet the end of a try, as they are {now}; give "
    "the scheduler's times with their zone, and read what joins failures and tries with care."
)

SOURCES = {
    "exclusions": ("exclusion", "exclusions"),
    "failures": ("failure", "failures"),
    "any_xid": ("incident of any XID", "incidents of any XID"),
}


def doubts(counts: Counter[str], total: int) -> list[str]:
    """A sentence for each way in which tries can't be told in full."""
    lost = {
        "without a start": "they belong to no chain by time",
        "without an end": "their length, the wait after them and the hours they lost can't be said",
        "that end before they start": "the end was set aside as wrong, and with it their length and lost hours",
        "still running or of unknown outcome": "they count neither as success nor as failure",
        "that begin before the try before has ended": "the interval before them can't be said",
        "whose clocks are slightly apart": "their interval was taken as zero",
    }
    return [
        f"{counts[reason]} of {total} tries {_verb(reason, counts[reason])}: {result}."
        for reason, result in lost.items()
        if counts[reason]
    ]


def unfamiliar(words: Counter[str], most: int = 5) -> list[str]:
    """Endings in words that are not known."""
    if not words:
        return []
    named = ", ".join(f"{word[:40]!r} ({count})" for word, count in words.most_common(most))
    more = f" and {len(words) - most} more" if len(words) > most else ""
    sentence = (
        f"What {named}{more} say of how a try ended is not known: {_many(words.total(), 'tries', 'try')} with them "
        "count as failures; export outcomes in English (completed, failed, cancelled)."
    )
    return [sentence]


def _verb(reason: str, count: int) -> str:
    """The reason as the rest of a sentence."""
    one, many = {
        "without a start": ("comes without a start", "come without a start"),
        "without an end": ("comes without an end", "come without an end"),
        "that end before they start": ("ends before it starts", "end before they start"),
        "still running or of unknown outcome": (f"is {reason}", f"are {reason}"),
        "that begin before the try before has ended": (
            "begins before the job's try before has ended",
            "begin before the job's try before has ended",
        ),
        "whose clocks are slightly apart": (
            "begins just before the try before has ended, as clocks apart do",
            "begin just before the try before has ended, as clocks apart do",
        ),
    }[reason]
    return one if count == 1 else many


def sentences(result: Told) -> list[str]:
    """The whole result for a person."""
    out = []
    if result["sessions"]["sessions"]:
        out += _tries(result)
    for source, told in result["troubles"].items():
        events = told["concentration"]["events"]
        if source != "any_xid" or events > _events(result, "failures"):
            out += _nodes(source, told)
    return out


def _events(result: Told, source: str) -> int:
    told = result["troubles"].get(source)
    return int(told["concentration"]["events"]) if told else 0


def _tries(result: Told) -> list[str]:
    made, listed, tried = result["sessions"], result["chains"], result["attempts"]
    derived = " (told from GPU activity)" if result["source"] == "derived" else ""
    whole = (
        f"{_many(made['sessions'], 'tries', 'try')} of {_many(made['jobs'], 'jobs')}{derived} on "
        f"{_many(result['nodes'], 'nodes')} in {_days(result['days'])}; "
        f"{_many(listed['chains'], 'chains')} of two tries or more with {listed['attempts']} of them."
    )
    out = [whole]
    if listed["succeeded"]["of"]:
        out.append(f"{share(listed['succeeded'])} of chains with a known end succeeded.")
    if listed["automatic"]["of"] or listed["manual"]["of"]:
        out.append(listed["comparison"]["sentence"])
    if tried["automatic"]["of"] or tried["manual"]["of"]:
        out.append(tried["comparison"]["sentence"])
    if tried["first"]["of"] and tried["first_or_again"]["fisher_p"] is not None:
        out.append(tried["first_or_again"]["sentence"])
    waits = result["intervals"]
    if waits["all"]["n"]:
        out.append(f"A retry came {spread(waits['all'], 'min')} after the try before had ended.")
        if waits["automatic"]["n"] and waits["manual"]["n"]:
            out.append(
                f"Automatic ones (by their interval) came after {spread(waits['automatic'], 'min')}, those by hand "
                f"after {spread(waits['manual'], 'min')}."
            )
    back = result["recovery"]
    if back["n"]:
        out.append(
            f"{share(back['recovered'])} of breakdowns ended with a try that got going, {spread(back, 'min')} after "
            "the first failure."
        )
    return out + _hours(result["lost"])


def _hours(lost: Told) -> list[str]:
    hours, unit = (lost["gpu_hours"], "GPU-hours") if lost["gpu_hours"] else (lost["node_hours"], "node-hours")
    if hours is None:
        return []
    sentence = (
        f"Waiting for retries cost {hours['waiting']:.0f} {unit}, tries that died early {hours['stumbles']:.0f}; "
        f"longer tries that failed took {hours['at_most']:.0f}, of which the work since the last checkpoint was lost."
    )
    return [sentence]


def _nodes(source: str, told: Told) -> list[str]:
    one, many = SOURCES[source]
    dense, out = told["concentration"], []
    some = [row for row in dense["top"] if row["k"] < dense["nodes"]]  # all nodes have all of them
    top = next((row for row in some if row["k"] == 3), some[-1] if some else None)
    if top is not None:
        who = f"top {top['k']} of {dense['nodes']} nodes" if top["k"] > 1 else f"worst of {dense['nodes']} nodes"
        verdict = "more than chance gives" if top["p"] < 0.05 else "no more than chance may give"
        out.append(
            f"The {who} took {share(top)} of {many}, {verdict} (by chance {100 * top['by_chance']:.0f} %, "
            f"p = {top['p']:.2g}); Gini {dense['gini']:.2f} (by chance {dense['gini_by_chance']:.2f})."
        )
    out.append(f"{share(told['recurrence'])} of the nodes with {_an(one)} had another.")
    if told.get("wide_incidents"):
        out.append(f"{told['wide_incidents']} more {many} touched many nodes at once and count for no node.")
    if source == "any_xid":
        out.append("Among incidents of any XID are those of programs, which say more of the job than of its node.")
    alive = [row for row in told["survival"]["at"] if row["share"] is not None]
    if alive:
        row = alive[min(1, len(alive) - 1)]
        bounds = "" if row["low"] is None else f" ({100 * row['low']:.0f}-{100 * row['high']:.0f} %)"
        out.append(
            f"Back at work after {_an(one)}, {100 * row['share']:.0f} %{bounds} of nodes stayed without another for "
            f"{row['days']:g} days (Kaplan-Meier, {told['survival']['n']} returns)."
        )
    first, again, p = told["rates"]["first"], told["rates"]["again"], told["first_or_again_p"]
    if p is not None:
        verdict = "the record can't tell the two apart" if p >= 0.05 else "the two differ"
        out.append(
            f"Nodes met their first at {rate(first)} per 100 node-days and, back at work, another at {rate(again)}; "
            f"{verdict} (log-rank p = {p:.2g})."
        )
    return out + _policies(told["policies"], one, many)


def _policies(rules: list[Told], one: str, many: str) -> list[str]:
    """The rule that avoids most beyond chance, with its p raised for having been picked."""
    tried = [rule for rule in rules if rule["p"] is not None]
    if not tried:
        return []
    best = max(tried, key=lambda rule: (rule["avoided"]["count"] - rule["avoided_by_chance"], -rule["node_hours_out"]))
    if best["avoided"]["count"] <= best["avoided_by_chance"]:
        return [f"No rule for taking nodes out would have avoided more {many} than as many nodes at random do."]
    p = min(1.0, best["p"] * len(tried))
    which = {1: "first", 2: "second", 3: "third"}.get(best["exclude_after"], f"{best['exclude_after']}th")
    nodes = "spare node" if best["spare_nodes"] == 1 else "spare nodes"
    verdict = "more than as many nodes at random" if p < 0.05 else "which as many nodes at random may do as well"
    sentence = (
        f"Taking a node out for {best['exclude_days']:g} days at its {which} {one} with {best['spare_nodes']} {nodes} "
        f"would have avoided {share(best['avoided'])} of {many}, {verdict} ({best['avoided_by_chance']:.1f} by chance; "
        f"p = {p:.2g} after {len(tried)} rules were tried), and cost {best['node_hours_out']:.0f} node-hours out of "
        "work; this holds only where the node and not its work was at fault."
    )
    return [sentence]


def tables(result: Told, most: int = 15) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """The tables that the sentences stand on; of nodes at most so many."""
    yield (
        "Success by try",
        [
            {"try": f"{row['place']}{' or later' if row['or_later'] else ''}", "succeeded": share(row)}
            for row in result["attempts"]["by_place"]
        ],
    )
    for source, told in result["troubles"].items():
        name, dense = SOURCES[source][1], told["concentration"]
        nodes = [{"node": row["node"], "events": row["count"], "share": share(row)} for row in dense["by_node"][:most]]
        more = f" (the first {most} of {dense['nodes_touched']})" if dense["nodes_touched"] > most else ""
        yield f"Nodes by {name}{more}", nodes
        yield f"Rules for taking nodes out, by {name}", [_rule(row) for row in told["policies"]]


def _rule(row: Told) -> dict[str, object]:
    return {
        "out at": row["exclude_after"],
        "spare nodes": row["spare_nodes"],
        "avoided": share(row["avoided"]),
        "by chance": row["avoided_by_chance"],
        "p": row["p"],
        "node-hours saved": row["node_hours_saved"],
        "node-hours out": row["node_hours_out"],
        "no spare left": row["refused"],
    }


def _days(days: float) -> str:
    return _many(round(days), "days") if days >= 1 else f"{24 * days:.1f} hours"


def _many(count: int, plural: str, singular: str = "") -> str:
    return f"{count} {singular or plural[:-1] if count == 1 else plural}"


def _an(one: str) -> str:
    return f"an {one}" if one[0] in "aeiou" else f"a {one}"


def share(told: Told) -> str:
    """A share as "33.3 % (4 of 12; 9.9-65.1 %)"."""
    if not told["of"]:
        return "none (0 of 0)"
    low, high = told["interval"]
    return f"{100 * told['share']:.1f} % ({told['count']} of {told['of']}; {100 * low:.1f}-{100 * high:.1f} %)"


def rate(told: Told) -> str:
    """A rate with its exact interval."""
    if told["rate"] is None:
        return "an unknown rate"
    low, high = told["interval"]
    return f"{told['rate']:.2g} ({low:.2g}-{high:.2g})"


def spread(told: Told, unit: str) -> str:
    """A median with its quartiles."""
    return f"{told['median']:.3g} {unit} (median of {told['n']}; IQR {told['q1']:.3g}-{told['q3']:.3g})"
