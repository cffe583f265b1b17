"""Expand the short form of a claims file, with defaults, sections and families, to plain claims.

    defaults: {about: time, minimum_seeds: {measured: 3, simulated: 1}}     # for all claims of the file
    claims:
    - defaults: {experiment: fig10, paper: {place: Table VII, unit: x}}     # a section: for the claims in it
      claims:
      - id: '{model}-over-dense'                                            # a family: a claim a row of `each`
        text: '{name}: gTop-k over dense S-SGD'
        paper: {row: '{name}', variant: gTop-k, quantity: "speed-up over Dense, g/d"}
        each:
        - {model: vgg16, name: VGG-16}
        - {model: alexnet, name: AlexNet, tolerance: {relative: 0.05}}
      except: {alexnet-over-dense: {headline: true}}                        # entries for single claims

Defaults: a claim's own entry replaces the default. `paper` and `value` are merged entry by entry, unless the claim's
`value` has its own verb or function, or its `paper` its own number.
Rows: `{name}` in a text is replaced by the row's entry of that name; a text of nothing else becomes that entry with its
type. A row's entry with the name of a claim's entry replaces it. A section may have `each` too, for all its claims.
The paper's number: `paper` names its place in `paper_configs/reference/<paper>.csv` (place, row, variant, quantity; row
and variant default to `all`). `low` and `high` may name places of their own, each with what differs from `paper`'s.
A claim of an effect that names neither a number nor a quantity claims no size. divided_by: the table's unit over ours,
e.g. 1000 where the table is in ms. shown: as the paper prints the number, with `{}` for the table's text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repro.answers.claims.stats import TIMES
from repro.core.errors import InputError, unknown_name
from repro.core.user_files import as_entries
from repro.records.paper_numbers import parse_number, printed_number

Entries = dict[str, Any]
SECTION = ("defaults", "each", "claims", "except")
PLACE = ("place", "row", "variant", "quantity", "divided_by")
ENDS = ("value", "low", "high")
MERGED = ("paper", "value")  # entry by entry
PLACEHOLDER = re.compile(r"\{(\w+)\}")
SIGNS = {"x": TIMES, "%": " %"}


def written_out(content: Any, paper: str, fields: Collection[str]) -> Any:
    """The content of a claims file with one plain entry a claim; InputError that names the claim for a wrong form.

    fields: the entries of a claim. Content without a list of claims is returned as is, for the caller's check.
    """
    if not isinstance(content, dict) or not isinstance(content.get("claims"), list):
        return content
    section = {"claims": content["claims"], "defaults": content.get("defaults") or {}}
    claims = [with_number(claim, paper) for claim in _Form(fields).claims(section, {}, {})]
    return {name: entry for name, entry in content.items() if name != "defaults"} | {"claims": claims}


@dataclass(frozen=True)
class _Form:
    """Expands sections and families; fields: the entries of a claim."""

    fields: Collection[str]

    def claims(self, entry: Any, defaults: Entries, names: Entries) -> Iterator[Entries]:
        """The claims of a section, a family or a single claim; names: the enclosing sections' placeholders."""
        entry = as_entries(entry, "claims")
        if "claims" in entry:
            yield from self._of_section(entry, defaults, names)
            return
        where = f"claim {entry.get('id', '')}".strip()
        template = _over(defaults, {name: value for name, value in entry.items() if name != "each"})
        for row in _rows(entry, where, names):
            entries = {name: value for name, value in row.items() if name in self.fields}
            claim = _filled(_over(template, entries), names | row, where)
            yield {name: value for name, value in claim.items() if value is not None}

    def _of_section(self, entry: Entries, defaults: Entries, names: Entries) -> Iterator[Entries]:
        if wrong := next((name for name in entry if name not in SECTION), None):
            raise unknown_name("entry of a section of claims", wrong, SECTION)
        if not isinstance(entry["claims"], list):
            raise InputError("a section of claims: claims must be a list")
        of_section = as_entries(entry.get("defaults") or {}, "defaults of claims")
        allowed = [name for name in self.fields if name != "id"]
        if wrong := next((name for name in of_section if name not in allowed), None):
            raise unknown_name("default of claims", wrong, allowed)
        exceptions, ids = as_entries(entry.get("except") or {}, "except"), set()
        for row in _rows(entry, "a section of claims", names):
            for inner in entry["claims"]:
                for claim in self.claims(inner, _over(defaults, of_section), names | row):
                    ids.add(name := str(claim.get("id")))
                    yield _over(claim, as_entries(exceptions.get(name, {}), f"except: {name}"))
        if lacking := next((name for name in exceptions if name not in ids), None):
            raise unknown_name("claim of except", lacking, ids)


