# Part of the product test (run.sh): Chromium and Firefox.
# shellcheck shell=bash

# The browsers start once, so that they have profiles as those of a user.
make_profiles() {
    as_ann mkdir -p /home/ann/.mozilla/firefox/test.default
    as_ann sh -c 'printf "[Profile0]\nName=test\nIsRelative=1\nPath=test.default\nDefault=1\n\n[General]\nStartWithLastProfile=1\nVersion=2\n" >.mozilla/firefox/profiles.ini'
    as_ann node /product-test/page.mjs firefox new /home/ann/.mozilla/firefox/test.default
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

profile_of() { # browser
    [ "$1" = chromium ] && echo /home/ann/.config/chromium || echo /home/ann/.mozilla/firefox/test.default
}

load_in_browsers() { # when, `policy` if the browser gets its proxy by a policy
    local browser url
    for browser in chromium firefox; do
        for url in http://site.test/ https://site.test/; do
            as_ann node /product-test/page.mjs "$browser" "$url" "$(profile_of "$browser")" "${2:-}" || fail "$browser does not load $url"
        done
        ok "$browser loads http and accelerated https without a warning $1"
    done
}

# The error page of a website whose certificate is over comes without a warning of the browser, and has a way out.
load_expired_page() {
    local browser
    for browser in chromium firefox; do
        as_ann node /product-test/page.mjs "$browser" https://expired.test/ "$(profile_of "$browser")" expired ||
            fail "$browser does not show the page about the expired certificate"
        ok "$browser shows the page about an expired certificate, with a way out"
    done
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
    for database in .mozilla/firefox/test.default .local/share/pki/nssdb .pki/nssdb; do
        ! as_ann certutil -L -d "sql:$database" 2>/dev/null | grep -q Longhaul || fail "$database trusts the authority"
    done
    ok "databases of browsers that ran trust the authority no longer"
}
