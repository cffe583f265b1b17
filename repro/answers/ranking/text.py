"""Formats an answer as words for a terminal, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from repro.answers.ranking import draws, flips
from repro.answers.ranking.answer import Answer, Row, format_gigabytes
from repro.answers.ranking.candidates import ANY, PAYS, SYNCHRONOUS, USUAL, USUAL_ERROR, read_candidates
from repro.answers.ranking.links import GOODPUT, INSIDE
from repro.core.input_names import describe_names

OTHER = {"compressed": "gradients lose something on the way", "stale": "gradients are computed on older weights"}
LIMITS = {
    "communication": "Communication that is not hidden",
    "compression": "Compression",
    "late workers": "Waiting for late workers",
    "update": "The update",
}
PARTS = {"computation": "comp.", "communication": "comm.", "compression": "codec", "late workers": "late"}
MOST_ROWS = 8
MEASURE = (
    "Measure goodput, not the line rate: `iperf3 -s` on one machine, `iperf3 -c HOST -P 4 -t 10` on another, and take "
    "the sum. TCP on 100 Gbit/s cards has been seen at 20 Gbit/s, on 40 Gbit/s Ethernet at 4."
)


def format_answer(answer: Answer, every_row: bool = False) -> str:
    """What to do, its certainty, the table, and what would change it; every_row: show the whole table."""
    exact, best = answer.best(SYNCHRONOUS), answer.best(ANY)
    kinds = [(SYNCHRONOUS, "Synchronous")]
    lines = [format_decision(answer), "", describe_setting(answer), *answer.notes, ""]
    lines += [format_advice("Fastest with the updates of synchronous SGD", exact, answer, SYNCHRONOUS)]
    if best.seconds > (1 - PAYS) * exact.seconds:
        lines += [f"Compressed or stale gradients gain less than {PAYS:.0%} here."]
    else:
        kinds += [(ANY, "Of all")]
        kind = OTHER[best.candidate.keeps]
        lines += [format_advice(f"Fastest of all, but {kind}", best, answer, ANY)]
        if best.cost:
            experiments = f"{', '.join(best.cost.where[:3])}{' and others' if len(best.cost.where) > 3 else ''}"
            lines.append(f"  Iterations to a target, over synchronous SGD's: {best.cost}, measured in {experiments}.")
        else:
            lines.append("  What that costs in iterations was not measured here.")
    lines += ["", format_table(answer, every_row), ""]
    for comparison, title in kinds:
        lines += [f"{title}, {line}" for line in change_lines(answer, comparison)]
    lines += ["", *legend_lines(answer), *([MEASURE] if answer.setting.uses_network else [])]
    return "\n".join(lines)


def format_decision(answer: Answer) -> str:
    """What to do, and the nearest bandwidths at which that changes."""
    best = answer.best(SYNCHRONOUS)
    here, labels = (
        8 / answer.setting.testbed.beta_s_per_byte,
        {name: each.label for name, each in read_candidates().items()},
    )
    by_bits = [flip for flip in answer.flips.get(SYNCHRONOUS, ()) if flip.what == "bandwidth"]
    below = [("below", flip.at, flip.before) for flip in by_bits if flip.at <= here][-1:]
    above = [("above", flip.at, flip.after) for flip in by_bits if flip.at > here][:1]
    changes = ", ".join(
        f"{side} {format_bits(at)} {labels[name]} is faster"
        for side, at, name in below + above
        if name != best.candidate.name and answer.setting.uses_network
    )
    measure = f" {changes[0].upper()}{changes[1:]}: measure your goodput (last line)." if changes else ""
    return f"Use {best.candidate.label}.{format_ties(answer, SYNCHRONOUS)}{measure}"


def format_ties(answer: Answer, kind: str) -> str:
    """A sentence about the strategies that tie with the best of a comparison; "" if none does."""
    _, *others = (row.candidate.label for row in answer.ties(kind))
    return (
        f" It is the simplest of those that are less than 1 % apart; the others: {'; '.join(others)}." if others else ""
    )


def describe_setting(answer: Answer) -> str:
    """The model and the setting."""
    load, setting = answer.load, answer.setting
    gpus = f", {setting.gpus_per_node} a machine" if setting.gpus_per_node > 1 else ""
    timed = f"{format_ms(setting.computation_s)} ms a minibatch ({load.timed or 'assumed'})"
    late = f"; one worker is late by {setting.late:.0%} of that in each iteration" if setting.late else ""
    return (
        f"{load.profile.model}: {load.parameters / 1e6:.3g} million parameters, "
        f"{setting.nbytes / 1e6:.3g} MB of gradients; {load.profile.batch or '?'} samples a worker; "
        f"{setting.workers} worker{'s' * (setting.workers > 1)}{gpus}; "
        f"{describe_links(answer)}.\nForward and backward pass: {timed}{late}."
    )


def describe_links(answer: Answer) -> str:
    """What the links deliver: given, or in nine of ten draws."""
    setting, words = answer.setting, []
    bed, links = setting.testbed, setting.links
    if setting.uses_network:
        ends = [format_bits(8 / links[GOODPUT].at(end)) for end in (0.95, 0.05)] if GOODPUT in links else []
        drawn = f" (drawn, {ends[0]} to {ends[1]})" if ends else ""
        words.append(f"goodput {format_bits(8 / bed.beta_s_per_byte)}{drawn}")
        words.append(f"latency {1e6 * bed.alpha_s:.3g} us{'' if 'alpha' in answer.known else ' (drawn)'}")
    if setting.gpus_per_node > 1:
        drawn = " (drawn)" if INSIDE in links else ""
        words.append(f"{1e-9 / bed.local_beta_s_per_byte:.3g} GB/s inside a machine{drawn}")
    return ", ".join(words) or "one worker"


def format_advice(title: str, row: Row, answer: Answer, kind: str) -> str:
    """A recommended strategy: its step, its lead, its certainty, its bottleneck, and the strategies that tie."""
    share = row.fastest[kind]
    sure = f"the fastest, or within 1 %, in {f'{share:.0%} of the' if share < 1 else 'all'} draws"
    usual = next((other for other in answer.rows if other.candidate.name == USUAL), row)
    faster = usual.seconds / row.seconds
    lead = f", {faster:.3g} times as fast as {usual.candidate.label}" if abs(faster - 1) > flips.BETTER else ""
    limit = "Computation limits it: a faster network gains less than 5 %."
    if row.limit != "computation":
        limit = f"{LIMITS[row.limit]} takes {row.step.phases[row.limit] / row.seconds:.0%} of it."
    return (
        f"{title}: {row.candidate.label}\n"
        f"  {format_ms(row.seconds)} ms an iteration ({format_ms(row.low_s)} to {format_ms(row.high_s)}), "
        f"{format_rate(answer, row)} samples/s{lead}; {sure}.\n  {limit}{format_ties(answer, kind)}"
    )


def format_rate(answer: Answer, row: Row) -> str:
    samples_per_s = answer.samples / row.seconds
    return f"{samples_per_s:,.0f}" if samples_per_s >= 100 else f"{samples_per_s:.3g}"


def format_table(answer: Answer, every_row: bool) -> str:
    """The best rows, the recommended ones and the usual one; or all."""
    from tabulate import tabulate

    named = {answer.best(kind).candidate.name for kind in (SYNCHRONOUS, ANY)} | {USUAL}
    shown = [row for n, row in enumerate(answer.rows) if every_row or n < MOST_ROWS or row.candidate.name in named]
    columns: dict[str, Callable[[Row], str]] = {
        "strategy": lambda row: row.candidate.label,
        "ms": lambda row: format_ms(row.seconds),
        "90 % of draws": lambda row: f"{format_ms(row.low_s)} to {format_ms(row.high_s)}",
        "samples/s": lambda row: format_rate(answer, row),
        "fastest": lambda row: f"{row.fastest[ANY]:.0%}" if ANY in row.fastest else "apart",
        "updates": lambda row: row.candidate.keeps,
        **{title: partial(format_share, name=name) for name, title in PARTS.items()},
        "memory": lambda row: format_gigabytes(row.memory) if row.fits else f"{format_gigabytes(row.memory)}, too much",
        "iterations": format_iterations,
    }
    cells = {title: [column(row) for row in shown] for title, column in columns.items()}
    cells = {title: column for title, column in cells.items() if any(column)}
    left = ("strategy", "updates", "iterations")
    text = tabulate(
        cells, "keys", disable_numparse=True, colalign=["left" if title in left else "right" for title in cells]
    )
    more = [row for row in answer.rows if row not in shown]
    if more:
        text += (
            f"\n{len(more)} more, {format_ms(more[0].seconds)} to {format_ms(more[-1].seconds)} ms: --all shows them."
        )
    return text


def format_iterations(row: Row) -> str:
    """Iterations to a target, over synchronous SGD's."""
    if row.candidate.keeps == SYNCHRONOUS:
        return ""
    return row.cost.short if row.cost else "not measured"


