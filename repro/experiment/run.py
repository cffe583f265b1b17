"""A run of an experiment, the key under which its result is kept, and whether it is there."""

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
    """One run: a resolved configuration, a variant's name and a seed. `key` is set by `identify`, and of one that
    trains its number of iterations; `ranks`, how many it needs, where it was expanded from an experiment; `users_code`,
    of each plugin that is a file of a user's own, a digest of what stands there now."""

    experiment: str
    variant: str
    config: RunConfig
    seed: int
    key: str = ""
    hardware: dict[str, Any] = field(default_factory=dict)
    iterations: float | None = None
    ranks: int | None = None
    users_code: dict[str, str] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        """As plain data, for `of_plain`."""
        return vars(self) | {"config": self.config.plain()}

    @classmethod
    def of_plain(cls, given: dict[str, Any]) -> Run:
        """The run that `plain` was asked of. Its plugins' options stay as a file has them, unread."""
        return cls(**given | {"config": RunConfig.of_plain(given["config"])})

    def made_by(self) -> dict[str, Any]:
        """What a record says of where it is from (`repro.records.provenance`)."""
        return provenance.provenance() | ({"users_code": self.users_code} if self.users_code else {})

    @property
    def testbed(self) -> str:
        return self.config.testbed.name

    @property
    def simulated(self) -> bool:
        return self.config.simulated

    @property
    def name(self) -> str:
        variant = re.sub(r"[^a-z0-9]+", "-", self.variant.lower()).strip("-")
        testbed = re.sub(r"[^a-z0-9]+", "-", self.testbed.lower()).strip("-")
        breakdown = "-breakdown" if self.config.breakdown else ""
        return f"{variant}-{testbed}-seed{self.seed}{breakdown}-{self.key[:8]}"

    @property
    def label(self) -> str:
        """For people: variant, testbed, seed."""
        breakdown = " · breakdown" if self.config.breakdown else ""
        return f"{self.variant} · {self.testbed} · seed {self.seed}{breakdown}"

    @property
    def title(self) -> str:
        """Among the runs of several experiments: its label behind the experiment's name."""
        return f"{self.experiment} · {self.label}"

    @property
    def folder(self) -> Path:
        return store.run_dir(self.config.paper, self.config.experiment, self.name)

    @property
    def finished(self) -> bool:
        """Whether this run finished in this workspace: a summary without its events was copied from elsewhere."""
        if self.config.draws:
            found = sweep.read(self.folder)
            return found is not None and found.key == self.key and len(found.draws) >= self.config.draws
        if not (self.folder / "events.jsonl").is_file():
            return False
        record = store.usable(self.folder)
        return record is not None and record.key == self.key

    @property
    def diverged(self) -> str | None:
        """Why this run ended without a result, and would again; None where it did not diverge."""
        events = self.folder / "events.jsonl"
        try:
            last = read_events(events)[-1:] if events.is_file() else []
        except InputError:
            return None  # a damaged log is mended where the run goes on
        return next((end["reason"] for end in last if end["event"] == "diverged" and end["key"] == self.key), None)
