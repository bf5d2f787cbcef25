//! A results file like that of a long run. Every figure is generated, none is measured.
use longhaul_report::{Bar, Detail, DetailObject, Environment, Results, Row, Sample, Series, SeriesPoint};

/// Name, bits per second down and up, round-trip time of the hop.
const LINKS: &[(&str, u32, u32, f64)] = &[
    ("gprs-3+1", 39_600, 13_400, 0.66),
    ("umts-384", 384_000, 64_000, 0.26),
    ("lte", 12_000_000, 5_000_000, 0.063),
    ("geo-sat", 20_000_000, 2_000_000, 0.602),
    ("lan-fast", 100_000_000, 100_000_000, 0.005),
];
/// Name, kB, objects.
const PAGES: &[(&str, f64, u32)] = &[
    ("mail", 36.7, 11),
    ("yahoo", 60.3, 16),
    ("amazon", 91.9, 42),
    ("cnn", 186.8, 67),
    ("static", 88.3, 46),
];
/// Name, level, ratio of the seconds to the ideal, round trips per object, share of bytes.
const SYSTEMS: &[(&str, &str, f64, f64, f64)] = &[
    ("longhaul", "high", 1.01, 0.01, 0.72),
    ("longhaul", "low", 1.01, 0.01, 0.3),
    ("direct", "original", 1.2, 0.45, 1.12),
    ("direct-6", "original", 1.12, 0.17, 1.15),
    ("direct-pipelined", "original", 1.05, 0.1, 1.08),
    ("tcp-proxy", "original", 1.3, 0.45, 1.14),
    ("squid", "original", 1.2, 0.4, 1.13),
];

/// SplitMix64: sufficient for a sample, and the same on all platforms.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to 1.
    pub(crate) fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        f64::from(u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }
}

fn whole(value: f64) -> u64 {
    format!("{:.0}", value.max(0.0)).parse().unwrap_or(0)
}

/// The whole sample.
pub(crate) fn results() -> Results {
    let mut dice = Dice::new(7);
    let mut rows = Vec::new();
    for link in LINKS {
        for page in PAGES {
            for system in SYSTEMS {
                rows.extend(
                    (1..=5).map(|run| row(&mut dice, *link, *page, *system, "cold", "model", run, 0.0)),
                );
            }
            rows.extend(
                (1..=3).map(|run| row(&mut dice, *link, *page, SYSTEMS[0], "revisit", "model", run, 0.0)),
            );
        }
        for system in [SYSTEMS[0], SYSTEMS[2], SYSTEMS[6]] {
            rows.extend(
                (1..=3).map(|run| row(&mut dice, *link, PAGES[4], system, "cold", "chromium", run, 0.0)),
            );
        }
    }
    for loss in [0.01, 0.02, 0.03, 0.05] {
        for page in &PAGES[..3] {
            for system in [SYSTEMS[0], SYSTEMS[2], SYSTEMS[5], SYSTEMS[6]] {
                rows.extend(
                    (1..=3).map(|run| row(&mut dice, LINKS[1], *page, system, "cold", "model", run, loss)),
                );
            }
        }
    }
    for row in rows
        .iter_mut()
        .filter(|row| row.system == "squid" && row.page == "cnn" && row.run > 3)
    {
        row.failed = 2;
        row.errors = vec!["http://i.cnn.example/logo.gif: connection reset before the last byte".to_owned()];
    }
    for row in rows
        .iter_mut()
        .filter(|row| row.system == "tcp-proxy" && row.page == "amazon" && row.link == "lte")
    {
        row.failed = 1;
        row.errors = vec!["http://g.amazon.example/nav.js: timed out".to_owned()];
    }
    Results {
        environment: environment(),
        rows,
        bars: bars(),
        series: series(&mut dice),
    }
}

fn environment() -> Environment {
    let versions = [
        ("congestion control", "cubic (client, origins)"),
        ("squid", "5.7"),
        ("chromium", "120.0"),
    ];
    Environment {
        cpu: "generated sample: nothing here is measured".to_owned(),
        kernel: "6.1.0".to_owned(),
        versions: versions
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .into(),
        commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        seed: 7,
        date: "2004-11-21T06:00:00Z".to_owned(),
    }
}

