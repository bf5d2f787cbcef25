# Parts of the product test (run.sh): `longhaul up`, `down` and `uninstall` are undone exactly, also if they are killed,
# and changes for all users respect policies of others.
# shellcheck shell=bash

# System calls by which the command changes files or starts another program. It is killed as it enters one of them.
KILLING_CALLS="rename unlink mkdir rmdir fsync clone,clone3,vfork"
# Every so many calls of a kind the command is killed; 1 for all, which takes most of an hour.
KILL_STEP=${PRODUCT_KILL_STEP:-17}

# Browsers' folders without the browsers, for runs that leave them out.
make_small_profiles() {
    as_ann sh -c '
        mkdir -p .mozilla/firefox/test.default .mozilla/firefox/test.second .config/chromium .local/share/pki/nssdb
        printf "[Profile1]\nName=second\nIsRelative=1\nPath=test.second\n\n[Profile0]\nName=test\nIsRelative=1\nPath=test.default\nDefault=1\n" >.mozilla/firefox/profiles.ini
        echo "user_pref(\"browser.startup.page\", 0);" >.mozilla/firefox/test.default/user.js
        for database in .mozilla/firefox/test.default .mozilla/firefox/test.second .local/share/pki/nssdb; do
            certutil -N -d "sql:$database" --empty-password
        done'
}

# Files of ann with owners, modes and contents, her services, and the certificates of her databases.
look_at_ann() {
    inside sh -c '
        cd /home/ann
        find . -path ./.cache -prune -o -printf "%p %y %m %u:%g %l\n" | sort
        find . -path ./.cache -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
        find /etc/chromium /etc/firefox /etc/systemd/user -printf "%p %y %m %u:%g %l\n" 2>/dev/null | sort'
    as_ann systemctl --user is-enabled longhaul-agent 2>&1 || true
    as_ann systemctl --user is-active longhaul-agent 2>&1 || true
}

is_as_before() { # what
    look_at_ann >"$work/ann-after"
    diff -u "$work/ann-before" "$work/ann-after" >"$work/ann-difference" || {
        cat "$work/ann-difference" >&2
        fail "$1: ann's files differ from those before"
    }
}

# Runs a command of ann and kills it at the Nth system call of a kind. False if it ended by itself.
killed_at() { # call, number, command...
    local call=$1 number=$2 status=0
    shift 2
    as_ann strace -qq -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$number" "$@" \
        >"$work/killed.log" 2>&1 || status=$?
    case $status in
    0) return 1 ;;
    137) ;;
    *)
        cat "$work/killed.log" >&2
        fail "$* ends with status $status although it should be killed at call $number of $call"
        ;;
    esac
}

# Kills `up`, `down` and `uninstall` at their steps. After each death, `uninstall` leaves everything as it was.
kill_switching() {
    local line call number command deaths=0
    line=$(inside longhaul-gateway invite mortal --replace --address 127.0.0.1:4433 | grep -o 'longhaul1:[^ ]*')
    look_at_ann >"$work/ann-before"
    for command in up down uninstall; do
        for call in $KILLING_CALLS; do
            number=1
            while :; do
                if [ "$command" = up ]; then
                    killed_at "$call" "$number" longhaul up "$line" --yes --https all || break
                    # Every second time `up` itself goes on where it was killed.
                    if [ $((deaths % 2)) -eq 0 ]; then
                        as_ann longhaul up "$line" --yes --https all >"$work/up.log" ||
                            { cat "$work/up.log" >&2; fail "longhaul up does not go on after a death at call $number of $call"; }
                        as_ann systemctl --user is-active --quiet longhaul-agent || fail "no agent after a death of up"
                    fi
                else
                    as_ann longhaul up "$line" --yes --https all >"$work/up.log" || fail "longhaul up failed"
                    killed_at "$call" "$number" longhaul "$command" --yes || break
                fi
                deaths=$((deaths + 1))
                as_ann longhaul uninstall --yes >"$work/uninstall.log" ||
                    { cat "$work/uninstall.log" >&2; fail "longhaul uninstall fails after a death of $command"; }
                is_as_before "$command, killed at call $number of $call"
                number=$((number + KILL_STEP))
            done
            as_ann longhaul uninstall --yes >"$work/uninstall.log" || fail "longhaul uninstall failed"
            is_as_before "$command to its end"
        done
    done
    [ "$deaths" -ge 20 ] || fail "the commands were killed only $deaths times"
    inside longhaul-gateway device revoke mortal >/dev/null
    ok "up, down and uninstall were killed $deaths times; afterwards uninstall left ann's files as before"
}

