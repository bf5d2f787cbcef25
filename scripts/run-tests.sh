#!/bin/sh
# Builds and runs all test programs, and beside them the command of the arguments. The end-to-end tests, which mostly wait
# for links and browsers, run beside the others: one after the other, the programs leave a processor idle for half of the
# time. The output of a program is printed when it ends. Documentation tests are not run.
set -eu
cd "$(dirname "$0")/.."
. scripts/test-programs.sh

work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-tests-XXXXXX")
beside="" program="" command=""
trap 'rm -rf "$work"' EXIT
# Background commands of a shell without job control ignore SIGINT.
# shellcheck disable=SC2086 # empty ones are no arguments
trap 'kill $program $beside $command 2>/dev/null || true; exit 130' INT TERM

# Runs programs one after the other: lines of suite, folder, path.
run_each() { # name for files
    while read -r suite folder path; do
        status=0
        # Cargo starts test programs in the folder of their crate. A test program must not read the list of programs.
        (cd "$folder" && exec "$path") </dev/null >"$work/$1.log" 2>&1 &
        program=$!
        wait "$program" || status=$?
        # In one piece, so that the outputs of two programs do not mix.
        { echo "== $suite" && cat "$work/$1.log"; } >"$work/$1.out"
        cat "$work/$1.out"
        [ "$status" -eq 0 ] || {
            echo "$suite (status $status)" >>"$work/failed"
            { echo "== $suite" && sed -n '/^failures:$/,/^test result/p' "$work/$1.log" | head -n 200; } >>"$work/$1.messages"
        }
    done
}

# The same in the background: the running program ends with it.
run_each_beside() { # name for files
    # shellcheck disable=SC2086 # an empty one is no argument
    trap 'kill $program 2>/dev/null || true; exit 143' TERM
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$(($(nproc) * 3 / 2))}"
    run_each "$1"
}

# Test programs that mostly wait: of their tests more run at once than there are processors.
is_beside='^tests/e2e:|^tests/differential:'
# Test programs that measure emulated links in real time. They run last, when the command has ended and the end-to-end tests
# have nearly ended.
measures='^tests/lab/bench:|^tests/testing/world:|^tests:calibration '

build_test_programs "$work/programs"
: >"$work/failed"
grep -E "$is_beside" "$work/programs" >"$work/beside"
grep -Ev "$is_beside|$measures" "$work/programs" >"$work/others"
grep -E "$measures" "$work/programs" >"$work/measuring"
run_each_beside beside <"$work/beside" &
beside=$!
if [ $# -gt 0 ]; then
    # Tests have deadlines, the command has none.
    nice "$@" >"$work/command.log" 2>&1 &
    command=$!
fi
run_each others <"$work/others"
if [ -n "$command" ]; then
    status=0
    wait "$command" || status=$?
    echo "== $*" && cat "$work/command.log"
    [ "$status" -eq 0 ] || echo "$* (status $status)" >>"$work/failed"
    command=""
fi
run_each measuring <"$work/measuring"
wait "$beside"

if [ -s "$work/failed" ]; then
    # Again at the end, where a reader of a long output finds them.
    cat "$work"/*.messages >&2 2>/dev/null || true
    echo "failed:" >&2
    cat "$work/failed" >&2
    exit 1
fi
