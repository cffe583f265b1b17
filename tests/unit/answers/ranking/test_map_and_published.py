"""The map's cells and borders, and comparisons with published throughputs."""

from __future__ import annotations

import hashlib
from argparse import Namespace

import pytest

from repro.answers.ranking import answer_question, emulated, paper_places, published
from repro.answers.ranking import map as maps
from repro.answers.ranking.against import PUBLISHED, Compared, Intervals, find_contests
from repro.answers.ranking.arguments import Question
from repro.answers.ranking.calibration import committed_calibration
from repro.answers.ranking.candidates import ANY, BETTER, SYNCHRONOUS, read_candidates
from repro.answers.ranking.cells import Cell, describe_advice, find_borders
from repro.answers.ranking.forms import step_seconds
from repro.answers.ranking.written import as_csv, from_csv, read_written
from repro.cli.main import main
from repro.cli.recommend import cmd_map
from repro.core import user_files
from repro.core.errors import InputError


@pytest.fixture(scope="module")
def shown():
    return read_written(Cell, "map")


def test_the_map_has_every_setting_once(shown):
    settings = len(maps.GBITS) * len(maps.RATIOS) * len(maps.WORKERS) * len(maps.LATE)
    assert len({cell.place for cell in shown}) == len(shown) == len(maps.KINDS) * settings


@pytest.mark.parametrize("kind", [SYNCHRONOUS, ANY])
def test_the_committed_map_is_what_the_closed_forms_give(shown, kind):
    base = maps.of_model()
    for cell in [cell for cell in shown if cell.by == "form" and cell.kind == kind and cell.workers == 8][::23]:
        times = step_seconds(read_candidates(), maps.cell_setting(base, cell.gbit, cell.ratio, cell.workers, cell.late))
        assert times[cell.best] == pytest.approx(cell.seconds, rel=1e-4)
        least = min(times[name] for name in times if read_candidates()[name].counts(kind))
        assert cell.seconds <= committed_calibration().lead * least * (1 + 1e-4)


def test_a_border_is_where_a_neighbour_has_another_winner():
    def cell(gbit, best, margin):
        return Cell(gbit, 1.0, 8, 0.0, ANY, best, 1.0, "ddp", margin)

    low, middle, high = (cell(gbit, best, 0.1) for gbit, best in ((0.1, "topk"), (0.3, "topk"), (1.0, "pipe_sgd")))
    rest = [cell(gbit, "pipe_sgd", 0.5) for gbit in maps.GBITS[3:]]
    grid = [low, middle, high, *rest]
    column = [Cell(one.gbit, ratio, *one.place[2:], one.best, 1.0, "ddp", 0.5)
              for one in grid for ratio in maps.RATIOS if ratio != 1.0]  # fmt: skip
    assert {one.gbit for one in maps.border_cells([*grid, *column])} == {0.3, 1.0}


def test_cells_survive_being_written_and_read(shown):
    assert from_csv(Cell, as_csv(Cell, shown[:50])) == shown[:50]


def test_published_settings_have_different_names():
    settings = published.published_settings()
    assert settings and len({one.id for one in settings}) == len(settings)


def test_the_named_strategy_is_right_within_a_twentieth_of_the_best():
    def judged(predicted, measured):
        rows = [
            Compared("a", "b", "c", 4, 1.0, name, name, was, 1.0, at, at, at, at, at)
            for name, at, was in zip(("ddp", "ps"), predicted, measured)
        ]
        (contest,) = find_contests(rows)
        return contest

    assert judged((2.0, 1.0), (100.0, 50.0)).right
    assert not judged((1.0, 2.0), (100.0, 50.0)).right
    assert judged((1.0, 2.0), (100.0, 96.0)).right  # a tie
    assert not find_contests([Compared("a", "b", "c", 4, 1.0, "ddp", "ddp", *[1.0] * 7)])


def test_a_published_setting_is_compared_with_its_own_computation_and_network():
    setting = next(one for one in published.published_settings() if one.id == "survey-10g-8-resnet50")
    rows = {measured.strategy: published.Compares.of(setting, measured).row(None) for measured in setting.results}
    least = setting.batch / setting.single_per_s
    assert all(least < row.low_s <= row.seconds <= row.high_s for row in rows.values())
    assert rows["ddp"].seconds < rows["allreduce"].seconds


