"""Sweeps over draws that continue published ones."""

import dataclasses
from types import SimpleNamespace

from repro.launch.sweeps import continue_published, saved_sweep
from repro.records import catalogue, reference, sweep, variants


def test_a_sweep_continues_the_published_one_of_the_same_code_alone(tmp_path, monkeypatch):
    first, second = reference.sweeps("pipesgd")[:2]
    monkeypatch.setattr(reference, "reference_root", lambda: tmp_path / "reference")
    reference.write("pipesgd", [], swept=[first, second])

    def run_of(name, key):
        return SimpleNamespace(folder=tmp_path / name, key=key, label=name, config=SimpleNamespace(paper="pipesgd"))

    same, other, longer = run_of("same", first.key), run_of("other", "of newer code"), run_of("longer", second.key)
    own = dataclasses.replace(
        second, draws=[*second.draws, dataclasses.replace(second.draws[-1], number=len(second.draws))]
    )
    sweep.append(longer.folder, sweep.lines_of(own))
    sweep.append(same.folder, sweep.lines_of(dataclasses.replace(first, draws=first.draws[:2])))
    continue_published([same, other, longer])
    assert saved_sweep(same).draws == first.draws and saved_sweep(other) is None
    assert saved_sweep(longer).draws == own.draws


def test_a_newer_sweep_counts_from_when_it_has_as_many_draws_as_the_published_one(tmp_path, monkeypatch):
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    published = reference.sweeps("pipesgd")[0]
    monkeypatch.setattr(reference, "sweeps", lambda paper, root=None: [published])
    name = f"{published.record.run}-newer"  # as newer code has another key, and so another folder
    newer = dataclasses.replace(published, record=published.record.model_copy(update={"run": name}))
    folder = tmp_path / "pipesgd" / newer.record.identity.experiment / name
    sweep.append(folder, sweep.lines_of(dataclasses.replace(newer, draws=newer.draws[:4])))
    [(run, counted)] = catalogue.sweeps("pipesgd")
    assert (run.origin, counted) == (variants.REFERENCE, published)
    assert [len(each.draws) for _, each in catalogue.sweeps("pipesgd", tmp_path)] == [4]
    sweep.append(folder, [sweep.line_of(draw) for draw in newer.draws[4:]])
    [(run, counted)] = catalogue.sweeps("pipesgd")
    assert (run.origin, counted) == (variants.WORKSPACE, newer)
