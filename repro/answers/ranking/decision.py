"""What to do, in the first lines of an answer: what to use or where to stay, what was assumed, and what changes it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking.alone import Alone
from repro.answers.ranking.amounts import format_bits, format_rate
from repro.answers.ranking.answer import Answer, Row, format_gigabytes
from repro.answers.ranking.candidates import OFTEN, PAYS, USUAL, read_candidates
from repro.answers.ranking.gpus import FP32, has_bf16
from repro.answers.ranking.links import GOODPUT, INSIDE

MOST_TIES = 2
WITH_TF32 = ", with TF32, which PyTorch must be told (torch.set_float32_matmul_precision('high'))"


def format_decision(answer: Answer) -> str:
    """What to do and what it reaches, what was assumed, the nearest bandwidths at which that changes, and what may be
    faster; a line each."""
    words = [
        format_use(answer),
        format_assumed(answer),
        format_tree(answer),
        format_ties(answer),
        format_changes(answer),
        format_promising(answer),
    ]
    return "\n".join(filter(None, words))


def format_use(answer: Answer) -> str:
    """The strategy to use and its throughput beside that of fewer workers, and with a larger batch; first to stay
    there, if all workers do not replace them."""
    if faster := answer.faster_alone:
        return format_stay(answer, faster)
    best = answer.best
    if answer.setting.workers == 1:
        return f"Use one GPU: {format_reached(answer, best)}; no strategy is needed.{format_size(answer)}"
    rate = answer.samples / best.seconds
    words = [f"Use {best.candidate.label} on {format_machines(answer.setting)}: {format_reached(answer, best)}"]
    for each in answer.alone:
        sure = "" if each.beaten >= OFTEN else f", faster in {each.beaten:.0%} of the draws"
        most = answer.rate_of(each)
        words.append(f"{rate / most:.3g} times {format_alone(answer, each)} ({format_rate(most)}{sure})")
    if (larger := faster_if_larger(answer)) and answer.alone:
        times = larger.candidate.accumulate
        words.append(
            f"with {times} times the batch (--batch, or accumulated) {format_rate(answer.samples / larger.seconds)}"
        )
    return f"{', '.join(words)}.{format_size(answer)}"


def format_reached(answer: Answer, row: Row) -> str:
    rate, low, high = (format_rate(answer.samples / each) for each in (row.seconds, row.high_s, row.low_s))
    return f"{rate} samples/s ({low} to {high})"


def format_size(answer: Answer) -> str:
    """Which size of the GPU's memory it needs, if one is too small."""
    needed = answer.best.memory
    fitting = min((size for size in answer.sizes if size >= needed), default=0.0)
    if not fitting or fitting == min(answer.sizes):
        return ""
    return f" It needs {format_gigabytes(needed)} of memory, so the GPU of {format_gigabytes(fitting)}."


def format_stay(answer: Answer, alone: Alone) -> str:
    """To stay on fewer workers; or, if the draws do not tell, the goodput from which on to use all; or the larger batch
    with which all pay. Then what all reach here."""
    setting, best, most, usual = answer.setting, answer.best, answer.rate_of(alone), read_candidates()[USUAL].label
    here, place = format_machines(setting), f"{format_alone(answer, alone)}{f' with {usual}' * (alone.workers > 1)}"
    goodput, border = setting.links.get(GOODPUT), alone.pays_from
    first = f"Stay on {place}"
    if (tree := answer.by_tree) and answer.samples / tree.seconds * (1 - PAYS) > most:
        first = f"Try {usual} on {here}, which pays if NCCL takes its tree between two machines; else stay on {place}"
    elif goodput and border and border < 8 / goodput.at(0) and alone.beaten > 1 - OFTEN:
        first = (
            f"Measure goodput (last line): from {format_bits(border)} on use {best.candidate.label} on {here}; below, "
            f"stay on {place}"
        )
    larger = ""
    if alone.minibatches:
        larger = (
            f", or use {usual} on {here} with {alone.minibatches} times the batch (--batch, or minibatches accumulated)"
            f": {format_rate(alone.gain * most)}, {alone.gain:.3g} times that"
        )
    at = f"At {format_bits(8 / setting.testbed.beta_s_per_byte)} of goodput " if setting.uses_network else "Here "
    fastest = answer.fastest_named
    named = [best, *([fastest] if fastest.seconds <= (1 - PAYS) * best.seconds else [])]
    reached = "; ".join(f"{row.candidate.label} {format_reached(answer, row)}" for row in named)
    batch = answer.load.profile.batch or "?"
    return (
        f"{first} ({format_rate(most)} samples/s at {batch} samples a worker){larger}.{format_size(answer)}\n"
        f"{at}{here} reach with this batch: {reached}."
    )


def format_tree(answer: Answer) -> str:
    """What the usual strategy reaches between two machines with NCCL's tree."""
    if not (tree := answer.by_tree):
        return ""
    return (
        f"{answer.best.candidate.label} is a ring here. With NCCL's tree between two machines, which newer versions "
        f"take (NCCL_DEBUG=INFO shows it), it reaches {format_reached(answer, tree)}."
    )


def format_alone(answer: Answer, alone: Alone) -> str:
    return "one GPU" if alone.workers == 1 else format_machines(replace(answer.setting, workers=alone.workers))


