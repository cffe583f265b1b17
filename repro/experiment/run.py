"""A run of an experiment: its configuration, key, names and folder, and whether it is finished."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.core.errors import InputError
from repro.experiment.schema import RunConfig
from repro.records import provenance, store, sweep
from repro.records.events import read_events


@dataclass
class Run:
    """A resolved configuration with a variant's name and a seed.

    `repro.experiment.identify` sets `key`, `resume_key`, `hardware`, a training's `iterations`, `parts`
    (`versions.versions_of`), `edited` (`versions.edited_parts`) and `users_code`: plugin that is a user's own file ->
    digest of its code. `expand` sets `ranks`.
    """

    experiment: str
    variant: str
    config: RunConfig
    seed: int
    key: str = ""
    hardware: dict[str, Any] = field(default_factory=dict)
    iterations: float | None = None
    ranks: int | None = None
    users_code: dict[str, str] = field(default_factory=dict)
    resume_key: str = ""
    parts: dict[str, int | str] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, Any]:
        """Plain data for `of_plain`."""
        return vars(self) | {"config": self.config.plain()}

    @classmethod
    def of_plain(cls, value: dict[str, Any]) -> Run:
        """The run of `plain`; its plugins are not imported, and their options stay plain data."""
        return cls(**value | {"config": RunConfig.of_plain(value["config"])})

    def made_by(self) -> dict[str, Any]:
        """The provenance in the run's record (`repro.records.provenance`)."""
        made = provenance.provenance() | {"parts": self.parts}
        made |= {"resume_key": self.resume_key} if self.resume_key else {}
        return made | ({"users_code": self.users_code} if self.users_code else {})

    @property
    def testbed(self) -> str:
        return self.config.testbed.name

    @property
    def simulated(self) -> bool:
        return self.config.simulated

    @property
    def name(self) -> str:
        variant, testbed = (re.sub(r"[^a-z0-9]+", "-", x.lower()).strip("-") for x in (self.variant, self.testbed))
        breakdown = "-breakdown" if self.config.breakdown else ""
        return f"{variant}-{testbed}-seed{self.seed}{breakdown}-{self.key[:8]}"

    @property
    def label(self) -> str:
        """For people: variant, testbed, seed."""
        breakdown = " · breakdown" if self.config.breakdown else ""
        return f"{self.variant} · {self.testbed} · seed {self.seed}{breakdown}"

    @property
    def title(self) -> str:
        """The label with the experiment's name, unique among the runs of several experiments."""
        return f"{self.experiment} · {self.label}"

    @property
    def folder(self) -> Path:
        return store.run_dir(self.config.paper, self.config.experiment, self.name)

    @property
    def finished(self) -> bool:
        """Whether this run finished in this workspace; a summary without events was copied from elsewhere."""
        if self.config.draws:
            drawn = sweep.read(self.folder)
            return drawn is not None and drawn.key == self.key and len(drawn.draws) >= self.config.draws
        if not (self.folder / "events.jsonl").is_file():
            return False
        record = store.usable(self.folder)
        return record is not None and record.key == self.key

    @property
    def diverged(self) -> str | None:
        """Why this run diverged, and would again; None if it did not."""
        events = self.folder / "events.jsonl"
        try:
            last = read_events(events)[-1:] if events.is_file() else []
        except InputError:
            return None  # resuming the run repairs a damaged log
        return next((end["reason"] for end in last if end["event"] == "diverged" and end["key"] == self.key), None)
