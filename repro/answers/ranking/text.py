"""Formats an answer as words for a terminal, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from repro.answers.ranking import draws
from repro.answers.ranking.amounts import format_bits, format_ms, format_rate
from repro.answers.ranking.answer import Answer, Row, format_gigabytes
from repro.answers.ranking.candidates import BETTER, ROWS, SYNCHRONOUS, USUAL, read_candidates
from repro.answers.ranking.decision import count_of, format_decision, format_machines
from repro.answers.ranking.flips import Flip
from repro.answers.ranking.form_errors import SHARE, WITHIN
from repro.answers.ranking.links import GOODPUT, INSIDE
from repro.core.input_names import describe_names

LIMITS = {
    "communication": "Communication that is not hidden",
    "compression": "Compression",
    "late workers": "Waiting for late workers",
    "update": "The update",
    "overhead": "What frameworks and clusters add to such steps (as published ones show)",
}
PARTS = {
    "computation": "comp.",
    "communication": "comm.",
    "compression": "codec",
    "late workers": "late",
    "overhead": "added",
}
MOST_ROWS = 8
MISSING = (
    "FSDP is not ranked: its sharded weights, gathered layer by layer, have no form here; look there if the model and "
    "its optimizer do not fit one GPU.",
    "ZeRO is not ranked: its sharded optimizer is no strategy here; stage 1 sends DDP's bytes, so look there if memory "
    "is the limit, not speed.",
    "Tensor parallelism is not ranked: layers are not split here; look there if one layer does not fit one GPU, and "
    "only within NVLink.",
)
MEASURE = (
    "Measure goodput: the bus bandwidth of nccl-tests' `all_reduce_perf -b 64M -e 64M` over two machines with one GPU "
    "each (with several, NCCL's tree between two machines shows up to twice the network), or `iperf3 -c HOST -P 4 -t "
    "10` (TCP), `ib_write_bw` (RDMA); give it as --goodput. Or give an iteration of your own run with DDP: --measured "
    "412ms@8."
)


def format_answer(answer: Answer, every_row: bool = False) -> str:
    """What to do, the table, then why and what would change it; every_row: show the whole table."""
    lines = [format_decision(answer), "", format_table(answer, every_row), ""]
    lines += [describe_setting(answer), *answer.notes, "", format_advice(answer.best, answer)]
    for row in answer.promising:
        lines += [format_advice(row, answer)]
        if row.cost:
            where = f"{', '.join(row.cost.where[:3])}{' and others' if len(row.cost.where) > 3 else ''}"
            lines.append(f"  Iterations to a target, over synchronous SGD's: {row.cost}, measured in {where}.")
        elif row.candidate.keeps != SYNCHRONOUS:
            lines.append("  What that costs in iterations was not measured here.")
    lines += ["", *change_lines(answer)]
    lines += [
        "",
        *legend_lines(answer, shown_rows(answer, every_row)),
        *MISSING,
        *([MEASURE] if answer.setting.uses_network else []),
    ]
    return "\n".join(lines)


def describe_setting(answer: Answer) -> str:
    """The model and the setting."""
    load, setting = answer.load, answer.setting
    timed = f"{format_ms(setting.computation_s)} ms a minibatch ({load.timed or 'assumed'})"
    late = f"; one worker is late by {setting.late:.0%} of that in each iteration" if setting.late else ""
    return (
        f"{load.profile.model}: {load.parameters / 1e6:.3g} million parameters, "
        f"{setting.nbytes / 1e6:,.{0 if setting.nbytes >= 1e8 else 1}f} MB of gradients; "
        f"{load.profile.batch or '?'} samples a worker; "
        f"{count_of(setting.workers, 'worker')}, {format_machines(setting)}; "
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
        words.append(f"latency {format_ms(bed.alpha_s)} ms{'' if 'alpha' in answer.known else ' (drawn)'}")
    if setting.gpus_per_node > 1:
        drawn = " (drawn)" if INSIDE in links else ""
        words.append(f"{1e-9 / bed.local_beta_s_per_byte:.3g} GB/s inside a machine{drawn}")
    return ", ".join(words) or "one worker"


def format_advice(row: Row, answer: Answer) -> str:
    """A recommended strategy: its step, its lead, its certainty and its bottleneck."""
    usual = next((other for other in answer.rows if other.candidate.name == USUAL), row)
    faster = usual.seconds / row.seconds
    lead = f", {faster:.3g} times as fast as {usual.candidate.label}" if abs(faster - 1) > BETTER else ""
    limit = "Computation limits it: a faster network gains less than 5 %."
    if row.limit != "computation":
        limit = f"{LIMITS[row.limit]} takes {row.step.phases[row.limit] / row.seconds:.0%} of it."
    rate = format_rate(answer.samples / row.seconds)
    return (
        f"{row.candidate.label} ({row.candidate.keeps} updates): {format_ms(row.seconds)} ms an iteration "
        f"({format_ms(row.low_s)} to {format_ms(row.high_s)}), {rate} samples/s{lead}.\n  {limit}"
    )


def format_table(answer: Answer, every_row: bool) -> str:
    """The best rows, the recommended ones and the usual one; or all."""
    from tabulate import tabulate

    shown = shown_rows(answer, every_row)
    columns: dict[str, Callable[[Row], str]] = {
        "strategy": lambda row: row.candidate.label,
        "ms": lambda row: format_ms(row.seconds),
        "90 % of draws": lambda row: f"{format_ms(row.low_s)} to {format_ms(row.high_s)}",
        "samples/s": lambda row: format_rate(answer.samples / row.seconds),
        "fastest": format_fastest,
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
            f"\n{len(more)} more, {format_ms(min(row.seconds for row in more))} to "
            f"{format_ms(max(row.seconds for row in more))} ms: --all shows them."
        )
    return text


def shown_rows(answer: Answer, every_row: bool) -> list[Row]:
    named = {row.candidate.name for row in (answer.best, *answer.promising)} | {USUAL}
    return [row for n, row in enumerate(answer.rows) if every_row or n < MOST_ROWS or row.candidate.name in named]


def format_fastest(row: Row) -> str:
    """The share of the draws in which it is the fastest, or why it has none."""
    if not row.candidate.ranked:
        return "unranked"
    return "apart" if row.fastest is None else f"{row.fastest:.0%}"


def format_iterations(row: Row) -> str:
    """Iterations to a target, over synchronous SGD's."""
    if row.candidate.keeps == SYNCHRONOUS:
        return ""
    return row.cost.short if row.cost else "not measured"


