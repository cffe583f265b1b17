# shellcheck shell=bash
# `ip` and `tc` for shaped networks, where apt-get may be used; elsewhere nothing is said: only testbed=shaped/... needs
# them, and says so itself.

ensure_shaped() {
    local found=$PATH:/usr/sbin:/sbin
    if ! { PATH=$found command -v ip && PATH=$found command -v tc; } > /dev/null 2>&1 && can_apt; then
        apt_install iproute2 || true
    fi
}
