#!/usr/bin/env bash
# A Slurm for the tests of `repro submit`, where apt-get may be used and there is none; elsewhere it changes nothing, and
# those tests are skipped with the reason. No service is needed: the tests start theirs as plain processes.
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

ensure_slurm() {
    slurm_missing || return 0
    can_apt && mkdir -p "$root/.setup" && apt_install slurm-wlm munge || return 0
    slurm_missing || say "Slurm for the tests: $(sbatch --version 2> /dev/null || echo installed)"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then ensure_slurm; fi
