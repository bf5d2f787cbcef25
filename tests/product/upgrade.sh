# Part of the product test (run.sh): an upgrade from an earlier version.
# shellcheck shell=bash

# The packages as an earlier version had them: another version number and another default configuration. The programs are
# the same.
make_older_packages() {
    local package folder=$work/older
    mkdir "$root/product-test/older"
    for package in "$packages"/longhaul_*.deb "$packages"/longhaul-gateway_*.deb; do
        rm -rf "$folder"
        dpkg-deb --raw-extract "$package" "$folder"
        sed -i 's/^Version: .*/Version: 0.1.9-1/' "$folder/DEBIAN/control"
        if [ -e "$folder/etc/longhaul/gateway.toml" ]; then
            sed -i '1i # Configuration of an earlier version.' "$folder/etc/longhaul/gateway.toml"
            (cd "$folder" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
        fi
        dpkg-deb --root-owner-group -Znone --build "$folder" "$root/product-test/older/" >/dev/null
    done
    rm -rf "$folder"
}

# What an upgrade keeps: keys (but that of the tokens' epoch, which changes at each start), devices, the operator's configuration, the invite, the journal of `longhaul up`, and what it
# changed.
kept_files() {
    inside sh -c 'cd / && sha256sum var/lib/longhaul-gateway/gateway.key var/lib/longhaul-gateway/reset.key var/lib/longhaul-gateway/devices.toml etc/longhaul/gateway.toml
        cd /home/ann && sha256sum .local/state/longhaul-agent/invite .local/state/longhaul-agent/ca.pem \
            .local/state/longhaul-agent/ca.key .local/state/longhaul-agent/changes.json .config/longhaul/agent.toml
        find .mozilla -name user.js -exec sha256sum {} +
        for database in .local/share/pki/nssdb .mozilla/firefox/test.default .mozilla/firefox/test.second; do
            [ ! -e "$database/cert9.db" ] || certutil -L -d "sql:$database"
        done'
}

# An operator and ann upgrade from an earlier version, with programs that run.
upgrade() {
    local before after agent_before agent_after
    [ "$(inside dpkg-query -W -f '${Version}' longhaul)" = 0.1.9-1 ] || fail "the earlier version is not installed"
    before=$(main_process)
    agent_before=$(as_ann systemctl --user show -p MainPID --value longhaul-agent)
    kept_files >"$work/kept-before"
    # The operator keeps the changed configuration, as dpkg proposes.
    inside env DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i $(cd "$root" && ls product-test/*.deb | sed 's|^|/|') \
        >"$work/upgrade.log" 2>&1 || { cat "$work/upgrade.log" >&2; fail "the upgrade failed"; }
    [ "$(inside dpkg-query -W -f '${Version}' longhaul)" != 0.1.9-1 ] || fail "the new version is not installed"
    inside test -e /etc/longhaul/gateway.toml.dpkg-dist || fail "the new default configuration is not beside the operator's"
    inside rm /etc/longhaul/gateway.toml.dpkg-dist
    after=$(main_process)
    agent_after=$(as_ann systemctl --user show -p MainPID --value longhaul-agent)
    [ "$before" != "$after" ] && [ "$after" != 0 ] || fail "the gateway was not restarted"
    [ "$agent_before" != "$agent_after" ] && [ "$agent_after" != 0 ] || fail "ann's agent was not restarted"
    as_ann systemctl --user is-enabled --quiet longhaul-agent || fail "ann's agent is not enabled"
    kept_files >"$work/kept-after"
    diff -u "$work/kept-before" "$work/kept-after" >&2 || fail "the upgrade changed files that it has to keep"
    eventually 30 curl_page https || fail "no page after the upgrade"
    ok "an upgrade restarts gateway and agent, and keeps keys, devices, configuration, invite and browsers' settings"
}
