# Part of the product test (run.sh): Chromium and Firefox.
# shellcheck shell=bash

# The browsers start once, so that they have profiles as those of a user.
make_profiles() {
    as_ann mkdir -p /home/ann/.mozilla/firefox/test.default /home/ann/.mozilla/firefox/test.second
    as_ann sh -c 'printf "[Profile1]\nName=second\nIsRelative=1\nPath=test.second\n\n[Profile0]\nName=test\nIsRelative=1\nPath=test.default\nDefault=1\n\n[General]\nStartWithLastProfile=1\nVersion=2\n" >.mozilla/firefox/profiles.ini'
    as_ann node /product-test/page.mjs firefox new /home/ann/.mozilla/firefox/test.default
    as_ann node /product-test/page.mjs firefox new /home/ann/.mozilla/firefox/test.second
    as_ann node /product-test/page.mjs chromium new /home/ann/.config/chromium
}

# A certificate for the same key whose time is over. Only `openssl ca` takes dates.
make_expired_certificate() {
    local tls=$root/product-test
    mkdir "$tls/ca"
    : >"$tls/ca/index"
    echo 10 >"$tls/ca/serial"
    printf '[ca]\ndefault_ca=it\n[it]\ndatabase=%s/index\nnew_certs_dir=%s\nserial=%s/serial\npolicy=names\ndefault_md=sha256\n[names]\ncommonName=supplied\n' \
        "$tls/ca" "$tls/ca" "$tls/ca" >"$tls/ca/settings"
    printf 'subjectAltName=DNS:expired.test\nextendedKeyUsage=serverAuth\n' >"$tls/ca/extensions"
    openssl ca -batch -notext -config "$tls/ca/settings" -cert "$tls/ca.pem" -keyfile "$tls/ca.key" -in "$tls/site.csr" \
        -startdate 20240101000000Z -enddate 20240201000000Z -extfile "$tls/ca/extensions" -out "$tls/expired.pem" 2>/dev/null
}

# The browsers with their profiles, a line for each.
BROWSERS="chromium /home/ann/.config/chromium
firefox /home/ann/.mozilla/firefox/test.default
firefox /home/ann/.mozilla/firefox/test.second"

load_in_browsers() { # when, `policy` if the browser gets its proxy by a policy
    local browser profile url
    while read -r browser profile <&3; do
        for url in http://site.test/ https://site.test/; do
            as_ann node /product-test/page.mjs "$browser" "$url" "$profile" "${2:-}" || fail "$browser ($profile) does not load $url"
        done
        ok "$browser ($(basename "$profile")) loads http and accelerated https without a warning $1"
    done 3<<<"$BROWSERS"
}

# An excluded host shows the certificate of its origin: a program that trusts the origin's authority loads the page, and
# browsers, which do not, refuse it. They would accept a certificate of the agent.
load_excluded_page() {
    local browser profile
    as_ann curl --silent --show-error --fail --max-time 20 --proxy http://127.0.0.1:3128 --cacert /product-test/ca.pem \
        https://product-test.bank/ | grep -q 'The page has arrived' || fail "the excluded host has no certificate of its origin"
    while read -r browser profile <&3; do
        as_ann node /product-test/page.mjs "$browser" https://product-test.bank/ "$profile" refused ||
            fail "$browser does not get the certificate of the excluded host"
    done 3<<<"$BROWSERS"
    ok "programs and browsers get the origin's certificate of an excluded host"
}

# The error page of a website whose certificate is over comes without a warning of the browser, and has a way out.
load_expired_page() {
    local browser profile
    while read -r browser profile <&3; do
        as_ann node /product-test/page.mjs "$browser" https://expired.test/ "$profile" expired ||
            fail "$browser does not show the page about the expired certificate"
        as_ann longhaul-agent https forget expired.test >/dev/null
        ok "$browser ($(basename "$profile")) shows the page about an expired certificate, whose button leads to the browser's own warning"
    done 3<<<"$BROWSERS"
}

# A program without the authority gets its own tunnel; browsers stay accelerated.
spoil_nothing() {
    local bypassed status=0
    as_ann curl --silent --max-time 20 --proxy http://127.0.0.1:3128 -o /dev/null https://site.test/ || status=$?
    [ "$status" -ne 0 ] || fail "curl trusts an authority that it does not have"
    bypassed=$(as_ann longhaul-agent https list)
    case $bypassed in
    *site.test*"only for curl"*) ;;
    *) fail "the host is not bypassed for curl alone: $bypassed" ;;
    esac
    load_in_browsers "beside a program without the authority"
    as_ann longhaul-agent https forget site.test >/dev/null
}

# Browsers that ran have changed their profiles; their databases must not have the authority.
is_as_before_in_databases() {
    local database
    for database in .mozilla/firefox/test.default .mozilla/firefox/test.second .local/share/pki/nssdb .pki/nssdb; do
        ! as_ann certutil -L -d "sql:$database" 2>/dev/null | grep -q Longhaul || fail "$database trusts the authority"
    done
    ok "databases of browsers that ran trust the authority no longer"
}
