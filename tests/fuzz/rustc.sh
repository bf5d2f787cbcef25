#!/bin/sh
# Compiler wrapper of run.sh: compiles `mbrotli` without the fuzzer's coverage counters and with several
# codegen units. With the counters its compilation was aborted after a quarter of an hour, when it used 18 GB of
# memory. Its decoder is run like the other code, but its coverage does not guide the fuzzer.
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
