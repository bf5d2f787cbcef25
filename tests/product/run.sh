#!/bin/bash
# The product test: installs the packages on a fresh Debian that boots systemd in a container without network, and uses
# them as people do. Needs root. See docs/TESTING.md.
#
# usage: run.sh [PACKAGES]   the folder of the packages (target/packages/out)
#
# PRODUCT_BROWSERS=0 leaves out the browsers, which saves most of the time. PRODUCT_KEEP=1 keeps the machine's files.
# PRODUCT_KILL_STEP=1 kills `longhaul up`, `down` and `uninstall` at each of their steps instead of every 17th one.
set -euo pipefail
umask 022
here=$(realpath "$(dirname "$0")")
source_root=$(realpath "$here/../..")
packages=$(realpath "${1:-$source_root/target/packages/out}")
cache=$source_root/target/product-test
browsers=${PRODUCT_BROWSERS:-1}
export LC_ALL=C.UTF-8
# shellcheck source=tests/product/switching.sh
. "$here/switching.sh"
# shellcheck source=tests/product/shells.sh
. "$here/shells.sh"
# shellcheck source=tests/product/findings.sh
. "$here/findings.sh"
# shellcheck source=tests/product/upgrade.sh
. "$here/upgrade.sh"
# shellcheck source=tests/product/browsers.sh
. "$here/browsers.sh"
[ "$(id -u)" -eq 0 ] || { echo "the product test boots a container, which needs root: use sudo" >&2; exit 2; }
ls "$packages"/longhaul_*.deb "$packages"/longhaul-gateway_*.deb >/dev/null || { echo "no packages in $packages: run make packages" >&2; exit 2; }

mkdir -p "$cache"
work=$(mktemp -d "$cache/run-XXXXXX")
root=$work/root
name=longhaul-$(basename "$work")
machine_pid=""
passed=0
began=$SECONDS

# Ends the machine and removes its files, also after a failure or Ctrl-C.
clean() {
    status=$?
    trap - EXIT INT TERM
    if [ "$status" -ne 0 ]; then
        echo "FAILED after $passed checks; the gateway's log:" >&2
        [ -z "$machine_pid" ] || inside journalctl --no-pager -n 30 -u longhaul-gateway >&2 || true
        [ -z "$machine_pid" ] || inside journalctl --no-pager -n 15 _UID=1000 >&2 || true
    fi
    if [ -n "$machine_pid" ] && kill -0 "$machine_pid" 2>/dev/null; then
        # systemd-nspawn ends the machine at once on its third signal.
        kill "$machine_pid" 2>/dev/null || true
        for _ in $(seq 100); do
            kill -0 "$machine_pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$machine_pid" 2>/dev/null || true
        wait "$machine_pid" 2>/dev/null || true
    fi
    rmdir "/run/systemd/nspawn/propagate/$name" 2>/dev/null || true
    if [ "${PRODUCT_KEEP:-0}" = 1 ]; then
        echo "kept: $root" >&2
    else
        rm -rf --one-file-system "$work"
    fi
    if [ "$status" -eq 0 ]; then
        echo "$passed passed, 0 failed"
    else
        echo "$passed passed, 1 failed"
    fi
    exit "$status"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

ok() { # what was checked
    passed=$((passed + 1))
    printf 'ok %s (%ss)\n' "$*" "$((SECONDS - began))"
}

fail() {
    echo "not ok: $*" >&2
    exit 1
}

# Process 1 of the machine.
leader() {
    local pid=""
    # The list has no end of line.
    read -r pid _ <"/proc/$machine_pid/task/$machine_pid/children" || true
    [ -n "$pid" ] && echo "$pid"
}

# Runs a command in the machine as root.
inside() {
    nsenter --target "$(leader)" --mount --uts --ipc --net --pid --root --wdns=/ -- \
        env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
}

# Runs a command in the machine as the user ann.
as_ann() {
    inside runuser -u ann -- env HOME=/home/ann XDG_RUNTIME_DIR=/run/user/1000 \
        DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus sh -c 'cd && exec "$@"' sh "$@"
}

# Waits until a command succeeds in the machine.
eventually() { # seconds, command...
    local limit=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$limit" ] || return 1
        sleep 0.2
    done
}

boot() {
    systemd-nspawn --quiet --register=no --keep-unit --private-network --machine="$name" --hostname=laptop \
        --console=pipe -D "$root" -b </dev/null >>"$work/console" 2>&1 &
    machine_pid=$!
    eventually 20 leader || fail "the container does not start"
    eventually 120 booted || { tail -n 40 "$work/console" >&2; fail "the machine does not boot"; }
}

booted() {
    case $(inside systemctl is-system-running 2>/dev/null || true) in running | degraded) ;; *) return 1 ;; esac
}

