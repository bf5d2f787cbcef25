#!/bin/sh
# Checks the agent's dashboard and the gateway's admin page in Chromium with axe-core: tests/dashboard/run.sh [PROGRAMS
# [PICTURES]]. PROGRAMS is the folder of the built programs (default target/debug), PICTURES one for the screenshots.
# LONGHAUL_DASHBOARD_CHECKS="admin" checks only the admin page, "check" only the dashboard. Needs Chromium, Node and npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
programs=$(realpath "${1:-$here/../../target/debug}")
pictures=${2:-$(mktemp -d)}
tools=${LONGHAUL_DASHBOARD_TOOLS:-$(mktemp -d)}
mkdir -p "$pictures" "$tools"
pictures=$(realpath "$pictures")
cp "$here/check.mjs" "$here/admin.mjs" "$here/package.json" "$here/package-lock.json" "$tools"
[ -d "$tools/node_modules" ] || npm --prefix "$tools" ci --no-audit --no-fund
cd "$tools"
for check in ${LONGHAUL_DASHBOARD_CHECKS:-check admin}; do
    LONGHAUL_DASHBOARD_TEST=$here node "$check.mjs" "$programs" "$pictures"
done
