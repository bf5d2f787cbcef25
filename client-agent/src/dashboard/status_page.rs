//! The status page: the agent's state for people, on one page without scripts or external resources.
use longhaul_session::ImageLevel;
use longhaul_types::{BitRate, ByteCount};
use maud::{Markup, html};

use super::{
    CANCEL_WAITING, FORGET, PICTURES,
    status::{BypassedHost, HttpsStatus, SavingsStatus, Status, WaitingStatus},
};
use crate::pages::document;

/// Content security policy: the page may load and execute nothing.
pub(crate) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
/// Interval of the automatic reload in seconds.
const REFRESH: u8 = 2;

/// Returns the page; its buttons work if the request has presented the token.
pub(crate) fn status_page(status: &Status, may_change: bool) -> Markup {
    let (class, headline) = headline(status);
    let main = html! {
        h1 class=(class) { (headline) }
        @if let Some(reason) = &status.reason {
            p { (reason) }
        }
        @if let Some(page) = status.trouble.as_ref().and_then(|trouble| trouble.login_page.as_ref()) {
            p class="wait" {
                "Open " a href=(page) { (page) } " to log in. Until then, http pages load without the gateway."
            }
        }
        @if status.session.as_ref().is_some_and(|session| session.intercepted) {
            p class="wait" {
                "Intercepted: somebody on the way ends TLS to the gateway. What is seen there is ciphertext; only the gateway \
                 can read what you load. " code { "carrier.pin" } " decides about such networks."
            }
        }
        @if let Some(notice) = &status.notice {
            p class="wait" { "Notice from the gateway: " (notice) }
        }
        @if status.direct_in_use {
            p class="wait" { "Pages load without the gateway, and without acceleration, until the gateway answers again." }
        }
        (waiting(&status.waiting, may_change))
        (pictures(&status.image_level, may_change))
        @if may_change {
            (forget())
        }
        (table("Link", &link_rows(status)))
        (table("Data", &data_rows(status)))
        (table("Saved, by cause", &savings_rows(&status.savings)))
        (table("Pages", &page_rows(status)))
        (table("Requests", &request_rows(status)))
        h2 { "Browser" }
        p { "Automatic proxy configuration URL: " code { "http://" (status.control) "/proxy.pac" } }
        (https(&status.https))
    };
    let refresh = html! { meta http-equiv="refresh" content=(REFRESH); };
    document("Longhaul agent", &refresh, &main)
}

/// Describes the handling of HTTPS in plain words.
fn https(status: &HttpsStatus) -> Markup {
    if status.authority_removed {
        return html! {
            p {
                "The certificate authority was removed: HTTPS pages pass through unchanged until the agent is started \
                 again."
            }
        };
    }
    let which = match status.accelerate.as_str() {
        "list" => format!("of {} and their subdomains", status.hosts.join(", ")),
        "all" => "except the built-in exclusions (banks, health, government, identity, updates)".to_owned(),
        _ => {
            return html! {
                p { "HTTPS pages pass through unchanged: nobody on the way, not even the gateway, can read them." }
            };
        }
    };
    html! {
        p class="wait" {
            "HTTPS pages " (which) " are accelerated: " b { "the gateway\u{2019}s operator can read them" }
            ", including passwords. All other HTTPS pages pass through unchanged."
        }
        @if !status.except.is_empty() {
            p { "You excluded " (status.except.join(", ")) "." }
        }
        @if let Some(fingerprint) = &status.fingerprint {
            p {
                "Browsers must trust this device\u{2019}s authority (" code { "longhaul-agent ca export" }
                "), whose SHA-256 fingerprint is " code { (fingerprint) }
            }
        }
        @if !status.bypassed.is_empty() {
            p { "Temporarily not accelerated:" }
            ul {
                @for bypassed in &status.bypassed {
                    li { (bypassed.host) ": " (bypassed.why) (programs(bypassed)) }
                }
            }
            p { "To forget them: " code { "longhaul-agent https forget" } }
        }
    }
}

