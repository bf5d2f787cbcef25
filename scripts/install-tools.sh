#!/bin/sh
# Installs what building (`build`) or testing (`test`) needs and is missing. Knows Debian and its relatives; elsewhere it says what to install.
set -eu

missing=""
need() { # command, package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

case "${1:-}" in
build)
    need cc gcc
    need cargo rustup
    ;;
test)
    # A browser to drive, network namespaces, and a proxy to compare with.
    need chromium chromium
    need ip iproute2
    need unshare util-linux
    PATH="$PATH:/usr/sbin:/sbin" need squid squid
    # Clocks that jump.
    need faketime faketime
    # The other side of VCDIFF.
    need xdelta3 xdelta3
    ;;
*)
    echo "usage: $0 build|test" >&2
    exit 2
    ;;
esac

[ -n "$missing" ] || exit 0

case "$missing" in
*rustup*)
    echo "The Rust toolchain is missing: install rustup, then run this again." >&2
    exit 1
    ;;
esac

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Please install:$missing" >&2
    exit 1
fi
as_root=""
[ "$(id -u)" -eq 0 ] || as_root="sudo"
echo "Installing:$missing" >&2
# Squid is wanted as a program to start in a test, not as a service on this machine's port 3128.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
    trap '$as_root rm -f "$policy"' EXIT
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # the list is meant to be split
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
