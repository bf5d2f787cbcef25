#!/bin/sh
# The compiler as run.sh calls it: `mbrotli` without the fuzzer's counters and in many units of code. With
# them its compilation was given up after a quarter of an hour, at 18 GB. Its decoder is run like the rest,
# but what it does with an input does not guide the fuzzer.
set -eu
rustc=$1
shift
case " $* " in
*" --crate-name mbrotli "*)
    for arg do
        shift
        case $arg in
        -Cpasses=sancov* | -Cllvm-args=-sanitizer-coverage* | -Ccodegen-units=1) ;;
        *) set -- "$@" "$arg" ;;
        esac
    done
    ;;
esac
exec "$rustc" "$@"