/// Names the program that a bypass is limited to.
fn programs(bypassed: &BypassedHost) -> String {
    match &bypassed.program {
        Some(name) => format!(" (only for {name})"),
        None if bypassed.one_program => " (only for this program)".to_owned(),
        None => String::new(),
    }
}

fn headline(status: &Status) -> (&'static str, &'static str) {
    match status.state.as_str() {
        "open" => ("ok", "Connected to the gateway"),
        "portal" => ("bad", "This network wants a login first"),
        "connecting" => ("wait", "Connecting to the gateway\u{2026}"),
        "stalled" => (
            "wait",
            "The gateway is silent; requests wait and continue when it answers",
        ),
        _ => ("bad", "No connection to the gateway"),
    }
}

/// Returns the buttons for the image level; the current level's button is pressed.
fn pictures(now: &str, may_change: bool) -> Markup {
    html! {
        h2 { "Pictures" }
        @if may_change {
            form method="post" {
                @for level in ImageLevel::ALL {
                    @let name = level.name();
                    @let pressed = (name == now).then_some("true");
                    button formaction={ (PICTURES) "?level=" (name) } disabled[pressed.is_some()] aria-pressed=[pressed] {
                        (name)
                    }
                    " "
                }
            }
            p {
                "Levels further to the right use less data; at level text, no pictures are loaded. Where the original \
                 arrives sooner, as on fast links, pictures are not converted. Reload a page without caches \
                 (Ctrl+Shift+R) to see its original pictures. Pictures of HTTPS pages that are not accelerated are \
                 never converted."
            }
        } @else {
            p {
                "Level: " (now) ". To change it, open the address that " code { "longhaul-agent status" } " prints."
            }
        }
    }
}