def test_the_sources_kept_out_are_the_first_third_by_their_digests():
    listed = user_files.read_yaml(PUBLISHED)
    first = ("horovod-readme", "ddl-benchmarks", "torchgpipe", "tf-benchmarks-29", "horovod-659", "horovod-2581",
             "paddle-dgc")  # fmt: skip
    added = [name for name in listed["sources"] if name not in first]
    by_digest = sorted(added, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    assert set(listed["kept_out"]) == set(by_digest[: len(listed["sources"]) // 3])


def test_an_interval_is_judged_by_its_width_and_by_what_is_outside():
    def row(low, high):
        return Compared("a", "b", "c", 4, 1.0, "s", "ddp", 1.0, 1.0, 1.0, 1.0, 1.0, low, high)

    narrow, wide, missed = (Intervals.of([row(*ends)]) for ends in ((0.9, 1.1), (0.5, 2.0), (1.1, 1.2)))
    assert narrow.coverage == wide.coverage == 1.0 and missed.coverage == 0.0
    assert narrow.score < wide.score < missed.score


def test_of_simulated_strategies_that_tie_the_simplest_is_named(monkeypatch):
    cell = Cell(1.0, 1.0, 4, 0.0, SYNCHRONOUS, "layerwise", 1.0, "ddp", 0.02)
    times, base, lead = {"layerwise": 1.0, "ddp": 1.0 + BETTER / 2}, maps.of_model(), committed_calibration().lead
    monkeypatch.setattr(maps.forms, "simulate_seconds", lambda one, where: (times[one.name], 0))
    found = maps.simulate_cell(base, lead, cell)
    assert (found.best, found.second, found.agrees, found.margin) == ("ddp", "layerwise", False, 0.0)
    times["ddp"] = 2.0
    found = maps.simulate_cell(base, lead, cell)
    assert (found.best, found.second, found.agrees, found.margin) == ("layerwise", "ddp", True, pytest.approx(1.0))


def test_a_border_has_its_strategies_and_where_it_lies():
    def cell(gbit, ratio, best):
        return Cell(gbit, ratio, 4, 0.0, ANY, best, 1.0, "ddp", 0.1)

    grid = [cell(gbit, ratio, "topk" if gbit == 1.0 else "ddp") for gbit in (1.0, 4.0) for ratio in (0.5, 1.0)]
    (border,) = find_borders(grid, ANY)
    assert (border.along, border.before, border.after, border.cells) == ("gbit", "topk", "ddp", 2)
    assert border.at == pytest.approx(2.0)


def test_advice_names_the_large_regions_and_the_axes_of_which_they_cover_a_part():
    def cell(gbit, ratio, best):
        return Cell(gbit, ratio, 4, 0.0, ANY, best, 1.0, "ddp", 0.1)

    small = [(100.0, 8.0)]  # less than a twentieth of the cells
    grid = [
        cell(gbit, ratio, "ps" if (gbit, ratio) in small else "topk" if gbit <= 3.0 else "ddp")
        for gbit in (1.0, 2.0, 3.0, 4.0, 5.0, 100.0)
        for ratio in (0.5, 1.0, 2.0, 4.0, 8.0)
    ]
    assert describe_advice(grid, ANY) == (
        f"{read_candidates()['topk'].label} in 15 of the map's 30 cells (1 to 3 Gbit/s); "
        f"{read_candidates()['ddp'].label} in 14 of 30 cells (4 to 100 Gbit/s); others in 1"
    )


def test_the_map_makes_its_folder_and_refuses_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(maps, "build_map", lambda simulations, lead, say: [])
    monkeypatch.setattr(published, "compare_published", lambda: read_written(Compared, "published"))
    monkeypatch.setattr(paper_places, "PAPER_PLACES", ())
    monkeypatch.setattr(emulated, "emulated_rows", list)
    main(["map", "--out", str(tmp_path / "new" / "folder")])
    assert from_csv(Cell, (tmp_path / "new" / "folder" / "map.csv").read_text()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        cmd_map(Namespace(simulations=0, out=str(tmp_path / "file"), check_forms=None, first_case=None))


def test_the_page_is_right_that_amp_on_a100s_is_above_what_the_tool_says_by_the_gpu_s_name():
    setting = next(one for one in published.published_settings() if one.id == "nvidia-a100-amp-8-resnet50")
    asked = Question(setting.model, None, setting.workers, gpus_per_node=setting.gpus_per_node, intra=setting.intra,
                     batch=setting.batch, gpu="A100", precision="bf16")  # fmt: skip
    named = answer_question(asked)
    assert named.samples / named.best.low_s < setting.results[0].per_s