fn row(
    dice: &mut Dice,
    link: (&str, u32, u32, f64),
    page: (&str, f64, u32),
    system: (&str, &str, f64, f64, f64),
    state: &str,
    loader: &str,
    run: u32,
    loss: f64,
) -> Row {
    let (name, down, _, rtt) = link;
    let rate = f64::from(down);
    let latency = rtt + 0.04;
    let raw = page.1 * 1000.0;
    let (text, images) = (raw * 0.45 * 0.3, raw * 0.55);
    let delivered = match system.1 {
        "high" => images * 0.8,
        "low" => images * 0.2,
        _ => images,
    };
    let ideal = |bytes: f64| latency + 8.0 * bytes / rate;
    let bytes = if state == "revisit" { 900.0 } else { raw * system.4 };
    let penalty = f64::from(page.2) * system.3 * latency * (1.0 + loss * 25.0 * system.3);
    let paint = if loader == "chromium" { 0.22 } else { 0.0 };
    let time = (latency + 8.0 * bytes * system.2 / rate + penalty + paint) * (0.98 + dice.roll() * 0.08);
    let longhaul = system.0 == "longhaul";
    let mut row = Row {
        page: page.0.to_owned(),
        link: name.to_owned(),
        system: system.0.to_owned(),
        state: state.to_owned(),
        loader: loader.to_owned(),
        image_level: system.1.to_owned(),
        run,
        internet_loss: loss,
        time_s: time,
        first_paint_s: (loader == "chromium").then_some(time * 0.4),
        largest_paint_s: (loader == "chromium").then_some(time * 0.8),
        ideal_raw_s: ideal(raw),
        ideal_gzip_s: ideal(text + images),
        ideal_lossy_s: ideal(text + delivered),
        bytes_down: whole(bytes * 1.05),
        bytes_up: whole(if longhaul {
            2500.0
        } else {
            f64::from(page.2) * 480.0
        }),
        origin_bytes: whole(raw * 1.1),
        bytes_gzip_text: whole(text),
        bytes_image_delivered: whole(delivered),
        link_down_bps: u64::from(down),
        link_rtt_s: rtt,
        objects: u64::from(page.2),
        connections: if longhaul { 0 } else { 6 },
        dns_lookups: if longhaul { 0 } else { 3 },
        pipelining_factor: (loader == "model").then_some(1.0 + system.3),
        hop_idle_while_missing: (penalty / time).min(0.9),
        scheme: "recorded".to_owned(),
        body_bytes: whole(raw),
        http_objects: u64::from(page.2),
        http_bytes: whole(raw),
        hop_window_s: Some(time - latency),
        hop_idle_after_first_byte: Some((penalty / time).min(0.8)),
        hop_idle_origin_s: Some((penalty / time).min(0.8) * (time - latency) * 0.5),
        hop_idle_gateway_s: Some(0.0),
        hop_idle_request_s: Some((penalty / time).min(0.8) * (time - latency) * 0.5),
        hop_idle_without_origin: Some((penalty / time).min(0.8) * 0.6),
        queue_p95_s: if longhaul { 0.12 } else { 0.9 * dice.roll() },
        hop_idle_share: Some((penalty / time + 0.05).min(1.0)),
        push_wasted_bytes: if longhaul { 310 } else { 0 },
        pushed_bytes: longhaul.then(|| whole(bytes)),
        pushed_objects: longhaul.then(|| u64::from(page.2)),
        push_taken_bytes: longhaul.then(|| whole(bytes * 0.9)),
        push_taken_objects: longhaul.then(|| u64::from(page.2) - 1),
        cache_hits: longhaul.then_some(2),
        rss_agent_bytes: longhaul.then_some(31_000_000),
        rss_gateway_bytes: longhaul.then_some(52_000_000),
        cpu_agent_s: if longhaul { 0.021 } else { 0.0 },
        cpu_gateway_s: if system.0.starts_with("direct") {
            0.0
        } else {
            0.043
        },
        ..Row::default()
    };
    if run == 2 && loss == 0.0 {
        row.detail = Some(detail(dice, &row, rate));
    }
    row
}