halt() {
    inside systemctl poweroff --no-block || true
    wait "$machine_pid" || true
    machine_pid=""
}

# A Debian with systemd, and with browsers, as a tar file that later runs use again.
make_base() {
    local list=systemd-sysv,dbus,dbus-user-session,libpam-systemd,init-system-helpers,iproute2,procps,curl,openssl,ca-certificates,libnss3-tools,nodejs,man-db,strace,nftables,bash-completion,zsh,fish
    [ "$browsers" = 0 ] || list=$list,chromium,chromium-sandbox,firefox-esr,fonts-dejavu-core
    base=$cache/base-$(echo "$list bookworm" | sha256sum | cut -c 1-12).tar
    [ -e "$base" ] || {
        # A file of this run: two runs may begin together.
        mmdebstrap --quiet --format=tar --variant=minbase --include="$list" bookworm "$work/base.tar" && mv "$work/base.tar" "$base"
    }
}

prepare() {
    make_base
    mkdir "$root"
    tar -C "$root" -xf "$base"
    mkdir "$root/product-test"
    cp "$here"/*.mjs "$here/manifest.sh" "$here/package.json" "$here/package-lock.json" "$root/product-test/"
    cp "$packages"/longhaul_*.deb "$packages"/longhaul-gateway_*.deb "$root/product-test/"
    make_older_packages
    if [ "$browsers" != 0 ]; then
        (cd "$root/product-test" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
    fi
    # The website has a certificate of an authority that only the gateway knows.
    local tls=$root/product-test
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=Test -keyout "$tls/ca.key" \
        -out "$tls/ca.pem" 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=site.test -keyout "$tls/site.key" \
        -out "$tls/site.csr" 2>/dev/null
    # The top-level domain `bank` is one of the built-in exclusions.
    printf 'subjectAltName=DNS:site.test,DNS:product-test.bank\nextendedKeyUsage=serverAuth\n' >"$tls/extensions"
    openssl x509 -req -in "$tls/site.csr" -CA "$tls/ca.pem" -CAkey "$tls/ca.key" -CAcreateserial -days 30 \
        -extfile "$tls/extensions" -out "$tls/site.pem" 2>/dev/null
    make_expired_certificate
    cat >"$root/etc/systemd/system/website.service" <<UNIT
[Service]
ExecStart=/usr/bin/node /product-test/origin.mjs /product-test/site.key /product-test/site.pem /product-test/expired.pem
[Install]
WantedBy=multi-user.target
UNIT
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/var/lib/systemd/linger"
    ln -s /etc/systemd/system/website.service "$root/etc/systemd/system/multi-user.target.wants/"
    chroot "$root" useradd --uid 1000 --create-home --shell /bin/bash ann
    # Services of ann run without a login, as if ann were logged in.
    : >"$root/var/lib/systemd/linger/ann"
    echo 'nameserver 127.0.0.1' >"$root/etc/resolv.conf"
    # A first link profile: pictures are made smaller for it.
    mkdir -p "$root/home/ann/.config/longhaul"
    echo 'link = "umts-384"' >"$root/home/ann/.config/longhaul/agent.toml"
    chroot "$root" chown -R ann: /home/ann
}

manifest() {
    inside /product-test/manifest.sh
}

curl_page() { # scheme
    as_ann curl --silent --show-error --fail --max-time 20 --proxy http://127.0.0.1:3128 \
        --cacert /home/ann/.local/state/longhaul-agent/ca.pem "$1://site.test/" | grep -q 'The page has arrived'
}

metric() { # name with labels
    inside curl --silent --max-time 5 http://127.0.0.1:9433/metrics | awk -v name="$1" '$1 == name { print $2 }'
}

install_packages() { # folder of the packages in the machine
    inside env DEBIAN_FRONTEND=noninteractive dpkg -i $(cd "$root" && ls "$1"/*.deb | sed 's|^|/|') \
        >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; fail "the packages cannot be installed"; }
    inside systemctl is-active --quiet longhaul-gateway || fail "the gateway does not run after the installation"
    inside systemctl is-enabled --quiet longhaul-gateway || fail "the gateway is not enabled"
    ok "the packages are installed, and the gateway runs"
    local figure
    figure=$(inside systemd-analyze security --no-pager longhaul-gateway | sed -n 's/.*exposure level.*: \([0-9.]*\) .*/\1/p')
    awk -v figure="$figure" 'BEGIN { exit !(figure != "" && figure <= 1.5) }' || fail "systemd-analyze security says $figure"
    ok "systemd-analyze security says $figure"
}

