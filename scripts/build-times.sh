#!/bin/sh
# How long compilation takes. Processor time depends less on what else the machine does than wall time, but a machine whose
# processors are all busy inflates it, too.
#
# build-times.sh demo                       the build of `make demo` from nothing: in total, and for each crate
# build-times.sh programs [TIMES [FILE...]] debug builds of the programs after a change of one file: medians of TIMES (3) runs
# build-times.sh tests [TIMES [FILE...]]    the same of the programs and all tests
set -eu
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
work=$(mktemp -d "${TMPDIR:-/tmp}/longhaul-build-times-XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM

# User and system time of the ended children of this shell, in seconds. In a subshell it would be zero: writes to a file.
children() { # file
    times >"$work/times"
    sed -n 's/^\(.*\)m\(.*\)s \(.*\)m\(.*\)s$/\1 \2 \3 \4/p' "$work/times" | awk 'END { print $1 * 60 + $2, $3 * 60 + $4 }' >"$1"
}

demo() {
    cat >"$work/rustc" <<'WRAPPER'
#!/bin/sh
"$@" || exit
times >"$LONGHAUL_BUILD_TIMES/$$"
name=
while [ $# -gt 1 ]; do
    [ "$1" = --crate-name ] && name=$2
    shift
done
tail -n 1 "$LONGHAUL_BUILD_TIMES/$$" | sed 's/m/ /g; s/s//g' |
    awk -v "name=$name" '{ printf "%.2f %s\n", $1 * 60 + $2 + $3 * 60 + $4, name }' >"$LONGHAUL_BUILD_TIMES/$$.crate"
rm "$LONGHAUL_BUILD_TIMES/$$"
WRAPPER
    chmod +x "$work/rustc"
    mkdir "$work/crates"
    # The recipe of the Makefile without its last command, in a folder of its own.
    make -n demo | sed '/scripts\/install-tools.sh/d; /longhaul demo/d' >"$work/recipe"
    LONGHAUL_BUILD_TIMES="$work/crates" RUSTC_WRAPPER="$work/rustc" CARGO_TARGET_DIR="$work/target" sh -eu "$work/recipe"
    children "$work/all"
    echo "seconds of processor time:"
    awk '{ printf "%.0f in total\n", $1 + $2 }' "$work/all"
    cat "$work"/crates/*.crate | sort -rn | head -n 40
}

# One line for a build: user time, wall time.
build() { # arguments of cargo
    children "$work/before"
    began=$(date +%s.%N)
    "$CARGO" "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    ended=$(date +%s.%N)
    children "$work/after"
    cat "$work/before" "$work/after" | awk -v "wall=$(echo "$ended $began" | awk '{ print $1 - $2 }')" \
        'NR == 1 { user = $1 } NR == 2 { printf "%.1f %.1f\n", $1 - user, wall }'
}

median() { # column, file
    awk "{ print \$$1 }" "$2" | sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# One line for each file: without arguments the planner, the store, the transport, the rules of HTTP, the gateway's fetcher
# and the agent. The contents stay the same; cargo compiles again whatever has a newer time.
edits() { # arguments of cargo in one word, times, files
    cargo_arguments=$1
    times=${2:-3}
    shift
    [ $# -eq 0 ] || shift
    [ $# -gt 0 ] || set -- server-gateway/pageload/src/plan.rs cache/src/store.rs protocol/src/connection.rs \
        protocol/http/src/lib.rs server-gateway/webcache/src/lib.rs client-agent/src/lib.rs
    # shellcheck disable=SC2086 # several arguments
    build $cargo_arguments >/dev/null
    echo "| changed file | user time | wall time |"
    echo "| --- | ---: | ---: |"
    for file; do
        test -f "$file"
        : >"$work/runs"
        run=0
        while [ "$run" -lt "$times" ]; do
            touch "$file"
            # shellcheck disable=SC2086 # several arguments
            build $cargo_arguments >>"$work/runs"
            run=$((run + 1))
        done
        echo "| \`$file\` | $(median 1 "$work/runs") s | $(median 2 "$work/runs") s |"
    done
}

mode=${1:-}
[ $# -eq 0 ] || shift
case "$mode" in
demo) demo ;;
programs) edits "build --locked --workspace --bins" "$@" ;;
tests) edits "test --locked --workspace --tests --no-run" "$@" ;;
*)
    sed -n 's/^# \(build-times.sh .*\)/\1/p' "$0" >&2
    exit 2
    ;;
esac