fn detail(dice: &mut Dice, row: &Row, rate: f64) -> Detail {
    let classes = [
        "document", "style", "script", "image", "image", "image", "font", "image",
    ];
    let mut objects = Vec::new();
    for index in 0..row.objects {
        let share = |value: u64| {
            f64::from(u32::try_from(value).unwrap_or(0)) / f64::from(u32::try_from(row.objects).unwrap_or(1))
        };
        let ended = row.time_s * (0.12 + 0.88 * share(index + 1));
        let taking = row.time_s * 0.1 * dice.roll();
        let first_byte = (ended - taking).max(row.link_rtt_s.min(ended));
        let sent = (first_byte - row.link_rtt_s - 0.04).max(0.0);
        let outcome = match index {
            7 => "missing",
            9 => "failed",
            12 => "unfinished",
            _ => "delivered",
        };
        let class = classes[usize::try_from(index).unwrap_or(0) % classes.len()];
        objects.push(DetailObject {
            key: String::new(),
            url: if index == 0 {
                format!("http://www.{}.example/", row.page)
            } else {
                format!(
                    "http://images{}.{}.example/2004/11/21/section/{class}-{index}.bin?v=3",
                    index % 3,
                    row.page
                )
            },
            class: class.to_owned(),
            outcome: outcome.to_owned(),
            bytes: whole(300.0 + 6000.0 * dice.roll()),
            discovered: if index == 0 {
                0.0
            } else {
                (sent * 0.5).min(row.time_s * 0.2)
            },
            sent: Some(sent),
            first_byte: (outcome == "delivered").then_some(first_byte),
            ended: (outcome != "unfinished").then_some(ended),
        });
    }
    let samples = (0..200u32)
        .map(|index| Sample {
            at: row.time_s * f64::from(index) / 199.0,
            down_bps: if dice.roll() > row.hop_idle_while_missing {
                rate
            } else {
                rate * 0.2
            },
            up_bps: rate * 0.08 * dice.roll(),
            queue_bytes: whole(9000.0 * dice.roll()),
        })
        .collect();
    Detail { objects, samples }
}

fn bars() -> Vec<Bar> {
    let bar = |id: &str, link: &str, system: &str, value: f64, limit: Option<f64>, met: Option<bool>| Bar {
        id: id.to_owned(),
        link: link.to_owned(),
        system: system.to_owned(),
        value,
        limit,
        met,
    };
    vec![
        bar(
            "1 bulk utilisation",
            "gprs-3+1",
            "longhaul",
            0.988,
            Some(0.92),
            Some(true),
        ),
        bar("1 bulk utilisation", "gprs-3+1", "cubic", 0.97, None, None),
        bar("1 bulk utilisation", "gprs-3+1", "bbr", 0.96, None, None),
        bar(
            "1 bulk queue p95, s",
            "gprs-3+1",
            "longhaul",
            0.95,
            Some(1.0),
            Some(true),
        ),
        bar("1 bulk queue p95, s", "gprs-3+1", "cubic", 12.8, None, None),
        bar(
            "1 bulk queue p95, s",
            "umts-384",
            "longhaul",
            0.26,
            Some(0.23),
            Some(false),
        ),
        bar(
            "0 bundle busy share",
            "umts-384",
            "longhaul",
            0.991,
            Some(0.985),
            Some(true),
        ),
        bar(
            "10 priority delay, s",
            "umts-384",
            "longhaul",
            0.1,
            Some(0.2),
            Some(true),
        ),
    ]
}

fn series(dice: &mut Dice) -> Vec<Series> {
    let mut series = Vec::new();
    for (link, rate) in [("gprs-3+1", 39_600.0), ("umts-384", 384_000.0)] {
        for (system, share, delay) in [
            ("longhaul", 0.97, 0.4),
            ("cubic", 0.95, 6.0),
            ("bbr", 0.93, 1.6),
            ("quinn", 0.9, 3.0),
        ] {
            let mut curve = |what: &str, value: &dyn Fn(f64, f64) -> f64| Series {
                what: what.to_owned(),
                link: link.to_owned(),
                system: system.to_owned(),
                points: (0..240u32)
                    .map(|index| {
                        let at = f64::from(index) / 4.0;
                        SeriesPoint {
                            at,
                            value: value(at, dice.roll()),
                        }
                    })
                    .collect(),
            };
            series.push(curve("goodput, bit/s", &|at, roll| {
                rate * share * (1.0 - (-at).exp()) * (0.95 + 0.05 * roll)
            }));
            series.push(curve("queueing delay, s", &|at, roll| {
                delay * (1.0 - (-at / 4.0).exp()) * (0.7 + 0.3 * roll)
            }));
        }
    }
    series
}