# Policies of an administrator, which stay.
make_foreign_policies() {
    inside sh -c '
        mkdir -p /etc/firefox/policies /etc/chromium/policies/managed
        printf "{\n  \"policies\": {\"DisableTelemetry\": true, \"Proxy\": {\"Mode\": \"system\", \"Locked\": false}}\n}\n" \
            >/etc/firefox/policies/policies.json
        echo "{\"BookmarkBarEnabled\": false}" >/etc/chromium/policies/managed/company.json'
}

# Root sets up all users' browsers for an agent that serves ann, and undoes it.
switch_on_for_all() {
    local line
    inside sh -c 'cd /etc && find firefox chromium -type f | sort | xargs sha256sum' >"$work/policies-before"
    line=$(inside longhaul-gateway invite everybody --replace --address 127.0.0.1:4433 | grep -o 'longhaul1:[^ ]*')
    inside longhaul up "$line" --all-users --yes --https all >"$work/up.log" || { cat "$work/up.log" >&2; fail "longhaul up --all-users failed"; }
    inside systemd-run --quiet --unit=everybody --setenv=HOME=/root --setenv=LONGHAUL_LISTEN_USERS=ann longhaul-agent run ||
        fail "the agent of all users does not start"
    eventually 30 as_ann curl --silent --fail --max-time 10 --proxy http://127.0.0.1:3128 -o /dev/null http://site.test/ ||
        fail "the agent of all users does not serve ann"
    inside grep -q DisableTelemetry /etc/firefox/policies/policies.json || fail "a foreign policy is lost"
    inside grep -q autoConfig /etc/firefox/policies/policies.json || fail "Firefox has no policy for its proxy"
    inside test -e /etc/chromium/policies/managed/longhaul.json || fail "Chromium has no policy"
    inside test -e /etc/chromium/policies/managed/company.json || fail "a foreign policy of Chromium is lost"
    ok "longhaul up --all-users merges its policies with foreign ones"
}

switch_off_for_all() {
    inside systemctl stop everybody
    inside longhaul uninstall --yes >"$work/uninstall.log" || { cat "$work/uninstall.log" >&2; fail "longhaul uninstall of root failed"; }
    inside sh -c 'cd /etc && find firefox chromium -type f | sort | xargs sha256sum' >"$work/policies-after"
    diff -u "$work/policies-before" "$work/policies-after" >&2 || fail "policies of others are not as before"
    ! inside sh -c 'find /home/ann/.mozilla -name cert9.db -printf "%h\n" | while read -r profile; do
        certutil -L -d "sql:$profile"; done' | grep -q Longhaul || fail "a Firefox profile trusts the authority"
    ok "policies of others are restored exactly, and no profile trusts the authority"
}

# The layout of older Chromium: it uses ~/.pki/nssdb if that exists.
use_old_layout() {
    as_ann sh -c 'mkdir -p .pki/nssdb && certutil -N -d sql:.pki/nssdb --empty-password'
    look_at_ann >"$work/ann-before"
}

check_old_layout() {
    as_ann certutil -L -d sql:.pki/nssdb | grep -q Longhaul || fail "the database of the old layout lacks the authority"
    ! as_ann certutil -L -d sql:.local/share/pki/nssdb 2>/dev/null | grep -q Longhaul ||
        fail "the database that Chromium does not use has the authority"
    ok "the database ~/.pki/nssdb is used if it exists"
}
