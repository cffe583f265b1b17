"""The strategies that are ranked, with their options: `candidates.yaml`."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from repro.core import yaml_files
from repro.core.fields import Model, Text, Whole, checked
from repro.core.not_none import not_none
from repro.core.registry import PLUGINS

FILE = Path(__file__).with_name("candidates.yaml")
SYNCHRONOUS, ANY = "synchronous", "any"  # what candidates are compared with


class Candidate(Model):
    """A strategy as a user would start it; the entries are explained in the file."""

    part = "candidate"

    name: Text
    label: Text
    strategy: Text
    options: dict[str, Any] = Field(default_factory=dict)
    servers: Literal["machines", "separate"] = "machines"
    keeps: Literal["synchronous", "compressed", "stale", "local"]
    form: Text
    link: Literal["ring", "all", "machine"]
    vectors: Whole
    modelled: bool = True

    def counts(self, kind: str) -> bool:
        """Whether it is one of those that are compared: what keeps synchronous SGD's updates, or any that exchanges
        something in every iteration."""
        return self.keeps == kind or (kind == ANY and self.keeps != "local")

    def simulated(self) -> tuple[str, dict[str, Any]]:
        """The strategy of ours, and all of its options, that runs in virtual time in this one's place."""
        kind = PLUGINS["strategy"].load(self.strategy)
        name, options = not_none(kind.twin(kind.parse(self.options)))
        return name, asdict(PLUGINS["strategy"].load(name).parse(options))


@cache
def every() -> dict[str, Candidate]:
    """All whose strategy is there, in the file's order."""
    known = PLUGINS["strategy"].names()
    found = {
        name: checked(Candidate, given | {"name": name}, f"{FILE.name}: {name}")
        for name, given in yaml_files.read(FILE).items()
    }
    return {name: one for name, one in found.items() if one.strategy in known}
