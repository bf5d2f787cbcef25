#!/bin/sh
# Installs the missing packages for building (`build`), testing (`test`), making packages (`packages`) or testing them
# (`product`) on Debian and related distributions; on others it prints the list.
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
    # A browser for page loads, network namespaces, and proxies for comparison.
    need chromium chromium
    need ip iproute2
    need unshare util-linux
    PATH="$PATH:/usr/sbin:/sbin" need squid squid
    need ziproxy ziproxy
    need nghttpx nghttp2-proxy
    # Networks that drop, limit or reset what passes through them.
    PATH="$PATH:/usr/sbin:/sbin" need nft nftables
    # Tests with clock jumps.
    need faketime faketime
    # Another VCDIFF implementation, for interoperation.
    need xdelta3 xdelta3
    # The databases in which browsers keep their certificate authorities.
    need certutil libnss3-tools
    # Commands that are killed in their midst.
    need strace strace
    # Programs that speak SOCKS, and their servers.
    PATH="$PATH:/usr/sbin:/sbin" need sshd openssh-server
    need ssh openssh-client
    need nc.openbsd netcat-openbsd
    need dig bind9-dnsutils
    PATH="$PATH:/usr/lib/dovecot" need imap dovecot-imapd
    need git git
    need curl curl
    # Checks of metrics and alerts.
    need promtool prometheus
    ;;
packages)
    need dpkg-shlibdeps dpkg-dev
    need objcopy binutils
    # Each is a command of cargo, compiled in some minutes the first time: they run for seconds, so little optimisation
    # is sooner done. The versions decide about the bytes of packages, the optimisation does not.
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    while read -r tool version features; do
        case $(cargo install --list) in
        *"$tool v$version"*) ;;
        *) cargo install --locked --features "$features" "$tool@$version" ;;
        esac
        # A crate whose program needs a feature is "installed" without a program, and no error.
        command -v "$tool" >/dev/null || { echo "$tool $version installed no program of this name" >&2; exit 1; }
    done <<TOOLS
cargo-deb 3.8.0
cargo-about 0.9.3 cli
cargo-cyclonedx 0.5.9
TOOLS
    ;;
grafana)
    need node nodejs
    need npm npm
    ;;
suites)
    need node nodejs
    need npm npm
    need go golang-go
    need openssl openssl
    PATH="$PATH:/usr/sbin:/sbin" need squid squid
    ;;
product)
    need mmdebstrap mmdebstrap
    need systemd-nspawn systemd-container
    need nsenter util-linux
    need openssl openssl
    need node nodejs
    need npm npm
    need umoci umoci
    PATH="$PATH:/usr/sbin:/sbin" need runc runc
    ;;
*)
    echo "usage: $0 build|test|packages|grafana|suites|product" >&2
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
# Tests start Squid, OpenSSH and Dovecot as programs; the packages must not start services on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
    trap '$as_root rm -f "$policy"' EXIT
fi
$as_root apt-get update -qq
# shellcheck disable=SC2086 # the list must be split
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
