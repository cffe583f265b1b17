"""srun's types of MPI, tried before a job: a stand-in for srun says what Slurm 22.05 of Debian says."""

import pytest

from repro.core.errors import InputError
from repro.launch.slurm import client

SRUN = """#!/bin/sh
case $1 in
    --mpi=list)
        printf 'MPI plugin types are...\\n\\tpmix\\n\\tnone\\n\\tpmi2\\n'
        echo 'specific pmix plugin versions available: pmix_v3,pmix_v4' ;;
    --mpi=none | --mpi=pmi2 | --mpi=pmix_v3) echo "srun: error: invalid partition specified: nowhere" >&2; exit 1 ;;
    --mpi=pmix | --mpi=pmix_v4)
        echo "srun: error:  mpi/pmix_v4: init: (null) [0]: mpi_pmix.c:195: pmi/pmix: can not load PMIx library" >&2
        echo "srun: error: Couldn't load specified plugin name for mpi/pmix: Plugin init() callback failed" >&2
        echo "srun: error: Invalid MPI type '${1#--mpi=}', --mpi=list for acceptable types" >&2; exit 1 ;;
    *)
        echo "srun: error: Couldn't find the specified plugin name for mpi/x looking at all files" >&2
        echo "srun: error: Invalid MPI type '${1#--mpi=}', --mpi=list for acceptable types" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def srun(tmp_path, monkeypatch):
    (tmp_path / "srun").write_text(SRUN)
    (tmp_path / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")


@pytest.mark.parametrize("kind", ["none", "pmi2", "pmix_v3"])
def test_a_type_that_loads_is_taken(kind):
    client.need_mpi(kind)  # a partition that there is not is for sbatch to name


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pmix", ["srun --mpi=pmix: ", "can not load PMIx library", "apt-get install libpmix-dev"]),
        ("pmi1", ["srun --mpi=pmi1: ", "Couldn't find the specified plugin"]),
    ],
)
def test_one_that_does_not_is_refused_with_the_cure_and_with_those_that_do(kind, words):
    with pytest.raises(InputError) as refusal:
        client.need_mpi(kind)
    said = str(refusal.value)
    assert all(word in said for word in words) and "\n" not in said and ("libpmix-dev" in said) == (kind == "pmix")
    assert "can be loaded: none, pmi2, pmix_v3 (" in said and "testbed.fabric=torch" in said
