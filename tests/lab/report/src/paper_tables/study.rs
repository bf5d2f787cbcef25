//! WWAN-STUDY, Tables 4 and 6 to 9: four sites over GPRS.
use maud::Markup;

use super::{
    figures::{Figures, Loads},
    parts::{Grid, Part, Section, saved, seconds},
};
use crate::chart::{Pair, PairGroup, paired_chart, paired_file};

pub(super) const LINK: &str = "gprs-3+1";
const LEVEL: &str = "low";
/// Longhaul as a transport only: the study's UDP-GPRS replaced TCP below an ordinary proxy.
pub(super) const TRANSPORT_ALONE: &str = "chk,delta,push";

/// Seconds of one site in the study's tables.
struct Site {
    page: &'static str,
    two: f64,
    lossless: f64,
    full: f64,
    pipelined: f64,
    six: f64,
    six_full: f64,
    six_full_dns: f64,
    tcp_wwan: f64,
    udp_gprs: f64,
    no_reconf_1: f64,
    no_reconf_2: f64,
    client_reconf: f64,
}

const SITES: [Site; 4] = [
    Site {
        page: "mail",
        two: 34.5,
        lossless: 31.9,
        full: 28.4,
        pipelined: 15.2,
        six: 21.5,
        six_full: 17.7,
        six_full_dns: 16.5,
        tcp_wwan: 15.7,
        udp_gprs: 14.2,
        no_reconf_1: 15.7,
        no_reconf_2: 13.2,
        client_reconf: 12.4,
    },
    Site {
        page: "yahoo",
        two: 35.1,
        lossless: 23.6,
        full: 20.7,
        pipelined: 22.7,
        six: 24.2,
        six_full: 14.3,
        six_full_dns: 13.4,
        tcp_wwan: 11.6,
        udp_gprs: 11.4,
        no_reconf_1: 11.6,
        no_reconf_2: 11.4,
        client_reconf: 9.9,
    },
    Site {
        page: "amazon",
        two: 76.4,
        lossless: 69.2,
        full: 62.7,
        pipelined: 39.2,
        six: 43.5,
        six_full: 35.7,
        six_full_dns: 33.8,
        tcp_wwan: 30.8,
        udp_gprs: 29.9,
        no_reconf_1: 30.8,
        no_reconf_2: 27.4,
        client_reconf: 24.3,
    },
    Site {
        page: "cnn",
        two: 196.3,
        lossless: 183.1,
        full: 174.3,
        pipelined: 89.1,
        six: 123.0,
        six_full: 109.2,
        six_full_dns: 101.1,
        tcp_wwan: 96.2,
        udp_gprs: 92.7,
        no_reconf_1: 96.2,
        no_reconf_2: 65.1,
        client_reconf: 59.3,
    },
];

/// A column: its name, the paper's seconds, and today's loads.
type Column = (&'static str, fn(&Site) -> Option<f64>, Loads<'static>);