def legend_lines(answer: Answer, shown: Sequence[Row]) -> list[str]:
    unknown = ", ".join(assumed_lines(answer))
    return [
        "Comp., comm., codec, late, added (by frameworks and clusters): shares of the iteration that nothing hides. "
        "Memory: of the rank with the most. Times with several minibatches an update are of one minibatch. "
        "Iterations: to a target over synchronous SGD's, measured by this project on smaller models; not in the times.",
        f"Predictions are closed forms, within {WITHIN:.0%} of simulations in {SHARE:.0%} of random settings. "
        f"Intervals: 90 % of {draws.DRAWS} draws of what is not given ({unknown or 'nothing'}) and of how far "
        f"predictions were off ({answer.errors}).",
        f"Unproven: its family has fewer than {ROWS} published measurements to judge intervals on, so it is not named "
        "as the one to use. The times of codecs are assumed.",
        *(f"{row.candidate.label}: {row.candidate.note}." for row in shown if row.candidate.note),
        *(
            f"{row.candidate.label} is not ranked: {row.candidate.form_error or 'its form is not checked yet'}."
            for row in answer.rows
            if not row.candidate.ranked
        ),
    ]


def assumed_lines(answer: Answer) -> list[str]:
    return [describe_names()[name] for name in draws.assumed_inputs(answer.known, answer.setting)]


def change_lines(answer: Answer) -> list[str]:
    """What to use over bandwidths, and over numbers of workers: by the forms, which draws may decide otherwise here."""
    every, setting = read_candidates(), answer.setting  # a flip may name a candidate that is impossible here
    axes = [("workers", "2 to 128", float(setting.workers))]
    if setting.uses_network:
        axes.insert(0, ("bandwidth", "0.1 to 400 Gbit/s", 8 / setting.testbed.beta_s_per_byte))
    lines = []
    for what, reach, at in axes:
        flips = [flip for flip in answer.flips if flip.what == what]
        first = flips[0].before if flips else answer.best.candidate.name
        here = next((flip.after for flip in reversed(flips) if flip.at <= at), first)
        after = "".join(f"; from {format_place(flip)} on {every[flip.after].label}" for flip in flips)
        drawn = "" if here == answer.best.candidate.name else f" Here by draws: {answer.best.candidate.label}."
        lines.append(f"By {what} ({reach}, without draws): {every[first].label}{after}.{drawn}")
    return lines


def format_place(flip: Flip) -> str:
    return format_bits(flip.at) if flip.what == "bandwidth" else f"{flip.at:.0f} workers"


def format_share(row: Row, name: str) -> str:
    part = row.step.phases.get(name, 0.0) / row.seconds
    return f"{part:.0%}" if part >= 0.005 else ""


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
        "best": answer.best.candidate.name,
        "promising": [row.candidate.name for row in answer.promising],
        "alone": [
            {"workers": each.workers, "step_s": each.seconds, "samples_per_s": answer.rate_of(each)}
            for each in answer.alone
        ],
        "strategies": [_row(row, answer) for row in answer.rows],
        "flips": [vars(flip) for flip in answer.flips],
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
        "fastest": row.fastest,
        "ranked": row.candidate.ranked,
        "proven": row.candidate.proven,
        "form_error": row.candidate.form_error and vars(row.candidate.form_error),
        "parts_s": dict(row.step.phases),
        "hidden_s": row.step.hidden_s,
        "limit": row.limit,
        "memory_bytes": row.memory,
        "fits": row.fits,
        "iterations_to_target": row.cost
        and {
            "ratios": [ratio if math.isfinite(ratio) else None for ratio in row.cost.ratios],
            "experiments": list(row.cost.where),
        },
    }
