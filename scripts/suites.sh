#!/bin/sh
# Public and own suites against the built programs: scripts/suites.sh [PROGRAMS [SUITE…]]. PROGRAMS is the folder of the built
# programs (default target/debug). Without a SUITE, all run: `http2` (h2spec), `websockets`, `cache` (the public tests of
# HTTP caches). Each prints a table of numbers. What they need is installed in fixed versions in LONGHAUL_SUITES_TOOLS
# (default: a temporary folder), by Go and npm; everything listens on free ports of this machine.
set -eu
cd "$(dirname "$0")/.."
here=$PWD
programs=$(realpath "${1:-target/debug}")
[ $# -eq 0 ] || shift
if [ -n "${LONGHAUL_SUITES_TOOLS:-}" ]; then
    tools=$LONGHAUL_SUITES_TOOLS
    mkdir -p "$tools"
else
    tools=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-suites-XXXXXX")
    trap 'chmod -R u+w "$tools"; rm -rf "$tools"' EXIT
fi
tools=$(realpath "$tools")
cp "$here"/tests/suites/*.mjs "$here"/tests/suites/package.json "$here"/tests/suites/package-lock.json "$tools"

CACHE_TESTS_VERSION=0.4.5
CACHE_TESTS_HASH=bde099a69b357a8779a797573906ff2b4c1912c394d1908dc4fbe78ac79de1fb

status=0
for suite in ${*:-http2 websockets cache}; do
    case $suite in
    http2)
        # The module proxy has no later version: its tags of version 2 do not follow the rules of Go modules.
        (cd "$here/tests/suites/h2control" && go build -mod=readonly -o "$tools/" . github.com/summerwind/h2spec/cmd/h2spec)
        (cd "$tools" && node http2.mjs "$programs" "$tools") || status=1
        ;;
    websockets)
        [ -d "$tools/node_modules/ws" ] || npm --prefix "$tools" ci --ignore-scripts --no-audit --no-fund >/dev/null
        (cd "$tools" && node websockets.mjs "$programs") || status=1
        ;;
    cache)
        # Only its files: what it depends on is for its own command line.
        if [ ! -d "$tools/cache-tests" ]; then
            archive=$(npm pack --silent --pack-destination "$tools" "http-cache-tests@$CACHE_TESTS_VERSION")
            echo "$CACHE_TESTS_HASH  $tools/$archive" | sha256sum --check --quiet
            tar -xzf "$tools/$archive" -C "$tools"
            mv "$tools/package" "$tools/cache-tests"
        fi
        (cd "$tools" && CACHE_TESTS="${CACHE_TESTS:-$tools/cache-tests}" node cache_tests.mjs "$programs") || status=1
        ;;
    *)
        echo "no suite $suite: http2, websockets or cache" >&2
        exit 2
        ;;
    esac
done
exit "$status"
