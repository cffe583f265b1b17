"""Which runs are alike, which of them is the newest, and what a run's label is.

Runs are `alike` if their configurations are equal, but for the seed; only such runs may be averaged. A `place` may hold
several that are not, of which the `newest` counts. A figure shows only runs of `comparable` conditions. A `label` says
how a run differs from its experiment's own variant. Whether a run has to be made again is its key's business
(`repro.experiment.key`), which also holds versions of code and the seed.

Other modules choose among runs by what they ask here, and decide something else: which group of comparable runs a page
shows (`repro.answers.tables.selection`), whose duration says how long a run takes (`repro.launch.forecast`).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from repro.core.registry import PLUGINS
from repro.records.filters import list_column
from repro.records.identity import Identity, Values, plain_value
from repro.records.kinds import SIMULATED
from repro.records.neutral import completed, completed_alone, is_neutral

if TYPE_CHECKING:
    import pandas as pd


Run = TypeVar("Run", bound="Finished")


class HasIdentity(Protocol):
    """A record, what holds one, or a configuration."""

    @property
    def identity(self) -> Identity: ...


class Finished(HasIdentity, Protocol):
    """A record, or what holds one (`repro.records.record`, which imports this module)."""

    @property
    def provenance(self) -> dict[str, Any]: ...

    @property
    def kind(self) -> str: ...


class HasResult(Finished, Protocol):
    """A run that `repro.records.catalogue` found."""

    @property
    def record(self) -> Any: ...

    @property
    def dataset(self) -> Any: ...

    @property
    def parameters(self) -> int | None: ...


REFERENCE, WORKSPACE, KEPT = "reference", "workspace", "kept"  # origins of runs
# formats of values in labels, in this order; others are `NAME=value`, where NAME is the last part of the path if unique
LABEL_FORMATS = {
    "strategy.name": "{}",
    "workers": "{} workers",
    "batch": "batch {}",
    "epochs": "{} epochs",
    "model.name": "{}",
    "dataset.name": "on {}",
    "imbalance.name": "imbalance {}",
    "testbed.name": "{}",
}
# prefixes of a strategy's paths, and of settings that some libraries' strategies require
STRATEGY = ("strategy.", "testbed.launcher", "testbed.backend", "testbed.fabric")
# columns of a table `runs` (`repro.records.tables`) with what the rows of one comparison share
PLACE_COLUMNS = ["paper", "experiment", "model", "dataset", "testbed", "kind", "scale"]
SIZE_COLUMNS = ["workers", "batch", "epochs"]
VARIANT_COLUMNS = ("experiment", "testbed", "variant")  # rows that are equal in them belong to one variant
COMPARED = ("strategy.", "imbalance.")  # prefixes of paths in which the variants of an experiment differ
WORK = (*COMPARED, "model.name", "workers", "testbed.device")
DATA = ("name", "checksum", "train", "test", "augmentation")  # in a record
LONGEST = 40  # characters of a value that a label shows in full


# --- which runs are alike


def alike(run: Identity, other: Identity) -> bool:
    """Whether two runs have the same configuration; their seeds may differ."""
    first, second = completed([run.values, other.values])
    return digest(first) == digest(second)


def configuration_of(run: Identity) -> str:
    """A digest of a run's configuration, equal for runs that are `alike`, whichever others there are."""
    return digest(completed_alone(run.values))


def digest(values: Values, without: tuple[str, ...] = ()) -> str:
    """Equal for runs of one configuration, if they were `completed` together. without: prefixes of ignored paths."""
    counts = {path: value for path, value in values.items() if not is_neutral(path, value)}
    entries = sorted((path, plain_value(value)) for path, value in counts.items() if not path.startswith(without))
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()[:12]


def differing(runs: Sequence[Values]) -> list[str]:
    """The paths at which runs differ, without options that are implied by their plugin's name."""
    paths = dict.fromkeys(path for values in runs for path in values)
    differ = [path for path in paths if len({_key(path, values.get(path)) for values in runs}) > 1]
    return [path for path in differ if not _is_implied(path, differ, runs)]


def changed(original: Values, run: Values, overridden: Sequence[str]) -> list[str]:
    """The paths at which a run differs from its experiment's own values. overridden: the paths that the user set."""
    original, run = completed([original, run])
    set_anew = [path for path in overridden if path in run and _key(path, original.get(path)) != _key(path, run[path])]
    return [*dict.fromkeys([*(path for path in differing([original, run]) if path in run), *set_anew])]


def comparable(runs: Sequence[HasResult], varies: Sequence[str] = ()) -> list[tuple[Hashable, ...]]:
    """For each training run its conditions: a figure shows only runs in which they are equal.

    They are what was configured, but for strategy, imbalance and minor entries, the data that were read and the size of
    the model. varies: paths, or the beginnings of paths, of entries in which the variants of the experiment differ
    (`testbed.device`).
    """
    without = (*COMPARED, "breakdown", *varies)
    digests = digest_configurations([run.identity for run in runs], without)
    return [(digest, *_read(run, varies)) for digest, run in zip(digests, runs, strict=True)]