/// Returns the pages that wait for the hop; each may be given up.
fn waiting(pages: &[WaitingStatus], may_change: bool) -> Markup {
    html! {
        @if !pages.is_empty() {
            h2 { "Waiting for the link" }
            form method="post" {
                table {
                    @for page in pages {
                        tr {
                            td { code { (page.url) } }
                            td {
                                @if page.ready { "loaded" } @else { (format!("{:.0} min", page.waited_s / 60.0)) }
                                @if may_change {
                                    " "
                                    button formaction={ (CANCEL_WAITING) "?id=" (page.id) } { "Cancel" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a button that deletes all data.
fn forget() -> Markup {
    html! {
        h2 { "Privacy" }
        form method="post" {
            button formaction=(FORGET) { "Delete everything" }
        }
        p {
            "Deletes the stored data of all pages on this machine and, for this device, at the gateway. For one site: "
            code { "longhaul-agent forget SITE" } "."
        }
    }
}

type Row = (&'static str, String);

fn link_rows(status: &Status) -> Vec<Row> {
    let mut rows = vec![("Gateway key", short_key(&status.gateway_key))];
    if let Some(software) = &status.gateway_software {
        rows.push(("Gateway software", software.clone()));
    }
    if let Some(silent) = status.silent_s {
        rows.push(("Silent for", format!("{silent:.0} s")));
    }
    if let Some(session) = &status.session {
        let best = session
            .min_rtt_ms
            .map_or_else(String::new, |best| format!(" (at best {best:.0} ms)"));
        let rtt = session.rtt_ms.map_or_else(
            || "not measured yet".to_owned(),
            |rtt| format!("{rtt:.0} ms{best}"),
        );
        if session.carrier == "quic" {
            rows.push((
                "Carrier",
                "QUIC, because UDP does not answer or is not permitted".to_owned(),
            ));
        }
        if session.carrier == "tls" {
            let through = status.http_proxy.as_ref().map_or_else(String::new, |proxy| {
                format!(", through the HTTP proxy {proxy} where it is used")
            });
            rows.push((
                "Carrier",
                format!("TLS, because UDP does not answer or is not permitted{through}"),
            ));
        }
        rows.push(("Round-trip time", rtt));
        let rate = session.rate_bps.map_or_else(
            || "not measured yet".to_owned(),
            |rate| BitRate::bps(rate).to_string(),
        );
        rows.push(("Estimated rate", rate));
    }
    let known = match status.link.as_str() {
        "told" => "the link profile that you set",
        "remembered" => "remembered from earlier sessions in this network",
        _ => "measured in this session",
    };
    rows.push(("Start of the session", known.to_owned()));
    rows
}

fn data_rows(status: &Status) -> Vec<Row> {
    let bytes = |amount: u64| ByteCount::new(amount).to_string();
    vec![
        ("Received over the link", bytes(status.bytes_down)),
        ("Sent over the link", bytes(status.bytes_up)),
        (
            "Page data delivered to the browser",
            bytes(status.body_bytes_decoded),
        ),
        ("In tunnels (HTTPS)", bytes(status.tunnel_bytes)),
        ("Saved", saved(status.savings.saved.bytes)),
    ]
}

fn savings_rows(savings: &SavingsStatus) -> Vec<Row> {
    let causes = savings.saved.by_cause;
    let mut rows = vec![
        ("Smaller pictures", saved(causes.pictures)),
        ("Compression", saved(causes.coding)),
        ("Changes instead of whole files", saved(causes.base)),
        ("Unchanged and not sent again", saved(causes.unchanged)),
        ("Answered by this computer\u{2019}s cache", saved(causes.cache)),
        ("Headers", saved(causes.headers)),
    ];
    if !savings.reported {
        let note = "The gateway is of an older version and does not report what websites sent: only the cache is counted";
        rows.push(("Incomplete", note.to_owned()));
    }
    rows
}

/// Formats saved bytes, which may be negative.
fn saved(bytes: i64) -> String {
    let amount = ByteCount::new(bytes.unsigned_abs());
    if bytes < 0 {
        format!("\u{2212}{amount}")
    } else {
        amount.to_string()
    }
}

fn page_rows(status: &Status) -> Vec<Row> {
    let bytes = |amount: u64| ByteCount::new(amount).to_string();
    let mut rows = Vec::new();
    if status.push_enabled {
        rows.push(("Pages loaded in bundles", status.pages.to_string()));
        rows.push((
            "Pushed by the gateway",
            format!(
                "{} in {} objects",
                bytes(status.pushed_bytes),
                status.pushed_objects
            ),
        ));
        rows.push((
            "Pushed and used by the browser",
            format!(
                "{} in {} objects",
                bytes(status.push_taken_bytes),
                status.push_taken_objects
            ),
        ));
        rows.push(("Pushed and not used", bytes(status.push_wasted_bytes)));
    } else {
        rows.push((
            "Bundles",
            "off: each object is fetched when the browser requests it".to_owned(),
        ));
    }
    rows.push((
        "Unchanged and not sent again",
        format!("{} objects", status.held_hits),
    ));
    if status.cache_quota == 0 {
        rows.push(("Cache", "off".to_owned()));
    } else {
        let (used, quota) = (bytes(status.cache_bytes), bytes(status.cache_quota));
        rows.push((
            "Cache",
            format!("{used} of {quota}, {} cache hits", status.cache_hits),
        ));
    }
    rows
}

fn request_rows(status: &Status) -> Vec<Row> {
    vec![
        ("Requests", status.requests.to_string()),
        ("Failed", status.failures.to_string()),
        ("Sent without the gateway", status.direct_requests.to_string()),
        ("Repeated after a lost session", status.repeated.to_string()),
        (
            "Damaged windows",
            format!("{} ({} bodies resumed)", status.windows_bad, status.resumed),
        ),
        ("Running for", format!("{} min", status.uptime_s / 60)),
    ]
}

/// Shortens a key; the beginning suffices to distinguish gateways.
fn short_key(key: &str) -> String {
    let start: String = key.chars().take(12).collect();
    format!("{start}\u{2026}")
}

fn table(title: &str, rows: &[Row]) -> Markup {
    html! {
        h2 { (title) }
        table {
            @for (name, value) in rows {
                tr {
                    td { (name) }
                    td { (value) }
                }
            }
        }
    }
}
