#!/bin/sh
# Fuzzes all harnesses, or the given ones, for some minutes each: run.sh MINUTES [HARNESS...]
set -eu
cd "$(dirname "$0")/targets"
minutes=${1:-1}
[ $# -eq 0 ] || shift
RUSTC_WRAPPER=$(cd .. && pwd)/rustc.sh
export RUSTC_WRAPPER
command -v cargo-fuzz >/dev/null 2>&1 || cargo install --locked cargo-fuzz
[ $# -gt 0 ] || set -- association_datagrams authentic_packets body_windows carrier_message carrier_upgrade certificate_names client_hello clientless_http2 clientless_requests content_codings datagrams frames header_set http_proxy image_headers images invite learned_plan link_field link_trace literal_urls manifest_records origin_responses packets page_css page_html page_policies_and_sheets picture_messages proxy_target request_targets rules_file session_messages set_cookie socks_datagram socks_messages vcdiff_decode vcdiff_encode warc
for harness in "$@"; do
    echo "== $harness: $minutes min"
    mkdir -p "../corpus/$harness"
    # A temporary corpus contains the seeds and the inputs found by the fuzzer; the committed corpus is only read.
    work=$(mktemp -d)
    # Inputs that were found before, a line each.
    number=0
    if [ -f "../corpus/$harness.base64" ]; then
        while read -r line; do
            number=$((number + 1))
            printf %s "$line" | base64 -d >"$work/found-$number"
        done <"../corpus/$harness.base64"
    fi
    LONGHAUL_HARNESS=$harness LONGHAUL_FUZZ_CORPUS=$work cargo +nightly fuzz run --fuzz-dir . harness "$work" "../corpus/$harness" -- \
        -max_total_time=$((minutes * 60)) -max_len=8192 -timeout=10 -rss_limit_mb=2048
    rm -rf "$work"
done
