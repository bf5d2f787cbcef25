# Part of the product test (run.sh): the doctor on the booted machine, with the kernel's packet filter.
# shellcheck shell=bash

# The kinds of the doctor's findings, in one line.
findings() {
    as_ann longhaul doctor --json >"$work/doctor.json" || true
    node -e 'const report = JSON.parse(require("fs").readFileSync(process.argv[1]));
        console.log(report.findings.map((finding) => finding.kind).join(" "))' "$work/doctor.json"
}

finds() { # kinds
    local found
    found=$(findings)
    [ "$found" = "$1" ] || { cat "$work/doctor.json" >&2; fail "the doctor finds \"$found\", not \"$1\""; }
}

filter() { # verdict of datagrams to the gateway
    inside nft -f - <<RULES
table inet product_test {
    chain input { type filter hook input priority 0; udp dport 4433 $1; }
}
RULES
}

# Waits until the agent's status has this trouble.
has_trouble() {
    # The command fails while the hop does not work.
    as_ann longhaul status --json >"$work/status.json" || true
    grep -q "\"kind\":\"$1\"" "$work/status.json"
}

has_no_session() {
    [ "$(metric longhaul_sessions_open)" = 0 ]
}

examine() {
    finds ""
    ok "the doctor finds nothing on a healthy machine"
    as_ann systemctl --user stop longhaul-agent
    finds "agent_not_running"
    # A half-open session would stay for three minutes.
    eventually 60 has_no_session || fail "the doctor leaves a session at the gateway"
    as_ann systemctl --user start longhaul-agent
    eventually 30 curl_page http || fail "no page after the doctor asked the gateway"
    ok "the doctor asks the gateway without an agent, and leaves no session"
    local verdict kind
    for pair in "drop silent" "reject port_closed"; do
        verdict=${pair% *} kind=${pair#* }
        filter "$verdict"
        as_ann systemctl --user restart longhaul-agent
        eventually 30 has_trouble "$kind" || fail "the agent does not report $kind"
        finds "$kind no_browser"
        as_ann systemctl --user stop longhaul-agent
        finds "agent_not_running $kind"
        inside nft delete table inet product_test
        as_ann systemctl --user start longhaul-agent
        eventually 30 curl_page http || fail "no page after the filter was removed"
        finds ""
    done
    ok "the doctor names silence and a closed port, with and without an agent"
}
