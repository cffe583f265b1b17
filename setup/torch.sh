# shellcheck shell=bash disable=SC2154  # root and log come from common.sh, lock from environment.sh
# Which build of torch: CUDA only where an NVIDIA driver works, else the CPU's, which is a tenth of the size.

torch_cpu_index=https://download.pytorch.org/whl/cpu

gpu_works() { command -v nvidia-smi > /dev/null && timeout 30 nvidia-smi -L 2> /dev/null | grep -q '^GPU'; }

torch_plan() { "$root/.venv/bin/python" "$root/setup/torch_plan.py" "$@"; }

install_torch() {
    local build=${REPRO_TORCH:-} requirement planned kind gigabytes
    case $build in
        cpu | cuda) ;;
        '') if gpu_works; then build=cuda; else build=cpu; fi ;;
        *) die "REPRO_TORCH is '$build'; valid: cpu, cuda" ;;
    esac
    requirement=$(torch_plan requirement ${lock:+"$lock"})
    if torch_plan installed "$requirement"; then return; fi

    if [[ $build == cpu ]] && torch_plan reachable "$torch_cpu_index/torch/"; then
        say "installing torch, CPU build, from PyTorch's CPU index (about 200 MB)"
        # Its own dependencies come with the project's.
        if pip_quietly install --no-deps --index-url "$torch_cpu_index" "$requirement"; then return; fi
        say "that did not work (see $log); looking elsewhere"
    fi

    planned=$(torch_plan plan "$requirement" 2>> "$log") || no_index
    read -r kind gigabytes <<< "$planned"
    if [[ $kind == cuda && $build == cpu ]]; then
        say "PyTorch's CPU wheels cannot be had from here, and no NVIDIA GPU was found: pip now takes the CUDA build," \
            "$gigabytes GB to download. It works on CPUs too. To avoid it, stop here, install a CPU build of" \
            "'$requirement' into .venv, and run the same command again."
    elif [[ $kind == cuda ]]; then
        say "installing torch, CUDA build, $gigabytes GB to download"
    else
        say "installing torch, as pip finds it ($kind build, $gigabytes GB)"
    fi
    # Gigabytes are worth a progress bar, where somebody is looking.
    if [[ $kind == cuda && -t 1 ]]; then
        pip install --log "$log" "$requirement" || die "pip could not install torch: see above, or $log"
    else
        pip_quietly install "$requirement" || { show_log; die "pip could not install torch: see above, or $log"; }
    fi
}
