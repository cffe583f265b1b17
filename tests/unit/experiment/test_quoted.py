"""What papers print of experiments' variants: entries that point into the tables of printed numbers."""

import csv

import pytest

from repro.common.errors import InputError
from repro.common.paths import CONFIGS
from repro.experiment import config
from repro.experiment import quoted as module
from repro.experiment.quoted import quoted
from repro.experiment.schema import RunConfig

QUOTING = [name for name in config.experiment_names() if module.own_file(name).get("quoted")]
ENTRY = {"column": "final", "place": "Figure 4", "row": "MNIST-MLP", "quantity": "final top-1"}


def test_each_paper_has_experiments_with_printed_numbers_of_their_variants():
    assert {name.split("/")[0] for name in QUOTING} == {"pipesgd", "pipedream", "gtopk", "eagersgd", "ibatch"}
    for name in QUOTING:
        labels = {variant.label for variant in config.own_variants(name)}
        for column, values in quoted(name).items():
            assert values and values.keys() <= labels, name
            assert column in ("final", "ms") or column.removeprefix("over ") in labels, name


def test_the_number_is_the_tables_in_our_unit():
    with (CONFIGS / "reference" / "pipesgd.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["row"], row["quantity"]) == ("MNIST-MLP", "final top-1")]
    assert quoted("pipesgd/fig4-mnist") == {"final": {row["setting"]: float(row["value"]) for row in rows}}
    steps_a_second = 1.64  # section 6.2.1, of eager-SGD (solo) with 200 ms
    assert quoted("eagersgd/fig10")["ms"]["eager-SGD (solo) 200 ms"] == pytest.approx(1e3 / steps_a_second)
    assert quoted("validation/shaped") == {}


def test_it_is_no_part_of_a_runs_configuration():
    assert "quoted" not in RunConfig.model_fields


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"row": "MNIST"}, "has nothing of any setting in Figure 4, MNIST, final top-1"),
        ({"variants": {"D-Sync": "DSync"}}, "has nothing of DSync"),
        ({"column": "finals"}, "column"),
        ({"column": "over"}, "`over` names a variant"),
        ({"over": "D-Sync"}, "`over` names a variant"),
        ({"column": "ms"}, "unit '' is none of column ms: s, steps/s"),
        ({"colum": "ms"}, "unknown option 'quoted.colum'"),
        ({"quantity": None}, "quantity"),
    ],
)
def test_an_entry_that_cannot_be_is_one_line_with_file_and_entry(changes, says, monkeypatch):
    monkeypatch.setattr(module, "own_file", lambda experiment: {"quoted": [ENTRY, ENTRY | changes]})
    with pytest.raises(InputError) as caught:
        quoted("pipesgd/fig4-mnist")
    line = str(caught.value)
    assert says in line and "fig4-mnist.yaml: quoted, entry 2: " in line and "\n" not in line
