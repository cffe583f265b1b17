#!/usr/bin/env bash
# Builds Horovod from its unmodified source on PyPI against the torch in .venv; returns at once where that is done.
#   HOROVOD_BUILD_LIMIT_S=900  seconds that the build may take
#   HOROVOD_BUILD_JOBS=8       compilers at once (default: as many as there are cores)
# Variables of Horovod's own build, for instance HOROVOD_GPU_OPERATIONS=NCCL, are passed on.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=setup/common.sh
source "$root/setup/common.sh"
# shellcheck source=setup/mpi.sh
source "$root/setup/mpi.sh"

log="$root/.setup/horovod.log"
horovod=horovod==0.28.1
limit=${HOROVOD_BUILD_LIMIT_S:-900}
python="$root/.venv/bin/python"
# the environment may have brought MPI's compiler or CMake
PATH="$root/.venv/bin:$PATH"

# True where Horovod loads, with MPI, was built against the very torch that is in use, and has the GPU operations that
# HOROVOD_GPU_OPERATIONS (NCCL or MPI; empty: any) asks for.
horovod_is_ready() {
    "$python" - 2> /dev/null << 'CODE'
import json, os, pathlib, torch, horovod.torch as hvd, horovod
built = json.loads(pathlib.Path(horovod.__file__).with_name("metadata.json").read_text())
gpus = {"": True, "NCCL": hvd.nccl_built(), "MPI": hvd.cuda_built()}
asked = os.environ.get("HOROVOD_GPU_OPERATIONS", "").upper()
raise SystemExit(not (hvd.mpi_built() and built["pytorch"] == torch.__version__ and gpus.get(asked, True)))
CODE
}

# Two ranks average a gradient; what goes wrong is in the log.
horovod_works() {
    local hello='
from mpi4py import MPI
import torch, horovod.torch as hvd
hvd.init(comm=MPI.COMM_WORLD)
mean = hvd.allreduce(torch.full((3,), float(hvd.rank())), op=hvd.Average)
assert hvd.size() == 2 and mean.tolist() == [0.5] * 3, mean
hvd.shutdown()
'
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
        PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
        timeout 120 "$(find_mpirun)" -n 2 "$python" -m mpi4py -c "$hello" < /dev/null >> "$log" 2>&1
}

# Prints the Debian packages of what the build lacks: compiler, make, CMake, headers of MPI and of Python.
lacking() {
    local include
    command -v g++ > /dev/null || echo g++
    command -v make > /dev/null || echo make
    command -v cmake > /dev/null || echo cmake
    # the wrapper alone comes with openmpi-bin
    mpicxx -E -x c++ - <<< '#include <mpi.h>' > /dev/null 2>&1 || echo libopenmpi-dev
    include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
    [[ -f $include/Python.h ]] || echo python3-dev
}

ensure_tools() {
    local packages
    mapfile -t packages < <(lacking)
    [[ ${#packages[@]} -gt 0 ]] || return 0
    if can_apt && apt_install "${packages[@]}" && [[ -z $(lacking) ]]; then return; fi
    mapfile -t packages < <(lacking)
    die "Horovod is built from source, and this is missing: ${packages[*]} (names of Debian and Ubuntu packages);" \
        "install them and run the same command again. Everything but strategy=horovod works without"
}

# The reason of a failed build, of the compiler or of CMake where there is one; pip's own comes last and says little.
show_reason() {
    if grep -qE '(^|[^a-z])(error|Error)( |:)' "$log"; then
        grep -E '(^|[^a-z])(error|Error)( |:)' "$log" | head -n 3 | cut -c1-300 | sed 's/^ */    /' >&2
    fi
    show_log
}

build() {
    local status=0
    say "building $horovod against torch $("$python" -c 'import torch; print(torch.__version__)')" \
        "(3 to 10 minutes, at most $limit s; log in $log)"
    # pip would keep a wheel by its version alone, whatever torch it was built against: --no-cache-dir
    CMAKE_TOOLCHAIN_FILE="$root/setup/horovod-cxx17.cmake" CMAKE_POLICY_VERSION_MINIMUM=3.5 \
        MAKEFLAGS="-j${HOROVOD_BUILD_JOBS:-$(nproc)}" HOROVOD_WITH_PYTORCH=1 HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 \
        HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
        timeout --kill-after=10 "$limit" "$python" -m pip --no-input --disable-pip-version-check install --no-deps \
        --force-reinstall --no-cache-dir --no-build-isolation --no-binary horovod "$horovod" \
        < /dev/null >> "$log" 2>&1 || status=$?
    if [[ $status == 124 || $status == 137 ]]; then
        die "Horovod was not built within $limit s: give it more with HOROVOD_BUILD_LIMIT_S=1800"
    elif [[ $status != 0 ]]; then
        show_reason
        die "Horovod could not be built: see above, or $log. Everything but strategy=horovod works without"
    fi
}

main() {
    cd "$root"
    [[ $limit =~ ^[1-9][0-9]*$ ]] || die "HOROVOD_BUILD_LIMIT_S is '$limit'; must be a whole number of seconds"
    [[ -x $python ]] || die "there is no .venv yet: make setup"
    if horovod_is_ready; then return; fi
    mkdir -p "$root/.setup"
    exec 9> "$root/.setup/lock"
    if command -v flock > /dev/null && ! flock -n 9; then
        say "another set-up of this folder is running; waiting for it"
        flock 9
        if horovod_is_ready; then return; fi
    fi
    local started=$SECONDS
    : > "$log"
    ensure_tools
    pip_quietly install setuptools wheel packaging cloudpickle psutil pyyaml cffi \
        || { show_log; die "pip could not install what Horovod needs: see above, or $log"; }
    build
    if ! horovod_is_ready || ! horovod_works; then
        show_log
        die "Horovod was built but does not work: see above, or $log"
    fi
    say "Horovod is ready after $((SECONDS - started)) s"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
