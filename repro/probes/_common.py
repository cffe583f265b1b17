"""What the probes share: facts for their summaries, stretches of work timed on the slowest rank, numbers checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from repro import strategies
from repro.common.errors import InputError
from repro.data.base import Dataset
from repro.experiment.files import strategy_options
from repro.fabric.base import Fabric
from repro.strategies.base import Strategy


def slowest(fabric: Fabric, work: Callable[[], Any]) -> float:
    """Seconds of `work()` on the slowest rank, all ranks having started together; every rank gets the number."""
    fabric.exchange(None)  # polls: a rank that is late finds the cores free
    fabric.barrier()
    began = fabric.now()
    work()
    return max(fabric.exchange(fabric.now() - began))


def facts(fabric: Fabric, model: str | None, parameters: int, dataset: Dataset | None) -> dict[str, Any]:
    """What only the ranks know, as in a training summary."""
    found: dict[str, Any] = {
        "fabric": fabric.name,
        "ranks": fabric.size,
        "model": {"name": model, "parameters": parameters},
    }
    if dataset is not None:
        found["dataset"] = {
            "name": dataset.name,
            "standin": dataset.standin,
            "checksum": dataset.checksum,
            "train": len(dataset.train),
            "test": len(dataset.test),
            "classes": dataset.classes,
            "input_shape": list(dataset.input_shape),
        }
    return found


def chosen(probe: dict[str, Any]) -> dict[str, Strategy]:
    """Setting -> a new strategy with its options, of `probe.strategies`; InputError where they cannot be used."""
    given = probe.get("strategies")
    if not isinstance(given, dict) or not all(isinstance(one, dict) and "name" in one for one in given.values()):
        raise InputError("probe.strategies: must be a mapping setting -> {name: STRATEGY, options ...}")
    if not given:
        raise InputError("probe.strategies: must name at least one setting")
    found = {}
    for setting, one in given.items():
        strategy_class = strategies.load(one["name"])
        found[setting] = strategy_class(strategy_class.parse(strategy_options({"strategy": one})))
    return found


def whole(probe: dict[str, Any], name: str, least: int = 1) -> int:
    """A whole number among a probe's parameters; InputError naming it otherwise."""
    value = probe.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"probe.{name}={value}: must be a whole number, {least} or more")
    return value


def number(probe: dict[str, Any], name: str, above: float = 0.0, inclusive: bool = False) -> float:
    """A number among a probe's parameters, above a limit (or at least it); InputError naming it otherwise."""
    value = probe.get(name)
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not (value >= above if inclusive else value > above):
        limit = f"{above:g} or more" if inclusive else f"above {above:g}"
        raise InputError(f"probe.{name}={value}: must be a number, {limit}")
    return float(value)


def sizes(probe: dict[str, Any], name: str, least: int = 1) -> list[int]:
    """A list of numbers of bytes (float32 vectors), at least so many different ones; InputError otherwise."""
    given = probe.get(name)
    right = isinstance(given, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 4 for n in given)
    if not right or len(set(given)) < least:
        raise InputError(f"probe.{name}={given}: must be a list of at least {least} numbers of bytes, each 4 or more")
    return given