def legend_lines(answer: Answer) -> list[str]:
    checked = [row for row in answer.rows if row.simulated_s]
    by = f"; {len(checked)} of the best are simulated here too" if checked else ""
    unknown = ", ".join(assumed_lines(answer))
    rough = [
        f" {row.candidate.label}'s form may be off by {row.candidate.error:.0%}."
        for row in answer.rows
        if row.candidate.error > USUAL_ERROR and not row.simulated_s
    ]
    return [
        "Comp., comm., codec, late: shares of the iteration that nothing hides. Memory: of the rank with the most. "
        "Iterations: to a target over synchronous SGD's, measured by this project on smaller models; not in the times.",
        f"Predictions are closed forms that tests hold against the simulator{by}.{''.join(rough)} Intervals: 90 % of "
        f"{draws.DRAWS} draws of what is not given ({unknown or 'nothing'}) and of the simulator's error "
        f"({answer.errors}).",
    ]


def assumed_lines(answer: Answer) -> list[str]:
    return [describe_names()[name] for name in draws.assumed_inputs(answer.known, answer.setting)]


def change_lines(answer: Answer, kind: str) -> list[str]:
    """The fastest strategy over bandwidths, over numbers of workers, and at half of the bandwidth."""
    labels = {
        name: each.label for name, each in read_candidates().items()
    }  # a flip may name one that is impossible here
    now = answer.best(kind).candidate.label
    lines = []
    bandwidth = [("bandwidth", "0.1 to 400 Gbit/s")] if answer.setting.uses_network else []
    for what, reach in (*bandwidth, ("workers", "2 to 128")):
        flips = [flip for flip in answer.flips[kind] if flip.what == what]
        first = labels[flips[0].before] if flips else now
        places = [format_bits(flip.at) if what == "bandwidth" else f"{flip.at:.0f} workers" for flip in flips]
        after = "".join(f"; from {at} on {labels[flip.after]}" for at, flip in zip(places, flips))
        lines.append(f"by {what} ({reach}): {first}{after}.")
    if not bandwidth:
        return lines
    name, seconds = answer.halved[kind]
    return [*lines, f"at half of this bandwidth: {labels[name]}, {format_ms(seconds)} ms."]