# The operator lets the gateway find the website, and reads its metrics.
configure_gateway() {
    inside sh -c 'cat >>/etc/longhaul/gateway.toml' <<'TOML'

[fetch.resolve]
"site.test:80" = "127.0.0.1:8080"
"site.test:443" = "127.0.0.1:8443"
"expired.test:443" = "127.0.0.1:8444"
"product-test.bank:443" = "127.0.0.1:8443"
TOML
    inside sed -i -e 's|^\[fetch\]|[fetch]\nextra-ca = ["/product-test/ca.pem"]|' \
        -e '/^\[metrics\]/,/^\[/ s|^#listen = "off"|listen = "127.0.0.1:9433"|' /etc/longhaul/gateway.toml
    inside longhaul-gateway check-config >/dev/null 2>&1 || fail "the configuration is wrong"
    inside systemctl restart longhaul-gateway
    inside systemctl is-active --quiet longhaul-gateway || fail "the gateway does not run with the configuration"
    ok "the gateway runs with the operator's configuration"
}

switch_on() {
    local line
    line=$(inside longhaul-gateway invite laptop --replace --address 127.0.0.1:4433 | grep -o 'longhaul1:[^ ]*')
    inside systemctl is-active --quiet longhaul-gateway || fail "the gateway ended after the invite"
    ok "an invite is made beside the running gateway"
    as_ann longhaul up "$line" --yes --https all >"$work/up.log" || { cat "$work/up.log" >&2; fail "longhaul up failed"; }
    as_ann systemctl --user is-active --quiet longhaul-agent || fail "the agent does not run"
    [ ! -e "$root/home/ann/.config/systemd/user/longhaul-agent.service" ] || fail "up wrote a unit of its own"
    ok "longhaul up: the packaged service runs"
}

load_pages() { # when
    curl_page http || fail "no page over http"
    curl_page https || fail "no accelerated page over https"
    ok "pages over http and accelerated https $1"
}

load_pictures() {
    as_ann curl --silent --fail --max-time 20 --proxy http://127.0.0.1:3128 -H 'Accept: image/avif,image/webp,*/*' \
        -H 'Sec-Fetch-Dest: image' -H 'Sec-Fetch-Mode: no-cors' -o /dev/null http://site.test/picture.png || fail "no picture"
    local started failed
    started=$(metric longhaul_picture_workers_started_total)
    failed=$(metric longhaul_picture_workers_failed_starts_total)
    [ "${started:-0}" -ge 1 ] && [ "${failed:-1}" -eq 0 ] ||
        fail "picture workers: ${started:-?} started, ${failed:-?} could not"
    [ "$(metric 'longhaul_pictures_total{result="smaller"}')" -ge 1 ] || fail "no picture was made smaller"
    ok "picture workers run within the service's sandbox"
}

restart_machine() {
    halt
    boot
    eventually 30 as_ann systemctl --user is-active --quiet longhaul-agent || fail "the agent does not run after the boot"
    eventually 30 curl_page http || fail "no page after the boot"
}

