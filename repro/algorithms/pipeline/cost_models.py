"""The partitioner's three cost models: seconds of every possible stage and cut, on one network level.

T: computation of a stage's layers; w: their parameter bytes; m: replicas of the stage; B: bandwidth in bytes/s; a_i:
bytes that cross cut i, the outputs of layers before it that a layer behind it uses.

    paper          max(T, 4(m-1)w / (mB)) / m    each cut takes 2 a_i / B (section 3.2 as written)
    released-sum   (T + 4(m-1)w / (mB)) / m      a stage takes 2 a / (mB) for its inputs, and for its outputs
    released-max   max(T, 4(m-1)w / (mB)) / m    the same

DEVIATION: the released code may count more bytes than a_i for a cut, of outputs whose users are all before the cut.

T(i -> j, m) of section 3.2 divides both terms by m though W already depends on m (docs/errata.md, PD-1); so do the
authors' code and we. `paper` does not divide 2 C_i by the replicas; the authors' code does.

On two levels (M1 machines with B1 in a group, M2 groups with B2) the T of the outer level is the time of the best
pipeline of the layers in a group. Section 3.2 has one level only; `paper` nests its formulas unchanged. The other
models divide the synchronisation of the outer level by M1 in the first stage only, as the released code does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from repro.algorithms.pipeline.downsets import Downsets
from repro.algorithms.pipeline.layers import Profile

COMBINE = {"paper": np.maximum, "released-sum": np.add, "released-max": np.maximum}


@dataclass(frozen=True)
class Layers:
    """The stages from cut i to cut j + 1, which in a chain are the layers i to j.

    computation  [i, j] seconds, inf if there is no such stage or pipeline
    parameters   [i, j] bytes
    activations  [i]: bytes that cross cut i + 1
    """

    computation: np.ndarray
    parameters: np.ndarray
    activations: np.ndarray

    @classmethod
    def of(cls, profile: Profile, cuts: Downsets) -> Layers:
        computation = np.where(cuts.nested(), cuts.sums([layer.seconds for layer in profile.layers]), np.inf)
        return cls(computation, cuts.sums([layer.parameter_bytes for layer in profile.layers]), cuts.leaving[1:])

    def cuts(self, start: int, stop: int) -> np.ndarray:
        """The cuts `start` and `stop`, and all cuts between them at which a stage may end."""
        begun = np.isfinite(self.computation[start, : stop - 1])
        ended = np.isfinite(self.computation[1:stop, stop - 1])
        return np.array([start, *np.flatnonzero(begun & ended) + 1, stop])


@dataclass(frozen=True)
class Costs:
    """Seconds of the stages from cut i to cut j + 1, each (N, N, M) with m - 1 as the last index.

    first      of the pipeline's first stage
    later      of any other stage
    transfers  of the values that cross the stage's borders; 0 if transfers do not count
    """

    first: np.ndarray
    later: np.ndarray
    transfers: np.ndarray

    def between(self, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each stage's seconds without and with its transfers, for pipelines from the first to the last cut."""
        stages = np.ix_(cuts[:-1], cuts[1:] - 1)
        seconds = self.later[stages]
        seconds[0] = self.first[cuts[0], cuts[1:] - 1]
        slowest = np.maximum(seconds, self.transfers[stages])
        slowest[0] = seconds[0]
        return seconds, slowest


def stage_costs(
    model: str, layers: Layers, machines: int, bandwidth: float, activations: bool = True, inside: int = 1
) -> Costs:
    """The costs with up to `machines` replicas. inside: machines of a group, 1 on the first level."""
    replicas = np.arange(1, machines + 1)
    terms = layers.computation[:, :, None], layers.parameters[:, :, None], replicas, bandwidth
    later = stage_seconds(model, *terms)
    first = stage_seconds(model, *terms, inside) if inside > 1 else later
    transfers = np.zeros_like(later)
    if activations:
        seconds = 2 * layers.activations / bandwidth
        inputs = np.concatenate(([0.0], seconds[:-1]))[:, None, None]
        if model == "paper":
            transfers += inputs
        else:
            outputs = np.append(seconds[:-1], 0.0)[None, :, None]
            transfers += np.maximum(inputs, outputs) / replicas
    return Costs(first, later, transfers)


def stage_seconds(
    model: str, computation: np.ndarray | float, parameters: np.ndarray | float, replicas: np.ndarray | int,
    bandwidth: float, inside: int = 1,
) -> np.ndarray:  # fmt: skip
    """T(i -> j, m) of a cost model; the arguments are broadcast. inside: machines of a group, for the first stage."""
    synchronisation = 4 * (replicas - 1) * parameters / (bandwidth * replicas)
    if model != "paper":
        synchronisation = synchronisation / inside
    return COMBINE[model](computation, synchronisation) / replicas
