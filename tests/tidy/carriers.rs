//! Carriers bring packets and nothing else: what is above a connection does not know over which path its bytes come
//! (docs/protocol/transport.md section 8, decision 28).
use std::collections::BTreeSet;

use crate::sources::files;

/// Names of paths, their classes and their links.
const PATHS: &[&str] = &[
    "LinkId",
    "PathClass",
    "LinkAcceptor",
    "LinkEnd",
    "LinkInput",
    "LinkOutput",
];
/// Where a path is more than an address: the paths of connections, the driver's links, and the carriers. The check of
/// the gateway is an endpoint with a driver of its own.
const KNOW_PATHS: &[&str] = &[
    "protocol/src/path.rs",
    "protocol/src/connection.rs",
    "protocol/src/connection/",
    "protocol/src/endpoint/",
    "protocol/driver/",
    "protocol/carriers/",
    "client-agent/src/gateway/check/",
];
/// Names of carriers and of their choice.
const CARRIERS: &[&str] = &[
    "longhaul_carriers",
    "CarrierPlan",
    "LinkCarriers",
    "CarrierSettings",
    "CarriersConfig",
    "TlsCarrier",
    "TlsListener",
    "BareLink",
    "QuicCarrier",
    "QuicListener",
];
/// Where carriers are chosen: the settings, what opens sessions and ports with them, and what reports why none opened.
const CHOOSE_CARRIERS: &[&str] = &[
    "protocol/driver/",
    "protocol/carriers/",
    "client-agent/src/config",
    "client-agent/src/gateway/carriers.rs",
    "client-agent/src/gateway/check",
    "client-agent/src/gateway/dialer",
    "client-agent/src/gateway/gateway_session.rs",
    "client-agent/src/gateway.rs",
    "client-agent/src/gateway/observation.rs",
    "server-gateway/clientless/src/certificate.rs",
    "server-gateway/clientless/src/listen.rs",
    "server-gateway/clientless/src/secure.rs",
    "server-gateway/clientless/src/shared_port.rs",
    "server-gateway/core/src/config",
    "server-gateway/src/server/carrier_files.rs",
    "server-gateway/src/server/carriers.rs",
    "server-gateway/src/server/clientless.rs",
    "server-gateway/src/server.rs",
];

/// Names in a source text.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .collect()
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/")
        || path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.contains("/benches/")
}

/// Files outside of `places` that contain one of `words`, with the word.
fn strangers<'a>(
    sources: &'a [(String, String)],
    words: &[&'static str],
    places: &[&str],
) -> Vec<(&'a str, &'static str)> {
    let outside = sources
        .iter()
        .filter(|(path, _)| !is_test(path) && !places.iter().any(|place| path.starts_with(place)));
    let found = outside.flat_map(|(path, text)| {
        let names = names(text);
        let words = words.iter().filter(move |word| names.contains(**word));
        words.map(move |word| (path.as_str(), *word))
    });
    found.collect()
}

#[test]
fn only_connections_and_what_is_below_them_know_paths() {
    let sources = files(".rs");
    let found = strangers(&sources, PATHS, KNOW_PATHS);
    assert!(
        found.is_empty(),
        "a carrier carries packets: congestion control, streams, messages and everything above them work over every \
         path alike: {found:#?}"
    );
}

#[test]
fn carriers_are_named_only_where_they_are_chosen() {
    let sources = files(".rs");
    let found = strangers(&sources, CARRIERS, CHOOSE_CARRIERS);
    assert!(
        found.is_empty(),
        "a session is used without its carrier: {found:#?}"
    );
}

#[test]
fn the_places_exist_and_strangers_are_found() {
    let sources = files(".rs");
    for place in KNOW_PATHS.iter().chain(CHOOSE_CARRIERS) {
        assert!(sources.iter().any(|(path, _)| path.starts_with(place)), "{place}");
    }
    let text = "use longhaul_protocol::path::LinkId;\nlet my_LinkEnd = 1;".to_owned();
    let sources = [("protocol/src/congestion/start.rs".to_owned(), text)];
    let found = strangers(&sources, PATHS, KNOW_PATHS);
    assert_eq!(found, [("protocol/src/congestion/start.rs", "LinkId")]);
}