main_process() {
    inside systemctl show -p MainPID --value longhaul-gateway
}

# `systemctl reload` applies a new name without another process.
reload_gateway() {
    local before
    before=$(main_process)
    echo '"two.test:80" = "127.0.0.1:8080"' >>"$root/etc/longhaul/gateway.toml"
    inside systemctl reload longhaul-gateway || fail "the gateway does not reload"
    eventually 20 as_ann curl --silent --fail --max-time 5 --proxy http://127.0.0.1:3128 -o /dev/null http://two.test/ ||
        fail "the reload did not apply a new name"
    [ "$before" = "$(main_process)" ] || fail "the gateway was restarted by a reload"
    ok "systemctl reload applies the configuration without another process"
}

is_another_process() { # than
    [ "$(main_process)" != "$1" ] && inside systemctl is-active --quiet longhaul-gateway
}

# A gateway that hangs is started again.
watch_gateway() {
    local before drop_in=/run/systemd/system/longhaul-gateway.service.d
    inside mkdir -p "$drop_in"
    inside sh -c "printf '[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n' >$drop_in/watchdog.conf"
    inside systemctl daemon-reload
    inside systemctl restart longhaul-gateway
    before=$(main_process)
    inside kill -STOP "$before"
    eventually 60 is_another_process "$before" || fail "the watchdog does not start a gateway that hangs again"
    eventually 30 curl_page http || fail "no page after the watchdog"
    inside rm -r "$drop_in"
    inside systemctl daemon-reload
    ok "the watchdog starts a gateway that hangs again, and agents connect to it"
}

switch_off() {
    as_ann longhaul uninstall --yes >"$work/uninstall.log" || { cat "$work/uninstall.log" >&2; fail "longhaul uninstall failed"; }
    ok "longhaul uninstall"
}

purge() {
    inside env DEBIAN_FRONTEND=noninteractive dpkg --remove longhaul longhaul-gateway >"$work/remove.log" 2>&1 ||
        { cat "$work/remove.log" >&2; fail "the packages cannot be removed"; }
    inside test -e /var/lib/longhaul-gateway/gateway.key || fail "removing without purging lost the keys"
    ok "removing the packages keeps the gateway's keys"
    inside env DEBIAN_FRONTEND=noninteractive dpkg --purge longhaul longhaul-gateway >"$work/purge.log" 2>&1 ||
        { cat "$work/purge.log" >&2; fail "the packages cannot be purged"; }
    inside systemctl daemon-reload
    ok "the packages are purged"
}

compare() { # what
    manifest >"$work/after"
    diff -u "$work/before" "$work/after" >"$work/difference" || { cat "$work/difference" >&2; fail "files differ from those before the installation"; }
    ok "$1: $(wc -l <"$work/before") lines of files and accounts are as before the installation"
}

run_image() {
    local image
    image=$(ls "$packages"/longhaul-gateway_*.oci.tar 2>/dev/null) || { echo "SKIPPED: no OCI image in $packages"; return; }
    "$here/image.sh" "$image" || fail "the OCI image does not run"
    ok "the OCI image runs without root and makes an invite"
}

main() {
    run_image
    prepare
    boot
    ok "a fresh Debian boots"
    if [ "$browsers" = 0 ]; then make_small_profiles; else make_profiles; fi
    make_foreign_policies
    manifest >"$work/before"
    install_packages product-test/older
    configure_gateway
    switch_on
    load_pages "after the installation"
    upgrade
    load_pictures
    reload_gateway
    watch_gateway
    examine
    use_completions
    restart_machine
    load_pages "after a boot"
    switch_off
    kill_switching
    purge
    compare "everything is undone"
    if [ "$browsers" != 0 ]; then
        install_packages product-test
        configure_gateway
        switch_on
        load_in_browsers "after longhaul up"
        load_excluded_page
        load_expired_page
        spoil_nothing
        switch_off
        use_old_layout
        switch_on
        check_old_layout
        load_in_browsers "with the database of the old layout"
        switch_off
        is_as_before_in_databases
        switch_on_for_all
        load_in_browsers "by policies of all users" policy
        switch_off_for_all
        purge
    fi
}

main
