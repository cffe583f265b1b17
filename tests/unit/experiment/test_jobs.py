"""What `repro run PAPER` consists of at a scale, and what the size of a run is called."""

import pytest

from repro.common.paths import CONFIGS
from repro.experiment import config
from repro.launch import runs as expansion


@pytest.mark.parametrize("paper", sorted(path.stem for path in (CONFIGS / "papers").glob("*.yaml")))
def test_a_paper_at_scale_quick_is_a_part_of_it(paper):
    quick, every = config.experiment_names(paper, "quick"), config.experiment_names(paper)
    assert quick and [name for name in every if name in quick] == quick
    assert config.experiment_names(paper, "full") == every
    left_out = next(name for name in every if name not in quick)
    assert config.experiment_names(left_out, "quick") == [left_out]  # by its name it is run at any scale


@pytest.mark.parametrize("name", config.experiment_names())
def test_jobs_are_scales(name):
    own = config.own_file(name)
    assert set(own.get("jobs", ())) <= set(own["scales"])


def test_a_run_that_is_the_same_at_full_is_called_so():
    found = expansion.expand("pipesgd/fig4-alexnet", ["device=cpu"], "quick")
    assert {(run.simulated, run.config.scale) for run in found} == {(True, "full"), (False, "quick")}
    assert {run.config.scale for run in expansion.expand("gtopk/fig10-vgg16", [], "quick")} == {"full"}
    assert {run.config.scale for run in expansion.expand("pipesgd/fig1", ["device=cpu"])} == {"custom"}
