"""requirements.lock: the versions that `make setup LOCKED=1` installs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.project.test_setup import PROJECT, pytestmark, shell  # noqa: F401  the mark is this module's too


def locked(path: Path) -> dict[str, Requirement]:
    """Name -> its line, `name==version` and nothing else."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    pins = {canonicalize_name(one.name): one for one in map(Requirement, lines)}
    assert len(pins) == len(lines)
    for one in pins.values():
        (pin,) = one.specifier
        assert pin.operator == "==" and not pin.version.endswith("*"), one
        assert not (one.url or one.extras or one.marker or "+" in pin.version), one  # of no index, build or machine
    return pins


def wanted() -> list[Requirement]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return [Requirement(line) for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]]


def test_the_lock_is_within_what_the_project_admits():
    pins = locked(PROJECT / "requirements.lock")
    for requirement in wanted():
        name = canonicalize_name(requirement.name)
        assert name in pins, f"{name} is not in requirements.lock: `make lock`"
        (pin,) = pins[name].specifier
        assert requirement.specifier.contains(pin.version), f"{pins[name]} against {requirement}: `make lock`"


def test_a_lock_is_written_from_the_environment(tmp_path):
    """With what the requirements need in turn, and without a build's own label."""
    target = tmp_path / "new.lock"
    subprocess.run([sys.executable, PROJECT / "setup/lock.py", target], check=True)
    pins = locked(target)
    assert {canonicalize_name(requirement.name) for requirement in wanted()} <= set(pins)
    assert "sympy" in pins  # of torch
    assert "horovod" not in pins and "repro-harness" not in pins


def test_packages_that_the_oldest_python_cannot_install_are_named():
    """pip refuses them, and with them the whole lock: soupsieve 4.1 on Debian 12, whose Python is 3.11.2."""
    from setup.lock import too_new

    needs = metadata.metadata("pytest")["Requires-Python"]
    assert too_new(["pytest"], "3.7.0") == [f"pytest {metadata.version('pytest')} needs Python {needs}"]
    assert too_new(["pytest"], "3.99.0") == []


def test_set_up_takes_the_lock_where_it_is_asked_for(tmp_path):
    steps = f"""
        log={tmp_path}/log
        new_enough_pip() {{ true; }}
        install_torch() {{ torch_plan requirement ${{lock:+"$lock"}}; }}
        pip_quietly() {{ echo "pip $*"; }}
        torch_plan() {{ {sys.executable} {PROJECT}/setup/torch_plan.py "$@"; }}
        install_packages"""
    free, bound = shell(steps, LOCKED="").stdout, shell(steps, LOCKED="1").stdout
    assert "requirements.lock" not in free and "torch==" not in free
    assert f"pip install -c {PROJECT}/requirements.lock -e {PROJECT}[dev]" in bound
    assert str(locked(PROJECT / "requirements.lock")["torch"]) in bound.splitlines()
    wrong = shell("true", LOCKED="yes")
    assert wrong.returncode == 2 and wrong.stderr == "setup: LOCKED is 'yes'; valid: 1\n"


def test_a_locked_environment_is_one_that_the_project_admits(tmp_path):
    """Its stamps are both; one that was made without the lock is gone through again when the lock is asked for."""
    (tmp_path / ".venv").mkdir()
    for name in ("pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    ready = f"""
        root={tmp_path} lock=${{lock:+{tmp_path}/requirements.lock}}
        venv_is_ours() {{ true; }}; find_mpirun() {{ echo mpirun; }}
        is_ready && echo ready || echo not"""
    made = f"root={tmp_path}; touch $(stamp)"
    shell(made, LOCKED="")
    assert [shell(ready, LOCKED=lock).stdout for lock in ("", "1")] == ["ready\n", "not\n"]
    shell(f"root={tmp_path} lock={tmp_path}/requirements.lock; touch $(stamp $lock)", LOCKED="1")
    assert [shell(ready, LOCKED=lock).stdout for lock in ("", "1")] == ["ready\n", "ready\n"]
