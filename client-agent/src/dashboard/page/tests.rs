use std::net::SocketAddr;

use super::*;
use crate::{
    dashboard::{
        page_loads,
        samples::Samples,
        status::{SessionStatus, Status},
    },
    journal::{RequestFailure, RequestRecord, ResponseEnd, Source},
};

fn status(state: &str) -> Status {
    let text = include_str!("status.json");
    let mut status: Status = serde_json::from_str(text).unwrap();
    status.state = state.to_owned();
    status
}

fn session() -> SessionStatus {
    SessionStatus {
        rtt_ms: Some(612.4),
        min_rtt_ms: Some(600.0),
        rate_bps: Some(7_662_600),
        carrier: "udp".to_owned(),
        tls_port: None,
        intercepted: false,
        packets_sent: 10,
        packets_received: 10,
        stalls: 0,
    }
}

fn record(number: u64, url: &str) -> RequestRecord {
    RequestRecord {
        number,
        at_ms: 1000,
        method: "GET".to_owned(),
        url: url.to_owned(),
        is_page: number == 0,
        page: Some(0),
        source: Source::Push,
        status: Some(200),
        answered_ms: Some(200),
        ended_ms: Some(700),
        end: ResponseEnd::Complete,
        bytes: 30_000,
        hop_bytes: 4_000,
        coding: Some("zstd".into()),
        rate_bps: Some(384_000),
        rtt_ms: Some(600),
        ..RequestRecord::default()
    }
}

fn unresolved() -> RequestRecord {
    let mut failed = record(3, "http://other.test/x");
    failed.source = Source::Failed;
    failed.failure = Some(RequestFailure {
        title: "There is no website of this name".to_owned(),
        whose: "The website".to_owned(),
    });
    failed
}

fn loads() -> Vec<PageLoad> {
    let mut picture = record(1, "http://site.test/<img>.jpg");
    picture.changed = Some("image=medium".to_owned());
    let mut delta = record(2, "http://site.test/app.js");
    delta.base = Some("stored".into());
    page_loads::newest(&[record(0, "http://site.test/page"), picture, delta, unresolved()])
}

fn rules() -> RulesStatus {
    let text = r#"{"paused_until": null, "rules": [{"name": "shop.test", "https": "tunnel", "images": "original",
        "originals_until": null, "paused_until": 661, "decision": "passes through unread: shop.test is paused"}]}"#;
    serde_json::from_str(text).unwrap()
}

fn shown(status: &Status, loads: Option<&[PageLoad]>) -> String {
    let live = LiveFigures::of(status, &Samples::default());
    let requests = [record(0, "http://site.test/page"), unresolved()];
    let failed = page_loads::failures(&requests);
    let view = View {
        status,
        live: &live,
        kept: &Summary::default(),
        loads,
        failures: &failed,
        rules: &rules(),
        now_ms: 61_000,
    };
    dashboard_page(&view).into_string()
}

#[test]
fn the_dashboard_shows_a_state_in_words_and_figures_with_units() {
    let mut open = status("open");
    open.session = Some(session());
    open.link_rate_bps = Some(7_662_600);
    open.requests = 3;
    let html = shown(&open, Some(&loads()));
    for text in [
        "Connected to the gateway",
        "7.6 Mbit/s",
        "612 ms",
        "256 MiB",
        "1 min ago",
        "1 failure",
        "1 picture changed",
        "ideal 933 ms",
        "Connect another browser",
        "<b>other.test</b>, 1 min ago: There is no website of this name. The website",
    ] {
        assert!(html.contains(text), "{text} in {html}");
    }
    assert!(!html.contains("http-equiv") && !html.contains("style=") && !html.contains("<img"));
    for (state, words) in [
        ("stalled", "silent"),
        ("down", "No connection"),
        ("portal", "login"),
    ] {
        let html = shown(&status(state), Some(&[]));
        assert!(
            html.contains(words) && html.contains(&format!("data-state=\"{state}\"")),
            "{html}"
        );
    }
}

#[test]
fn before_the_first_browser_the_way_to_connect_one_comes_first() {
    let html = shown(&status("open"), Some(&[]));
    let first = html.find("No browser has come yet").unwrap();
    assert!(first < html.find("class=\"hop\"").unwrap());
    let address: SocketAddr = "127.0.0.1:3129".parse().unwrap();
    assert!(html.contains(&format!("http://{address}/proxy.pac")));
}

#[test]
fn without_the_token_there_is_no_page_and_no_button() {
    let html = shown(&status("open"), None);
    assert!(html.contains("longhaul-agent status"));
    assert!(!html.contains("<button") && !html.contains("<script"), "{html}");
}

#[test]
fn each_id_is_used_once_and_each_live_figure_has_its_node() {
    let html = shown(&status("open"), Some(&loads()));
    let mut ids: Vec<&str> = html
        .split(" id=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    ids.sort_unstable();
    let before = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), before);
    let live = LiveFigures::of(&status("open"), &Samples::default());
    for id in live
        .text
        .keys()
        .map(String::as_str)
        .chain(live.path.keys().copied())
    {
        assert!(ids.binary_search(&id).is_ok(), "{id}");
    }
}

#[test]
fn a_page_has_its_waterfall_receipts_and_failures() {
    let html = load_page(&loads()[0], &rules(), "accelerated: your rule for site.test", 61).into_string();
    for text in [
        "sent ahead",
        "30.0 kB as 4.0 kB, zstd",
        "as its difference from a stored file",
        "picture made smaller (medium)",
        "There is no website of this name. The website",
        "other.test",
        "/page/forget?number=0",
        "/forget?site=site.test",
        "&lt;img&gt;.jpg",
    ] {
        assert!(html.contains(text), "{text} in {html}");
    }
    assert!(!html.contains("<img") && !html.contains("style="));
}

#[test]
fn rules_are_forms_that_work_without_scripts() {
    let html = shown(&status("open"), Some(&loads()));
    for text in [
        "<form method=\"post\" action=\"/rules/set?name=shop.test\"",
        "<option value=\"tunnel\" selected>",
        "<option value=\"original\" selected>",
        "Paused for another 10 min.",
        "HTTPS: passes through unread: shop.test is paused.",
        "formaction=\"/rules/resume?name=shop.test\"",
        "formaction=\"/rules/remove?name=shop.test\"",
        // A site of the last pages.
        "formaction=\"/rules/pause?name=site.test\"",
        "formaction=\"/rules/pause\"",
    ] {
        assert!(html.contains(text), "{text} is missing in {html}");
    }
    assert!(
        !shown(&status("open"), None).contains("shop.test"),
        "rules need the token"
    );
    let page = load_page(&loads()[0], &rules(), "accelerated: your rule for site.test", 61).into_string();
    assert!(
        page.contains("HTTPS of site.test: accelerated: your rule for site.test."),
        "{page}"
    );
    assert!(
        page.contains("formaction=\"/rules/originals?name=site.test\""),
        "{page}"
    );
}
