#!/bin/sh
# Runs the benchmark: `short` (about six minutes) or `full` (about an hour and a half). Results and report are written to the folder OUT.
# RESUME=1 keeps the rows of an interrupted run.
set -eu

usage="usage: $0 short|full OUT"
mode=${1:?$usage}
out=${2:?$usage}
bench=${LONGHAUL_BENCH:-${CARGO_TARGET_DIR:-target}/release/longhaul-bench}
corpus=${LONGHAUL_CORPUS:-../shared/corpus}
resume=${RESUME:+--resume}
mkdir -p "$out"
files=""
failed=0

pages() { # file, options of `pages`
    file="$out/$1.json"
    shift
    echo "== $*" >&2
    # shellcheck disable=SC2086 # an empty option must not become an argument
    "$bench" pages "$@" --json "$file" $resume || failed=1
    files="$files $file"
}

transport() { # file, options of `transport`
    file="$out/$1.json"
    shift
    echo "== $*" >&2
    "$bench" transport "$@" --json "$file" || failed=1
    files="$files $file"
}

case "$mode" in
short)
    every=gprs-3+1,gprs-class6,edge,cdma-1x,umts-384,umts-dch256,lte,geo-sat,leo-sat,wlan-lossy,dialup,lan-fast
    pages pages --link "$every" --pages mail,yahoo,static --system direct,longhaul --loader model --runs 1
    pages chromium --link gprs-3+1,umts-384,lte,geo-sat --pages static --system direct,longhaul --loader chromium --runs 1
    ;;
full)
    systems=direct,direct-6,squid,longhaul
    pages gprs --link gprs-3+1 --pages reference --system "$systems" --loader model --runs 3
    pages effects --link gprs-3+1 --pages mail,yahoo,amazon,cnn --system direct,direct-6,direct-pipelined --loader model --runs 3
    pages gprs-chromium --link gprs-3+1 --pages mail,yahoo,amazon,static --system direct,squid,longhaul --loader chromium --runs 3
    pages fast --link umts-384,lte,geo-sat --pages reference --system "$systems,tcp-proxy" --loader model --runs 3
    pages fast-chromium --link umts-384,lte,geo-sat --pages mail,yahoo,amazon,cnn,static --system direct,squid,longhaul --loader chromium --runs 3
    pages lan --link lan-fast --pages mail,yahoo,amazon,cnn,static --system direct,longhaul --loader model,chromium --runs 5
    pages loss --link umts-dch256 --pages bahn,yahoo --system direct,direct-pipelined,tcp-proxy,squid-cache,longhaul --loader model --runs 3 --internet-loss 0,1,2,3,5
    if [ -d "$corpus" ]; then
        pages corpus --link umts-384,lte,geo-sat --pages "$corpus" --system direct,longhaul --loader chromium --runs 1
    else
        echo "SKIPPED: recorded sites, because $corpus does not exist (set LONGHAUL_CORPUS to their folder)" >&2
    fi
    transport transport --link gprs-3+1,umts-384,lte,geo-sat --against cubic,bbr,quinn --experiment bulk,bundle
    ;;
*)
    echo "$usage" >&2
    exit 2
    ;;
esac

# shellcheck disable=SC2086 # a list of files
"$bench" report $files --out "$out/report.html"
exit "$failed"