const fn direct(system: &'static str) -> Loads<'static> {
    Loads::of(LINK, system)
}

const fn proxied(system: &'static str) -> Loads<'static> {
    Loads::of(LINK, system).at(LEVEL)
}

pub(super) fn sections(figures: &Figures<'_>) -> Vec<Section> {
    vec![
        section(
            figures,
            ("study-4", "WWAN-STUDY Table 4: compression with two connections"),
            &[
                ("two connections", |site| Some(site.two), direct("direct")),
                (
                    "text compressed",
                    |site| Some(site.lossless),
                    Loads::of(LINK, "clientless-2").at("original"),
                ),
                (
                    "text and pictures",
                    |site| Some(site.full),
                    proxied("clientless-2"),
                ),
            ],
            "The proxy is Longhaul's gateway without an agent, at image level `low`, which the browser also asks about all hosts \
             on two connections for each, without name look-ups; the study's proxy was transparent. It saves more than the \
             study's, because gzip and WebP leave fewer bytes than the compressors of 2004, and because a proxy answers over \
             connections that are open already.",
        ),
        section(
            figures,
            ("study-6", "WWAN-STUDY Table 6: pipelining and six connections"),
            &[
                ("two connections", |site| Some(site.two), direct("direct")),
                (
                    "pipelining",
                    |site| Some(site.pipelined),
                    direct("direct-pipelined"),
                ),
                ("six connections", |site| Some(site.six), direct("direct-6")),
            ],
            "Pipelining and six connections save less than in the study: with the round trip of the emulated link, 0.7 s instead of \
             1 s and more, and without stalls, two connections leave the link idle for a smaller part of the load. For the same \
             reason every column is shorter than the study's.",
        ),
        section(
            figures,
            (
                "study-7",
                "WWAN-STUDY Table 7: connections and name look-ups, on top of compression",
            ),
            &[
                (
                    "compressed, two connections",
                    |site| Some(site.full),
                    proxied("clientless-2"),
                ),
                (
                    "compressed, six",
                    |site| Some(site.six_full),
                    proxied("clientless-transparent"),
                ),
                (
                    "and no look-ups",
                    |site| Some(site.six_full_dns),
                    proxied("clientless-dns"),
                ),
                ("six connections alone", |_| None, direct("direct-6")),
                ("six, names known", |_| None, direct("direct-dns")),
                ("six, URLs rewritten", |_| None, direct("url-rewriting")),
            ],
            "The first column is an explicit proxy, which looks up all names itself; in the second the gateway is a transparent \
             proxy, as the study's was, and the browser looks names up over the hop. In the third the gateway is also the name \
             server: a look-up still crosses the hop, but waits for no other server, which is only 40 ms away \
             here. The last two columns measure the look-ups by themselves: `direct-dns` knows every address, and `url-rewriting` \
             has all objects under the page's own host, so that there is one look-up and one set of connections. Longhaul rewrites \
             no URLs: it would merge the origins of all sites (docs/decisions).",
        ),
        section(
            figures,
            (
                "study-8",
                "WWAN-STUDY Table 8: the transport, on top of all before",
            ),
            &[
                ("none", |site| Some(site.six_full_dns), proxied("clientless")),
                ("TCP-WWAN", |site| Some(site.tcp_wwan), proxied("clientless")),
                (
                    "UDP-GPRS",
                    |site| Some(site.udp_gprs),
                    proxied("longhaul").without(TRANSPORT_ALONE),
                ),
                ("TCP proxy alone", |_| None, direct("tcp-proxy")),
                ("with its sender", |_| None, direct("tcp-wwan")),
            ],
            "The gateway's proxy has its own sender (decision 48), so today's first two columns are the same loads; the last two \
             compare the sender below a proxy that only splits connections, with two connections and nothing compressed. There \
             it changes nothing: the kernel's window starts with ten segments, more than this link holds, so no start is left to \
             save, and objects this small do not fill a queue. Today's third column is Longhaul without push, content hashes and \
             delta coding: each object is asked for by the browser, and crosses the hop in the session, which also codes header \
             fields and needs no handshakes. It also codes text by context mixing, which takes the processor; on a busy machine \
             this column waits for it. (The study prints 11.2 % for mail with TCP-WWAN, which its seconds do not give.)",
        ),
        section(
            figures,
            ("study-9", "WWAN-STUDY Table 9: everything together"),
            &[
                ("two connections", |site| Some(site.two), direct("direct")),
                (
                    "no client software, six connections",
                    |site| Some(site.no_reconf_1),
                    proxied("clientless"),
                ),
                (
                    "no client software, pipelining",
                    |site| Some(site.no_reconf_2),
                    proxied("clientless-pipelined"),
                ),
                (
                    "client software",
                    |site| Some(site.client_reconf),
                    proxied("longhaul"),
                ),
            ],
            "Client software is the agent with everything that it has, at image level `low`, with empty caches. The study's \
             dual proxy had text compression, delta encoding, parse-and-push and UDP-GPRS.",
        ),
    ]
}

fn section(
    figures: &Figures<'_>,
    (anchor, title): (&'static str, &'static str),
    columns: &[Column],
    why: &str,
) -> Section {
    let mut heads = vec!["site"];
    for (name, paper, _) in columns {
        if SITES.iter().any(|site| paper(site).is_some()) {
            heads.push("paper");
        }
        heads.push(name);
    }
    let caption = format!("{LINK}: seconds, and the share saved of the first column");
    let mut grid = Grid::new(&caption, &heads);
    for site in &SITES {
        let base = columns.first();
        let paper_base = base.and_then(|(_, paper, _)| paper(site));
        let today_base = base.and_then(|(_, _, loads)| figures.time(*loads, site.page));
        let with_gain = |base: Option<f64>, time: Option<f64>| match time {
            Some(_) if time != base => format!("{} ({})", seconds(time), saved(base, time)),
            Some(_) | None => seconds(time),
        };
        let mut cells = Vec::new();
        for (_, paper, loads) in columns {
            let today = figures.time(*loads, site.page);
            if let Some(time) = paper(site) {
                cells.push(with_gain(paper_base, Some(time)));
                cells.push(with_gain(today_base, today));
            } else {
                cells.push(seconds(today));
            }
        }
        grid.row(site.page, cells);
    }
    let chart = paired_chart(title, "seconds", &groups(figures, columns));
    Section {
        anchor,
        title,
        parts: vec![Part::Table(grid), Part::Chart(chart), Part::Words(why.to_owned())],
    }
}

fn groups(figures: &Figures<'_>, columns: &[Column]) -> Vec<PairGroup> {
    let group = |site: &Site| PairGroup {
        title: site.page.to_owned(),
        pairs: columns
            .iter()
            .map(|(name, paper, loads)| Pair {
                label: (*name).to_owned(),
                paper: paper(site),
                today: figures.time(*loads, site.page),
            })
            .collect(),
    };
    SITES.iter().map(group).collect()
}

/// Draws what each step saved then and today, as a file.
pub(super) fn drawing(figures: &Figures<'_>) -> Markup {
    let columns: [Column; 6] = [
        ("two connections", |site| Some(site.two), direct("direct")),
        ("six connections", |site| Some(site.six), direct("direct-6")),
        (
            "pipelining",
            |site| Some(site.pipelined),
            direct("direct-pipelined"),
        ),
        (
            "and proxy, text and pictures compressed",
            |site| Some(site.no_reconf_2),
            proxied("clientless-pipelined"),
        ),
        (
            "UDP instead of TCP, compressed",
            |site| Some(site.udp_gprs),
            proxied("longhaul").without(TRANSPORT_ALONE),
        ),
        (
            "client software, everything",
            |site| Some(site.client_reconf),
            proxied("longhaul"),
        ),
    ];
    let title = "WWAN-STUDY's four sites over GPRS: the study (2004) and Longhaul's benchmark today";
    paired_file(title, "seconds", &groups(figures, &columns))
}