def same_work(runs: Sequence[Identity]) -> list[tuple[Hashable, ...]]:
    """For each run its work, which an emulated run shares with its simulation on another testbed."""
    digests = digest_configurations(runs, only=WORK)
    return [(run.paper, run.experiment, digest) for run, digest in zip(runs, digests, strict=True)]


def but_strategy(runs: Sequence[Identity]) -> list[tuple[Hashable, ...]]:
    """For each run what it shares with those of other strategies: its experiment, and everything else that was
    configured but the seed."""
    digests = [_but_strategy(values) for values in completed([run.values for run in runs])]
    return [(run.paper, run.experiment, digest) for run, digest in zip(runs, digests, strict=True)]


def _but_strategy(values: Values) -> str:
    return digest(values, without=STRATEGY)


def digest_configurations(
    runs: Sequence[Identity], without: tuple[str, ...] = (), only: tuple[str, ...] = ("",)
) -> list[str]:
    """For each run a digest, equal for runs that are `alike` but for minor entries. without, only: prefixes of
    paths."""
    values = completed([{path: run.values[path] for path in run.values if path.startswith(only)} for run in runs])
    minor = {path for run in runs for path in run.minor_paths}
    return [digest({path: each[path] for path in each if path not in minor}, without) for each in values]


def _read(run: HasResult, varies: Sequence[str]) -> Iterator[Hashable]:
    """What the run's data and model were, whatever they are called; none of a part that varies."""
    if "dataset" not in varies:
        entries = run.dataset.model_dump() if run.dataset else {}
        yield from (json.dumps(entries.get(name), sort_keys=True) for name in DATA)
    if "model" not in varies:
        yield json.dumps(run.parameters)


# --- which run is the newest


def place(run: HasIdentity) -> tuple[Hashable, ...]:
    """Where a run stands among those of its seed: a place has one published run, however else they differ."""
    identity = run.identity
    parts = (part and part.name for part in (identity.testbed, identity.model, identity.dataset))
    names = identity.paper, identity.experiment, identity.variant, *parts, identity.testbed.launcher
    return (*names, identity.workers, identity.scale, identity.breakdown)


def place_and_seed(run: HasIdentity) -> tuple[Hashable, ...]:
    """`place`, and the seed."""
    return (*place(run), run.identity.seed)


def of_one_machine(run: HasResult) -> tuple[Hashable, ...]:
    """`place_and_seed`, and the machine."""
    return (*place_and_seed(run), machine_of(run))


def machine_of(run: HasResult) -> str | None:
    """The class of the hardware; None for simulated runs, for which it does not count."""
    return None if run.kind == SIMULATED else run.record.hardware.class_


def newest(runs: Iterable[Run], same: Callable[[Run], Hashable]) -> list[Run]:
    """Of the runs for which `same` is equal the newest: those of the workspace before committed ones, then the one that
    finished last. In the order in which the first of each finished."""
    return [*{same(run): run for run in sorted(runs, key=recency)}.values()]


def find_superseded(runs: Iterable[HasResult]) -> set[str]:
    """The names of the runs of the workspace of whose variant a newer run there has another configuration: the file of
    the experiment or testbed was edited in between, and no page mixes both."""
    mine = [run for run in sorted(runs, key=recency) if recency(run)[0]]
    configurations = [configuration_of(run.identity) for run in mine]
    current = dict(zip(map(_variant, mine), configurations, strict=True))
    old = (run for run, each in zip(mine, configurations, strict=True) if current[_variant(run)] != each)
    return {run.record.name for run in old}


def _variant(run: Finished) -> tuple[Hashable, ...]:
    """Where a run stands, by names that an edit of its experiment or testbed keeps."""
    identity, testbed = run.identity, run.identity.testbed
    names = identity.paper, identity.experiment, label(identity), json.dumps(identity.factors, sort_keys=True)
    return (*names, testbed.name, testbed.launcher, identity.scale, identity.breakdown, run.kind)


