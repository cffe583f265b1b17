"""The page's part on what does not add up in the paper."""

from __future__ import annotations

from repro.reports.page import Files, Part, Section, not_run
from repro.reports.pipedream import frames_contradictions
from repro.reports.pipedream.experiments import FIG5, PAPER
from repro.reports.pipedream.published import Published
from repro.reports.pipedream.results import Results
from repro.reports.pipedream.section_sizes import one


def section(paper: Published, found: Results, files: Files) -> Section:
    """Every printed number that follows from others; bytes from the sizes of VGG16's layers where they are known."""
    text = (
        "Numbers of the paper that follow from other numbers of it, all computed from the table at the end of this "
        "page. *Off*: what follows over what is printed, less 1."
    )
    table = frames_contradictions.table(paper)
    products = frames_contradictions.products(paper)
    made = Section("What does not add up", text, [
        Part(tables=[("", files.table(table, "arithmetic", list(table.columns)))]),
        Part("Table 1's speed-ups", tables=[(
            "The speed-up over BSP is the quotient of the speed-ups over one machine:",
            files.table(products, "products", ["agrees"]))]),
    ])  # fmt: skip
    made.parts.append(_bytes(paper, found, files))
    return made


def _bytes(paper: Published, found: Results, files: Files) -> Part:
    text = (
        "Bytes that all machines send, counted as sections 3.2 and 4 describe it: a stage of m replicas pushes and "
        "pulls 2 (m - 1) times its parameters for every m minibatches, and each minibatch crosses each cut twice. "
        "*Most over all cuts*: no cut of the configuration, balanced or not, saves more of BSP's bytes."
    )
    if (group := one(found.probes[FIG5])) is None:
        return Part("Table 1's communication reductions", f"{text} The sizes of VGG16's layers: "
                    f"{not_run(f'{PAPER}/{FIG5}')}")  # fmt: skip
    table = frames_contradictions.reductions(paper, group.first["result"]["layers"])
    shown = files.table(table, "reductions", ["configuration", "cut after", "possible"])
    return Part("Table 1's communication reductions", text, tables=[("", shown)])
