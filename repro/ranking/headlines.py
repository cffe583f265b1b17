"""Where the papers' headlines lie in the map, on their own testbeds and models; where their strategies stop paying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from repro.core.fields import checked
from repro.experiment import files
from repro.experiment.config import compose
from repro.experiment.schema import RunConfig
from repro.ranking import forms
from repro.ranking.candidates import ANY, SYNCHRONOUS, every
from repro.ranking.cells import Placed
from repro.ranking.flips import FASTEST
from repro.ranking.on_testbed import setting_on
from repro.ranking.setting import Setting, cluster

USUAL, PAYS = "ddp", 0.05  # what a user would run, and by which share a strategy must be faster to pay
OCTAVE = 2 ** (1 / 8)


@dataclass(frozen=True)
class Headline:
    """An experiment behind a paper's headline, and the candidate that is the paper's own strategy. late: share of its
    computation by which a worker is late there."""

    paper: str
    experiment: str
    testbed: str
    workers: int
    candidate: str
    late: float = 0.0
    overrides: tuple[str, ...] = ()


EVERY = (
    Headline("Pipe-SGD", "pipesgd/fig4-alexnet", "paper/pipesgd-alexnet", 4, "pipe_sgd_fp16"),
    Headline("PipeDream", "pipedream/table1-vgg16-8b", "paper/pipedream-b", 8, "pipedream"),
    Headline("gTop-k", "gtopk/fig10-vgg16", "paper/gtopk-vgg16", 32, "gtopk", overrides=("batch=4096",)),
    Headline("eager-SGD", "eagersgd/fig11", "paper/eagersgd-resnet50", 64, "eager_solo", 0.47),
)


def placed(headline: Headline) -> Placed:
    setting = setting_of(headline)
    own = forms.seconds({headline.candidate: every()[headline.candidate]}, setting)[headline.candidate]
    synchronous, any_ = (_best(setting, kind) for kind in (SYNCHRONOUS, ANY))
    bits = 8 / setting.testbed.beta_s_per_byte
    sending = 2 * setting.nbytes * 8 / bits
    stops: float | None = None
    if _pays(headline, setting):
        stops = bits
        while stops < FASTEST and _pays(headline, setting.with_entries(beta_s_per_byte=8 / stops)):
            stops *= OCTAVE
        stops = float("inf") if stops >= FASTEST else stops
    ratio = setting.computation_s / sending
    where = headline.experiment.partition("/")[0], headline.paper, setting.profile.model, headline.workers
    at = bits / 1e9, ratio
    return Placed(*where, *at, headline.candidate, own, *synchronous, *any_, stops)


def setting_of(headline: Headline) -> Setting:
    """The paper's testbed, model and minibatch; work that its testbed has no time for takes `cluster.yaml`'s."""
    of_testbed = files.own_file(headline.experiment).get("testbeds", {})
    own = of_testbed.get(headline.testbed, []) if isinstance(of_testbed, dict) else []
    overrides = [f"testbed={headline.testbed}", f"workers={headline.workers}", *headline.overrides]
    given = compose(headline.experiment, [*overrides, *(one for one in own if "testbed." in one)], "paper")
    config = checked(RunConfig, given)
    bed: Any = config.testbed
    model, batch = config.model, config.local_batch
    here = setting_on(bed, model.name, model.options, config.dataset.name, batch, headline.workers, headline.late)
    kinds = ("encode_s_per_byte", "decode_s_per_byte", "select_s_per_byte")
    return here.with_entries(**{kind: cluster()[kind] | getattr(bed, kind) for kind in kinds})


def _best(setting: Setting, kind: str) -> tuple[str, float]:
    times = forms.seconds({name: one for name, one in every().items() if one.counts(kind)}, setting)
    best = min(times, key=lambda name: times[name])
    return best, times[best]


def _pays(headline: Headline, setting: Setting) -> bool:
    times = forms.seconds({name: every()[name] for name in (headline.candidate, USUAL)}, setting)
    return times[headline.candidate] < (1 - PAYS) * times[USUAL]