def format_share(row: Row, name: str) -> str:
    part = row.step.phases.get(name, 0.0) / row.seconds
    return f"{part:.0%}" if part >= 0.005 else ""


def format_ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 0.1 else f"{1e3 * seconds:.3g}"


def format_bits(rate: float) -> str:
    return f"{rate / 1e9:.3g} Gbit/s" if rate > 0.9995e9 else f"{rate / 1e6:.3g} Mbit/s"


def plain_answer(answer: Answer) -> dict[str, Any]:
    """For --json: seconds, bytes, bits/s; shares from 0 to 1; an infinite ratio (target not reached) is null."""
    setting = answer.setting
    return {
        "model": answer.load.profile.model,
        "parameters": answer.load.parameters,
        "batch": answer.load.profile.batch,
        "workers": setting.workers,
        "gpus_per_node": setting.gpus_per_node,
        "bandwidth_bits_per_s": 8 / setting.testbed.beta_s_per_byte,
        "latency_s": setting.testbed.alpha_s,
        "computation_s": setting.computation_s,
        "computation_from": answer.load.timed or None,
        "assumed": assumed_lines(answer),
        "errors": answer.errors,
        "decision": format_decision(answer),
        "best": {kind: answer.best(kind).candidate.name for kind in (SYNCHRONOUS, ANY)},
        "strategies": [_row(row, answer) for row in answer.rows],
        "flips": {kind: [vars(flip) for flip in flips] for kind, flips in answer.flips.items()},
        "at_half_the_bandwidth": {
            kind: {"best": name, "step_s": seconds} for kind, (name, seconds) in answer.halved.items()
        },
        "notes": list(answer.notes),
    }


def _row(row: Row, answer: Answer) -> dict[str, Any]:
    return {
        "name": row.candidate.name,
        "label": row.candidate.label,
        "strategy": row.candidate.strategy,
        "options": row.candidate.options,
        "updates": row.candidate.keeps,
        "step_s": row.seconds,
        "low_s": row.low_s,
        "high_s": row.high_s,
        "samples_per_s": answer.samples / row.seconds,
        "fastest": dict(row.fastest),
        "parts_s": dict(row.step.phases),
        "hidden_s": row.step.hidden_s,
        "limit": row.limit,
        "memory_bytes": row.memory,
        "fits": row.fits,
        "simulated_s": row.simulated_s,
        "iterations_to_target": row.cost
        and {
            "ratios": [ratio if math.isfinite(ratio) else None for ratio in row.cost.ratios],
            "experiments": list(row.cost.where),
        },
    }
