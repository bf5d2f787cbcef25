#!/bin/sh
# Checks the agent's dashboard in Chromium with axe-core: tests/dashboard/run.sh [PROGRAMS [PICTURES]]. PROGRAMS is the folder
# of the built programs (default target/debug), PICTURES one for the screenshots. Needs Chromium, Node and npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
programs=$(realpath "${1:-$here/../../target/debug}")
pictures=${2:-$(mktemp -d)}
tools=${LONGHAUL_DASHBOARD_TOOLS:-$(mktemp -d)}
mkdir -p "$pictures" "$tools"
pictures=$(realpath "$pictures")
cp "$here/check.mjs" "$here/package.json" "$here/package-lock.json" "$tools"
[ -d "$tools/node_modules" ] || npm --prefix "$tools" ci --no-audit --no-fund
cd "$tools"
LONGHAUL_DASHBOARD_TEST=$here node check.mjs "$programs" "$pictures"
