#!/bin/sh
# Finds tests that fail only sometimes: builds the tests once, runs each suite TIMES times, and prints a table of the failures.
# A suite is one test program, named FOLDER:TARGET, such as client-agent:agent, client-agent:lib or tests:e2e. SUITE is such a
# name or a pattern ('*:lib'); without SUITE, every suite of the workspace runs. FILTER=TEXT runs only tests with TEXT in their path.
# The output of failed runs, and only that, is kept in target/repeat-tests. Documentation tests and benchmarks are not run.
set -eu
cd "$(dirname "$0")/.."
. scripts/test-programs.sh

usage="usage: $0 TIMES [SUITE...]"
times=${1:?$usage}
shift
case "$times" in
'' | *[!0-9]*)
    echo "$usage" >&2
    exit 2
    ;;
esac
# A run that hangs counts as failed after this time; the longest suite takes about a quarter of it on a busy machine.
limit=${LIMIT:-3600}
filter=${FILTER:-}
kept=${CARGO_TARGET_DIR:-target}/repeat-tests
rm -rf "$kept"
mkdir -p "$kept"
kept=$(cd "$kept" && pwd)

is_wanted() { # suite, patterns
    suite=$1
    shift
    [ $# -gt 0 ] || return 0
    for pattern in "$@"; do
        # shellcheck disable=SC2254 # it is a pattern
        case "$suite" in
        $pattern) return 0 ;;
        esac
    done
    return 1
}

# Names of the tests that failed in a run; a program that ended otherwise (a signal, the limit) has none.
failed_tests() { # log, exit status
    names=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$1")
    case "$names" in
    '') echo "(ended with status $2)" ;;
    *) echo "$names" ;;
    esac
}

table() {
    printf '%-36s %6s %9s  %s\n' suite runs failures 'failed tests (times)'
    while read -r suite runs failures; do
        tests=""
        if [ -f "$kept/$(file "$suite").failed" ]; then
            tests=$(sort "$kept/$(file "$suite").failed" | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\2 (\1)/' | paste -s -d , - | sed 's/,/, /g')
        fi
        printf '%-36s %6d %9d  %s\n' "$suite" "$runs" "$failures" "$tests"
    done <"$kept/results"
}

# Name of a suite's files.
file() { # suite
    echo "$1" | tr '/:' '-.'
}

repeat() { # suite, folder, path
    count=0
    failures=0
    while [ "$count" -lt "$times" ]; do
        count=$((count + 1))
        log=$kept/$(file "$1").$count.log
        status=0
        # Cargo starts test programs in the folder of their crate. An empty filter matches every test.
        (cd "$2" && exec timeout --kill-after=30 "$limit" "$3" "$filter") >"$log" 2>&1 || status=$?
        if [ "$status" -eq 0 ]; then
            rm "$log"
        else
            failures=$((failures + 1))
            failed_tests "$log" "$status" >"$kept/failed"
            cat "$kept/failed" >>"$kept/$(file "$1").failed"
            sed "s|^|$1, run $count failed: |" "$kept/failed" >&2
        fi
        # Rewritten after each run, so that an interrupted script has a table, too.
        { grep -v "^$1 " "$kept/results" || true; } >"$kept/results.new"
        echo "$1 $count $failures" >>"$kept/results.new"
        mv "$kept/results.new" "$kept/results"
    done
}

build_test_programs "$kept/programs"
: >"$kept/results"
trap table EXIT
trap 'exit 130' INT TERM
while read -r suite folder path; do
    if is_wanted "$suite" "$@"; then
        echo "== $suite" >&2
        # A test program must not read the list of programs.
        repeat "$suite" "$folder" "$path" </dev/null
    fi
done <"$kept/programs"

if ! [ -s "$kept/results" ]; then
    echo "no suite of this name; the suites are in $kept/programs" >&2
    exit 2
fi
[ "$(awk '{ failed += $3 } END { print failed + 0 }' "$kept/results")" -eq 0 ]
