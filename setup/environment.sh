#!/usr/bin/env bash
# Creates .venv with everything that the project needs, and an MPI; returns at once if that is done. Asks no questions.
#   PYTHON=...            the Python to use (default: python3, if it is 3.11 or newer)
#   REPRO_TORCH=cpu|cuda  the build of torch (default: cuda if nvidia-smi sees a GPU)
#   LOCKED=1              exactly the versions of requirements.lock
# A finished set-up leaves .venv/.stamp-<hash of pyproject.toml, and of the lock>; without that stamp it is gone through
# again, and what an interrupted one left is checked, not trusted.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# The environment is not made with itself, even where it is activated or make put it on PATH.
path=":$PATH:"
path=${path//":$root/.venv/bin:"/:}
path=${path#:}
PATH=${path%:}

# shellcheck source=setup/common.sh
source "$root/setup/common.sh"
# shellcheck source=setup/torch.sh
source "$root/setup/torch.sh"
# shellcheck source=setup/mpi.sh
source "$root/setup/mpi.sh"

# `ip` and `tc` for shaped networks, where apt-get may be used; elsewhere nothing is said: only testbed=shaped/... needs
# them, and says so itself.

ensure_shaped() {
    local found=$PATH:/usr/sbin:/sbin
    if ! { PATH=$found command -v ip && PATH=$found command -v tc; } > /dev/null 2>&1 && can_apt; then
        apt_install iproute2 || true
    fi
}

case ${LOCKED:-} in
    '') lock= ;;
    1) lock="$root/requirements.lock" ;;
    *) die "LOCKED is '$LOCKED'; valid: 1" ;;
esac

# stamp [LOCK]: the file that says that the environment is that of pyproject.toml, and of the lock where one is given.
stamp() { echo "$root/.venv/.stamp-$(cat "$root/pyproject.toml" "$@" | sha256sum | cut -c1-16)"; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; }

# Prints the Python to build the environment with.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if command -v "$candidate" > /dev/null && new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    candidate=$("${PYTHON:-python3}" -V 2>&1) || candidate="no ${PYTHON:-python3}"
    die "Python 3.11 or newer is needed, found $candidate: apt-get install python3.11 python3.11-venv," \
        "or give one as PYTHON=/path/to/python3.12"
}

# True for an environment that was made here (not moved or copied) and whose Python still runs.
venv_is_ours() {
    head -n 3 "$root/.venv/bin/pip" 2> /dev/null | grep -qF "$root/.venv/" && new_enough "$root/.venv/bin/python"
}

# True where pip works and pip's own record of what is installed can be trusted, or was set right.
venv_is_sound() {
    venv_is_ours && pip --version > /dev/null 2>&1 && "$root/.venv/bin/python" "$root/setup/check_install.py" --forget
}

make_venv() {
    local python version
    python=$(find_python)
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if ! "$python" -c 'import venv, ensurepip' 2> /dev/null; then
        if ! can_apt || ! apt_install "python$version-venv"; then
            die "Python's venv module is missing: apt-get install python$version-venv (or python3-venv)"
        fi
    fi
    say "making .venv with $python ($version)"
    rm -rf "$root/.venv"
    "$python" -m venv "$root/.venv" >> "$log" 2>&1 || { show_log; die "could not make $root/.venv"; }
}

# pip before 23.3 downloads whole wheels to look at them.
new_enough_pip() {
    "$root/.venv/bin/python" -c 'import pip, sys; sys.exit([int(n) for n in pip.__version__.split(".")[:2]] < [23, 3])'
}

no_index() {
    show_log
    die "pip reaches no package index, or none with a build for this Python: see above, or $log;" \
        "with a network or a mirror, run the same command again"
}

install_packages() {
    if ! new_enough_pip; then
        pip_quietly install --upgrade 'pip>=23.3' || no_index
    fi
    install_torch
    say "installing the project and its dependencies (about 1 GB, 1 to 3 minutes)"
    pip_quietly install ${lock:+-c "$lock"} -e "${root}[dev]" || { show_log; die "pip could not install the dependencies: see above, or $log"; }
    "$root/.venv/bin/python" "$root/setup/check_install.py" \
        || die "the environment could not be made whole: remove .venv and run the same command again"
}

is_ready() { [[ -f $(stamp ${lock:+"$lock"}) ]] && venv_is_ours && [[ -n $(find_mpirun) ]]; }

main() {
    cd "$root"
    if is_ready; then return; fi
    if ! { mkdir -p "$root/.setup" && touch "$root/.setup/lock" "$log"; } 2> /dev/null; then
        die "$root cannot be written: the environment is made there, in .venv"
    fi
    exec 9> "$root/.setup/lock"
    if command -v flock > /dev/null && ! flock -n 9; then
        say "another set-up of this folder is running; waiting for it"
        flock 9
    fi
    if is_ready; then return; fi
    local started=$SECONDS
    : > "$log"
    venv_is_sound || make_venv
    rm -f "$root"/.venv/.stamp-*
    install_packages
    ensure_mpi
    ensure_shaped
    touch "$(stamp)" "$(stamp ${lock:+"$lock"})"  # the versions of the lock are among those that the project admits
    say "ready after $((SECONDS - started)) s"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
