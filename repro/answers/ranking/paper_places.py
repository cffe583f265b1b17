"""Where the papers' headlines lie in the map, on their own testbeds, and where their strategies stop paying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from repro.algorithms.timing.setting import Setting
from repro.answers.ranking import forms
from repro.answers.ranking.candidates import ANY, PAYS, SYNCHRONOUS, USUAL, read_candidates
from repro.answers.ranking.cells import Placed
from repro.answers.ranking.cluster import cluster_entries
from repro.answers.ranking.flips import FASTEST
from repro.answers.ranking.on_testbed import setting_on
from repro.core.fields import check_fields
from repro.experiment import files
from repro.experiment.config import compose
from repro.experiment.schema import RunConfig

STEP = 2 ** (1 / 8)  # between the bandwidths tried


@dataclass(frozen=True)
class PaperPlace:
    """The experiment behind a paper's headline; candidate: the paper's strategy.

    late: delay of a worker in the experiment, a share of its computation.
    """

    paper: str
    experiment: str
    testbed: str
    workers: int
    candidate: str
    late: float = 0.0
    overrides: tuple[str, ...] = ()


PAPER_PLACES = (
    PaperPlace("Pipe-SGD", "pipesgd/fig4-alexnet", "paper/pipesgd-alexnet", 4, "pipe_sgd_fp16"),
    PaperPlace("PipeDream", "pipedream/table1-vgg16-8b", "paper/pipedream-b", 8, "pipedream"),
    PaperPlace("gTop-k", "gtopk/fig10-vgg16", "paper/gtopk-vgg16", 32, "gtopk", overrides=("batch=4096",)),
    PaperPlace("eager-SGD", "eagersgd/fig11", "paper/eagersgd-resnet50", 64, "eager_solo", 0.47),
)


def locate_paper(place: PaperPlace) -> Placed:
    """The headline's place in the map, the times of its strategy and of the fastest ones, and where it stops paying."""
    setting = setting_of(place)
    own_s = forms.step_seconds({place.candidate: read_candidates()[place.candidate]}, setting)[place.candidate]
    bits = 8 / setting.testbed.beta_s_per_byte
    stops: float | None = None
    if _pays(place, setting):
        stops = bits
        while stops < FASTEST and _pays(place, setting.with_entries(beta_s_per_byte=8 / stops)):
            stops *= STEP
        stops = float("inf") if stops >= FASTEST else stops
    return Placed(
        place.experiment.partition("/")[0],
        place.paper,
        setting.profile.model,
        place.workers,
        bits / 1e9,
        setting.computation_s / (2 * setting.nbytes * 8 / bits),
        place.late,
        place.candidate,
        own_s,
        *_best(setting, SYNCHRONOUS),
        *_best(setting, ANY),
        stops,
    )


def setting_of(place: PaperPlace) -> Setting:
    """The paper's testbed, model and minibatch; costs that the testbed lacks are those of `cluster.yaml`."""
    of_testbed = files.own_file(place.experiment).get("testbeds", {})
    changes = of_testbed.get(place.testbed, []) if isinstance(of_testbed, dict) else []
    overrides = [f"testbed={place.testbed}", f"workers={place.workers}", *place.overrides]
    entries = compose(place.experiment, [*overrides, *(each for each in changes if "testbed." in each)], "paper")
    config = check_fields(RunConfig, entries)
    bed: Any = config.testbed
    model, batch = config.model, config.local_batch
    here = setting_on(bed, model.name, model.options, config.dataset.name, batch, place.workers, place.late)
    kinds = ("encode_s_per_byte", "decode_s_per_byte", "select_s_per_byte")
    return here.with_entries(**{kind: cluster_entries()[kind] | getattr(bed, kind) for kind in kinds})


def _best(setting: Setting, kind: str) -> tuple[str, float]:
    times = forms.step_seconds({name: each for name, each in read_candidates().items() if each.counts(kind)}, setting)
    return min(times.items(), key=lambda entry: entry[1])


def _pays(place: PaperPlace, setting: Setting) -> bool:
    times = forms.step_seconds({name: read_candidates()[name] for name in (place.candidate, USUAL)}, setting)
    return times[place.candidate] < (1 - PAYS) * times[USUAL]