def with_number(claim: Entries, paper: str) -> Entries:
    """The claim with the paper's numbers filled in from the paper's table."""
    try:
        if "paper" in claim:
            claim = claim | {"paper": _with_number(_without_place(claim), paper)}
        if isinstance(baseline := claim.get("given"), dict) and "paper" in baseline:
            claim = claim | {"given": baseline | {"paper": _with_number(baseline["paper"], paper)}}
    except InputError as error:
        raise InputError(f"claim {claim.get('id')}: {error}") from None
    return claim


def _without_place(claim: Entries) -> Any:
    """The claim's `paper`, without an inherited place if the claim is of an effect and names no number."""
    entry = claim["paper"]
    if not isinstance(entry, dict) or "effect" not in claim or {"quantity", *ENDS} & entry.keys():
        return entry
    return {name: value for name, value in entry.items() if name not in PLACE}


def _with_number(entry: Any, paper: str) -> Any:
    if not isinstance(entry, dict):
        return entry
    place = {name: value for name, value in entry.items() if name in PLACE}
    rest = {name: value for name, value in entry.items() if name not in PLACE}
    places = {end: place | rest[end] for end in ENDS if isinstance(rest.get(end), dict)}
    if place and not places:
        places = {"value": place}
    for end, of_end in places.items():
        rest[end], text, unit = _printed(of_end, paper)
        if end == "value":
            shown = rest.get("shown") or _shown(text, unit, rest.get("unit", ""))
            rest["shown"] = str(shown).replace("{}", text)
    return rest


def _printed(place: Entries, paper: str) -> tuple[float, str, str]:
    """The number, the text and the unit at a place of a paper's table."""
    if lacking := next((name for name in ("place", "quantity") if name not in place), None):
        raise InputError(f"paper.{lacking}: is missing")
    at = {"row": "all", "variant": "all"} | {name: str(value) for name, value in place.items() if name in PLACE[:4]}
    text, unit, _ = printed_number(paper, **at)
    try:
        value = parse_number(text, unit)
    except ValueError:
        raise InputError(f"paper: {', '.join(at.values())} in {paper}.csv is not a number: '{text}'") from None
    return value / place.get("divided_by", 1), text, unit


def _shown(text: str, unit: str, own_unit: str) -> str:
    """A table's text as a page prints it: 2.13×, 95 %, 403 images/s, .9833."""
    if sign := SIGNS.get(own_unit or unit):
        return f"{text}{sign}"
    return f"{text} {unit}" if unit else re.sub(r"^0\.", ".", text)


def _rows(entry: Entries, where: str, names: Entries) -> list[Entries]:
    """The rows of `each`, or one empty row."""
    rows = entry.get("each", [{}])
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{where}: each must be a list of rows, at least one")
    return [_filled(as_entries(row, f"{where}: each, row {n}"), names, where) for n, row in enumerate(rows, start=1)]


def _over(defaults: Entries, entries: Entries) -> Entries:
    """Own entries, merged over defaults."""
    merged = defaults | entries
    for name in MERGED:
        inherited, value = defaults.get(name), entries.get(name)
        if not isinstance(inherited, dict) or not isinstance(value, dict) or {"verb", "function"} & value.keys():
            continue
        if name == "paper" and any(isinstance(value.get(end), int | float) for end in ENDS):
            inherited = {each: inherited[each] for each in inherited if each not in (*PLACE, *ENDS)}
        merged[name] = inherited | value
    for name, instead in (("value", "not_here"), ("not_here", "value")):
        if entries.get(name) is not None and entries.get(instead) is None:
            merged.pop(instead, None)
    return merged


def _filled(value: Any, names: Mapping[str, Any], where: str) -> Any:
    """The value with placeholders in its texts replaced."""
    if isinstance(value, dict):
        return {name: _filled(each, names, where) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, names, where) for each in value]
    if not isinstance(value, str):
        return value
    if wrong := next((name for name in PLACEHOLDER.findall(value) if name not in names), None):
        raise unknown_name(f"placeholder of {where}", wrong, names)
    if whole := PLACEHOLDER.fullmatch(value):
        return names[whole[1]]
    return PLACEHOLDER.sub(lambda match: str(names[match[1]]), value)
