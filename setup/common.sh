# shellcheck shell=bash
# What the set-up scripts share; sourced, never run. Needs $root, the repository's folder.

root=${root:?}
log="$root/.setup/install.log"   # everything that pip and apt-get say

say() { printf 'setup: %s\n' "$*"; }

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 2
}

# The end of the log, for a step that failed.
show_log() { [[ ! -f $log ]] || tail -n 4 "$log" | cut -c1-300 | sed 's/^/    /' >&2; }

# pip of the project's environment; asks nothing, says nothing, keeps its words in the log.
pip() { "$root/.venv/bin/python" -m pip --no-input --disable-pip-version-check "$@" < /dev/null; }

pip_quietly() { pip "$@" >> "$log" 2>&1; }

# Prints how to become root without a password: an empty line for root, "sudo -n" for sudo; fails where there is no way.
root_prefix() {
    if [[ $(id -u) == 0 ]]; then
        echo
    elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
        echo "sudo -n"
    else
        return 1
    fi
}

can_apt() { command -v apt-get > /dev/null && root_prefix > /dev/null; }

# apt_install PACKAGE...: install Debian packages, after an apt-get update where the first try fails.
apt_install() {
    local prefix
    prefix=$(root_prefix) || return 1
    say "installing $* with apt-get"
    # shellcheck disable=SC2086  # the prefix is two words or none
    _apt() { $prefix env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@" < /dev/null >> "$log" 2>&1; }
    _apt install -y --no-install-recommends "$@" || { _apt update && _apt install -y --no-install-recommends "$@"; }
}