def format_assumed(answer: Answer) -> str:
    """The minibatch, the precision and what links deliver, with the options that change them."""
    load, words = answer.load, []
    if load.profile.batch:
        of_words = f" of {load.words} words" if load.words else ""
        words.append(f"{load.profile.batch} samples{of_words} a worker (--batch{', --input' * bool(load.words)})")
    if load.precision == FP32:
        other = "bf16" if has_bf16(load.gpu) else "fp16"
        words.append(f"fp32{WITH_TF32 * has_bf16(load.gpu)} (--precision {other}: mixed precision)")
    elif load.precision:
        words.append(f"{load.precision} mixed precision (--precision)")
    elif not load.timed:
        words.append("no GPU (--gpu A100 --precision bf16, or --step-ms)")
    words += drawn_links(answer)
    return f"Assumed: {', '.join(words)}." if words else ""


def drawn_links(answer: Answer) -> list[str]:
    """What links are taken to deliver, with the options that say it."""
    setting, words = answer.setting, []
    if setting.uses_network and GOODPUT in setting.links:
        words.append(
            f"{format_bits(8 / setting.testbed.beta_s_per_byte)} of goodput on this line (--transport, --goodput)"
        )
    if setting.gpus_per_node > 1 and INSIDE in setting.links:
        words.append(f"{1e-9 / setting.testbed.local_beta_s_per_byte:.3g} GB/s inside a machine (--intra)")
    return words


def format_promising(answer: Answer) -> str:
    """What pays by its form, also over fewer workers, but may not be named."""
    least = answer.rate_of(answer.faster_alone) if answer.faster_alone else 0.0
    parts = [
        f"{row.candidate.label} ({row.candidate.keeps} updates{'' if row.candidate.proven else ', unproven'}) "
        f"{format_rate(answer.samples / row.seconds)}"
        for row in answer.promising
        if answer.samples / row.seconds > least and row is not answer.by_tree
    ]
    return f"Promising, samples/s of all workers: {'; '.join(parts)}." if parts else ""


def faster_if_larger(answer: Answer) -> Row | None:
    """The fastest strategy with several minibatches an update, if it pays; None if there is none."""
    rows = [row for row in answer.rows if row.candidate.keeps == "larger" and row.candidate.ranked and row.fits]
    least = (1 - PAYS) * answer.best.seconds
    return min((row for row in rows if row.seconds <= least), key=lambda row: row.seconds, default=None)


def format_machines(setting: Setting) -> str:
    """Where the workers are."""
    gpus = min(setting.gpus_per_node, setting.workers)
    return f"{count_of(setting.machines, 'machine')} of {count_of(gpus, 'GPU')}"


def count_of(number: int, noun: str) -> str:
    return f"{'one' if number == 1 else number} {noun}{'s' * (number > 1)}"


def format_changes(answer: Answer) -> str:
    """The nearest lower and higher bandwidths at which another strategy is to be used, as far as such a line may
    deliver them."""
    if not answer.setting.uses_network:
        return ""
    here, best = 8 / answer.setting.testbed.beta_s_per_byte, answer.best.candidate.name
    goodput = answer.setting.links.get(GOODPUT)
    slowest, fastest = (8 / goodput.at(1), 8 / goodput.at(0)) if goodput else (0, math.inf)
    flips = [flip for flip in answer.flips if flip.what == "bandwidth"]
    ends = [0, *(flip.at for flip in flips), math.inf]
    used = [*(flip.before for flip in flips), *(flip.after for flip in flips[-1:])] or [best]
    parts = [(low, high, name) for (low, high), name in zip(pairwise(ends), used, strict=True) if name != best]
    below = [part for part in parts if slowest <= part[1] <= here]
    above = [part for part in parts if here < part[0] <= fastest]
    changes = [_range_of_use(below[::-1], slice(None, None, -1))] if below else []
    changes += [_range_of_use(above, slice(None))] if above else []
    text = f"{', '.join(changes)}: measure yours (last line)."
    return text[0].upper() + text[1:] if changes else ""


def _range_of_use(parts: list[tuple[float, float, str]], order: slice) -> str:
    """The first ranges that touch each other, and their strategies. order: of the ranges by bandwidth."""
    touching = parts[:1]
    for part in parts[1:]:
        if {part[0], part[1]} & {touching[-1][0], touching[-1][1]}:
            touching.append(part)
    low, high = min(part[0] for part in touching), max(part[1] for part in touching)
    where = f"from {format_bits(low)} to {format_bits(high)}"
    if not low:
        where = f"below {format_bits(high)}"
    elif math.isinf(high):
        where = f"from {format_bits(low)} on"
    labels = dict.fromkeys(read_candidates()[name].label for _, _, name in touching[order])
    return f"{where} of goodput {', then '.join(labels)} is worth using"


def format_ties(answer: Answer) -> str:
    """A sentence about the strategies that are as good as the best; "" if there is none."""
    best, *others = answer.ties
    if not others or answer.setting.workers == 1:
        return ""
    nearest = sorted(others, key=lambda row: row.seconds)[:MOST_TIES]
    more = f" and {len(others) - MOST_TIES} more" if len(others) > MOST_TIES else ""
    names = "; ".join(row.candidate.label for row in nearest)
    return (
        f"A tie: {best.candidate.label} is the simplest to use; none is 5 % faster in three of four draws "
        f"({names}{more})."
    )
