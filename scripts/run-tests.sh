#!/bin/sh
# Builds and runs all test programs. The end-to-end tests, which mostly wait for links and browsers, run beside the others:
# one after the other, the programs leave a processor idle for half of the time. The output of a program is printed when it
# ends. Documentation tests are not run.
set -eu
cd "$(dirname "$0")/.."
. scripts/test-programs.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-tests-XXXXXX")
trap 'rm -rf "$work"' EXIT
# Background commands of a shell without job control ignore SIGINT, so the script ends them.
trap 'kill "$beside" 2>/dev/null; exit 130' INT TERM

# Runs programs one after the other: lines of suite, folder, path.
run_each() { # name for files
    while read -r suite folder path; do
        status=0
        # Cargo starts test programs in the folder of their crate. A test program must not read the list of programs.
        (cd "$folder" && exec "$path") </dev/null >"$work/$1.log" 2>&1 || status=$?
        # In one piece, so that the outputs of two programs do not mix.
        { echo "== $suite" && cat "$work/$1.log"; } >"$work/$1.out"
        cat "$work/$1.out"
        [ "$status" -eq 0 ] || echo "$suite (status $status)" >>"$work/failed"
    done
}

# Test programs that mostly wait.
is_beside='^tests/e2e:'
# Test programs that measure emulated links in real time. They run last, when the end-to-end tests have nearly ended.
measures='^tests/bench:|^tests/world:|^tests:calibration '

build_test_programs "$work/programs"
: >"$work/failed"
grep "$is_beside" "$work/programs" >"$work/beside"
grep -v "$is_beside" "$work/programs" | grep -Ev "$measures" >"$work/others"
grep -E "$measures" "$work/programs" >>"$work/others"
run_each beside <"$work/beside" &
beside=$!
run_each others <"$work/others"
wait "$beside"

if [ -s "$work/failed" ]; then
    echo "test programs that failed:" >&2
    cat "$work/failed" >&2
    exit 1
fi
