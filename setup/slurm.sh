#!/usr/bin/env bash
# A Slurm for the tests of `repro submit`, with PMIx for `srun --mpi=pmix`, where apt-get may be used and there is none;
# elsewhere it changes nothing, and those tests are skipped with the reason. No service is needed: the tests start theirs
# as plain processes.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=setup/common.sh
source "$root/setup/common.sh"

slurm_missing() {
    local program
    for program in munged slurmctld slurmd sbatch srun; do
        PATH=$PATH:/usr/sbin command -v "$program" > /dev/null || return 0
    done
    return 1
}

# Debian's Slurm loads PMIx as libpmix.so, a name that only the development package has. A site's own Slurm is its own.
pmix_missing() {
    ! compgen -G "/usr/lib/*/pmix2/lib/libpmix.so" > /dev/null \
        && { slurm_missing || compgen -G "/usr/lib/*/slurm-wlm/mpi_pmix.so" > /dev/null; }
}

ensure_slurm() {
    local packages=()
    if slurm_missing; then packages+=(slurm-wlm munge); fi
    if pmix_missing; then packages+=(libpmix-dev); fi
    [[ ${#packages[@]} -gt 0 ]] || return 0
    can_apt && mkdir -p "$root/.setup" && apt_install "${packages[@]}" || return 0
    slurm_missing || say "Slurm for the tests: $(sbatch --version 2> /dev/null || echo installed)"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then ensure_slurm; fi
