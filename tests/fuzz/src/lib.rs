//! One harness for each decoder of data from the network, from a file or from a user.
//!
//! A harness accepts any bytes and must not panic; if a value decodes, encoding and decoding it must return
//! it. `tests/corpora.rs` runs the harnesses with the committed corpora and with mutations; `targets/`
//! contains the cargo-fuzz targets.
#![forbid(unsafe_code)]
#![expect(clippy::expect_used, reason = "a harness reports a defect by panicking")]

mod authentic;
mod carriers;
mod certificates;
mod client_hello;
mod clientless;
mod content;
mod datagrams;
mod deltas;
mod gateway_files;
mod images;
mod input;
mod manifest;
mod messages;
mod origin_responses;
mod packets;
mod page_sheets;
mod pages;
mod recordings;
mod socks;
mod targets;

/// A harness with valid initial inputs.
#[derive(Debug, Clone, Copy)]
pub struct Harness {
    /// Name, also of its corpus folder and of its fuzz target.
    pub name: &'static str,
    /// Runs with any bytes.
    pub run: fn(&[u8]),
    /// Returns inputs that decode, so that mutations reach deep code.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All harnesses.
pub const HARNESSES: &[Harness] = &[
    Harness {
        name: "association_datagrams",
        run: socks::association_datagrams,
        seeds: socks::association_seeds,
    },
    Harness {
        name: "authentic_packets",
        run: authentic::authentic_packets,
        seeds: authentic::authentic_seeds,
    },
    Harness {
        name: "body_windows",
        run: content::body_windows,
        seeds: content::body_seeds,
    },
    Harness {
        name: "carrier_message",
        run: carriers::carrier_message,
        seeds: carriers::message_seeds,
    },
    Harness {
        name: "carrier_upgrade",
        run: carriers::carrier_upgrade,
        seeds: carriers::upgrade_seeds,
    },
    Harness {
        name: "certificate_names",
        run: certificates::certificate_names,
        seeds: certificates::seeds,
    },
    Harness {
        name: "client_hello",
        run: client_hello::client_hello,
        seeds: client_hello::seeds,
    },
    Harness {
        name: "clientless_dns",
        run: clientless::dns_question,
        seeds: clientless::dns_seeds,
    },
    Harness {
        name: "clientless_http2",
        run: clientless::http2_request,
        seeds: clientless::http2_seeds,
    },
    Harness {
        name: "clientless_requests",
        run: clientless::request_reader,
        seeds: clientless::reader_seeds,
    },
    Harness {
        name: "content_codings",
        run: content::content_codings,
        seeds: content::coding_seeds,
    },
    Harness {
        name: "datagrams",
        run: datagrams::datagrams,
        seeds: datagrams::datagram_seeds,
    },
    Harness {
        name: "frames",
        run: packets::frames,
        seeds: packets::frame_seeds,
    },
    Harness {
        name: "gateway_backup",
        run: gateway_files::backup,
        seeds: gateway_files::backup_seeds,
    },
    Harness {
        name: "gateway_usage",
        run: gateway_files::usage,
        seeds: gateway_files::usage_seeds,
    },
    Harness {
        name: "header_set",
        run: messages::header_set,
        seeds: messages::header_seeds,
    },
    Harness {
        name: "http_proxy",
        run: carriers::http_proxy,
        seeds: carriers::http_proxy_seeds,
    },
    Harness {
        name: "image_headers",
        run: images::image_headers,
        seeds: images::image_seeds,
    },
    Harness {
        name: "images",
        run: images::images,
        seeds: images::image_seeds,
    },
    Harness {
        name: "invite",
        run: input::invite,
        seeds: input::invite_seeds,
    },
    Harness {
        name: "learned_plan",
        run: pages::learned_plan,
        seeds: pages::plan_seeds,
    },
    Harness {
        name: "link_field",
        run: pages::link_field,
        seeds: pages::link_seeds,
    },
    Harness {
        name: "link_trace",
        run: input::link_trace,
        seeds: input::trace_seeds,
    },
    Harness {
        name: "literal_urls",
        run: pages::literal_urls,
        seeds: pages::literal_seeds,
    },
    Harness {
        name: "manifest_records",
        run: manifest::manifest_records,
        seeds: manifest::manifest_seeds,
    },
    Harness {
        name: "networks_file",
        run: input::networks_file,
        seeds: input::networks_seeds,
    },
    Harness {
        name: "origin_responses",
        run: origin_responses::response,
        seeds: origin_responses::seeds,
    },
    Harness {
        name: "packets",
        run: packets::packets,
        seeds: packets::packet_seeds,
    },
    Harness {
        name: "page_css",
        run: pages::page_css,
        seeds: pages::css_seeds,
    },
    Harness {
        name: "page_html",
        run: pages::page_html,
        seeds: pages::html_seeds,
    },
    Harness {
        name: "page_policies_and_sheets",
        run: page_sheets::page_policies_and_sheets,
        seeds: page_sheets::seeds,
    },
    Harness {
        name: "picture_messages",
        run: images::picture_messages,
        seeds: images::picture_message_seeds,
    },
    Harness {
        name: "proxy_target",
        run: input::proxy_target,
        seeds: input::target_seeds,
    },
    Harness {
        name: "rules_file",
        run: input::rules_file,
        seeds: input::rules_seeds,
    },
    Harness {
        name: "session_messages",
        run: messages::session_messages,
        seeds: messages::message_seeds,
    },
    Harness {
        name: "set_cookie",
        run: pages::set_cookie,
        seeds: pages::cookie_seeds,
    },
    Harness {
        name: "request_targets",
        run: targets::request_targets,
        seeds: targets::target_seeds,
    },
    Harness {
        name: "socks_datagram",
        run: socks::socks_datagram,
        seeds: socks::socks_datagram_seeds,
    },
    Harness {
        name: "socks_messages",
        run: socks::socks_messages,
        seeds: socks::socks_seeds,
    },
    Harness {
        name: "vcdiff_decode",
        run: deltas::vcdiff_decode,
        seeds: deltas::vcdiff_decode_seeds,
    },
    Harness {
        name: "vcdiff_encode",
        run: deltas::vcdiff_encode,
        seeds: deltas::vcdiff_encode_seeds,
    },
    Harness {
        name: "warc",
        run: recordings::warc,
        seeds: recordings::warc_seeds,
    },
];

fn named(name: &str) -> &'static Harness {
    let Some(harness) = HARNESSES.iter().find(|harness| harness.name == name) else {
        panic!("no harness `{name}`")
    };
    harness
}

/// Runs the harness with this name.
///
/// # Panics
/// There is no such harness, or it found a defect.
pub fn run(name: &str, bytes: &[u8]) {
    (named(name).run)(bytes);
}

/// Writes the seeds of the harness with this name into `folder`, for a fuzzer that reads its first inputs
/// from there.
///
/// # Errors
/// A file cannot be written.
///
/// # Panics
/// There is no such harness.
pub fn write_seeds(name: &str, folder: &std::path::Path) -> std::io::Result<()> {
    for (number, seed) in (named(name).seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed)?;
    }
    Ok(())
}