def newest_rows(table: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """`newest` of a table `runs` (`repro.records.catalogue`): a row for each value of the columns."""
    places = zip(*(list_column(table, column) for column in columns), strict=True)
    order = map(_recency, table["origin"], list_column(table, "finished_at"))
    by_recency = sorted(zip(order, range(len(table)), places, strict=True))
    return table.iloc[sorted({place: row for _, row, place in by_recency}.values())]


def recency(run: Finished) -> tuple[bool, str]:
    """The order of `newest`."""
    return _recency(getattr(run, "origin", None), finished_at(run))


def _recency(origin: str | None, finished_at: str | None) -> tuple[bool, str]:
    return origin == WORKSPACE, str(finished_at or "")


def finished_at(run: Finished) -> str:
    """When a run finished, in ISO format; "" if unknown."""
    return str(run.provenance.get("finished_at") or "")


# --- what a run's label is


class Labelled(NamedTuple):
    """variant: the label. configuration: a digest, equal for runs that are alike; besides: one without the strategy and
    what that may require (`STRATEGY`)."""

    variant: str
    configuration: str
    besides: str


def label(run: Identity) -> str:
    """`Pipe-SGD + T, 3 epochs`: the variant's name, and the values at which the user changed its experiment's own."""
    return _label(run, run.values, user_changes(run))


def labels(records: Sequence[Finished]) -> list[Labelled]:
    """The label of each run, with what it takes to tell it from the others that look alike in a table."""
    values = _comparable(records)
    identities, groups = [record.identity for record in records], [_looks(record) for record in records]
    digests = [digest(each) for each in values]
    # older runs of a configuration do not record its changes, so they are taken from all of its runs
    changes: dict[tuple[Any, ...], dict[str, None]] = defaultdict(dict)
    for group, configuration, record in zip(groups, digests, records, strict=True):
        changes[group, configuration] |= dict.fromkeys(user_changes(record.identity))
    paths = [[*changes[key]] for key in zip(groups, digests, strict=True)]

    def made() -> list[str]:
        runs = zip(identities, values, paths, strict=True)
        return [_label(run, configured, shown) for run, configured, shown in runs]

    for similar in _grouped(zip(groups, made(), strict=True)):
        told_apart_by = differing([values[i] for i in similar])
        for i in similar:
            paths[i] = [*dict.fromkeys([*paths[i], *told_apart_by])]
    return [Labelled(*each) for each in zip(made(), digests, map(_but_strategy, values), strict=True)]


def _label(run: Identity, values: Values, paths: Sequence[str]) -> str:
    return ", ".join(filter(None, [run.variant, _described(values, paths)]))


def user_changes(run: Identity) -> list[str]:
    """The paths at which the user changed an experiment's own values, but for minor ones."""
    return [path for path in run.changed if path not in run.minor_paths]


def _described(values: Values, paths: Sequence[str]) -> str:
    """The text of an identity's values at some paths: `H=40, 9 epochs, tiny_vit on shapes16`."""
    present = [path for path in paths if path in values]
    listed = [path for path in LABEL_FORMATS if path in present]
    ordered = [*listed, *(path for path in present if path not in LABEL_FORMATS)]
    ordered.sort(key=lambda path: not path.startswith("strategy."))
    last = [path.rpartition(".")[2] for path in ordered]
    words = []
    for path, name in zip(ordered, last, strict=True):
        text = _text(values[path])
        name = name if last.count(name) == 1 and name != "name" else path
        words.append(LABEL_FORMATS[path].format(text) if path in LABEL_FORMATS else f"{name}={text}")
    return ", ".join(words).replace(", on ", " on ") if "model.name" in present else ", ".join(words)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    plain = plain_value(value) if isinstance(value, dict) else value
    text = value if isinstance(value, str) else json.dumps(plain, default=str)
    return text if len(text) <= LONGEST else f"#{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _comparable(records: Sequence[Finished]) -> list[Values]:
    """The values of each run's identity, completed to be comparable within its experiment."""
    values = [record.identity.values for record in records]
    for experiment in _grouped((record.identity.paper, record.identity.experiment) for record in records):
        for i, whole in zip(experiment, completed([values[i] for i in experiment]), strict=True):
            values[i] = whole
    # a user's file is a different plugin after each change
    codes = [record.provenance.get("users_code") or {} for record in records]
    return [
        each | {f"{part}.code": digest for part, digest in code.items()}
        for each, code in zip(values, codes, strict=True)
    ]


def _grouped(keys: Iterable[Hashable]) -> Iterable[list[int]]:
    """The indices with equal keys, in order."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return groups.values()


def _looks(record: Finished) -> tuple[Any, ...]:
    """Runs with equal values here look alike in a table, except for their labels."""
    run = record.identity
    return run.paper, run.experiment, run.variant, run.testbed.name, record.kind, run.scale, run.breakdown


def _is_implied(path: str, differ: Sequence[str], runs: Sequence[Values]) -> bool:
    """Whether a path is an option of plugins with different names, and equal in all runs of the same plugin."""
    group = path.partition(".")[0]
    name = f"{group}.name"
    if group not in (*PLUGINS, "testbed") or path == name or name not in differ:
        return False
    pairs = {(values.get(name), _key(path, values.get(path))) for values in runs}
    return len(pairs) == len({plugin for plugin, _ in pairs})


def _key(path: str, value: Any) -> str | None:
    return None if is_neutral(path, value) else json.dumps(plain_value(value))
