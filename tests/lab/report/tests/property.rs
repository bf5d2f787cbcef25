//! For arbitrary results files, the report is a well-formed page without markup from the file.
mod wellformed;

use longhaul_report::{
    Bar, Detail, DetailObject, Environment, Results, Row, Sample, Series, SeriesPoint, html, markdown,
    targets, text_late, text_pictures, text_replays, text_summary, text_times,
};
use proptest::prelude::*;
use wellformed::check;

/// Text that could become markup, end an attribute, control a terminal or break a table.
const HOSTILE: [&str; 12] = [
    "</td></table><script>alert(1)</script>",
    "\" onload=\"alert(1)",
    "' onmouseover='alert(1)",
    "<img src=x onerror=alert(1)>",
    "]]></svg><a href=\"javascript:alert(1)\">",
    "<!-- ",
    "</title></style><link rel=stylesheet href=//x>",
    "&lt;b&gt; &#60;",
    "\u{1b}[31m\r\n\u{0}",
    "| a | b |\n<br>",
    "\u{202e}txt.exe",
    "",
];

fn words() -> impl Strategy<Value = String> {
    let known = [
        "mail", "static", "cold", "revisit", "gprs-3+1", "lte", "direct", "longhaul", "model", "chromium",
        "low",
    ];
    prop_oneof![
        6 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned),
        2 => proptest::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| text.replace("NaN", "").replace("inf", "")),
    ]
}

fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 0.0..100.0f64,
        1 => any::<f64>(),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-0.0),
        1 => Just(f64::MAX),
        1 => Just(f64::MIN_POSITIVE),
    ]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..200_000u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn object() -> impl Strategy<Value = DetailObject> {
    let outcome = proptest::sample::select(vec!["delivered", "missing", "failed", "unfinished", "<odd>"]);
    let times = (
        figure(),
        proptest::option::of(figure()),
        proptest::option::of(figure()),
        proptest::option::of(figure()),
    );
    (words(), words(), outcome, count(), times).prop_map(|(url, class, outcome, bytes, times)| DetailObject {
        key: url.chars().rev().collect(),
        url,
        class,
        outcome: outcome.to_owned(),
        bytes,
        discovered: times.0,
        sent: times.1,
        first_byte: times.2,
        ended: times.3,
    })
}

fn detail() -> impl Strategy<Value = Detail> {
    let sample =
        (figure(), figure(), figure(), count()).prop_map(|(at, down_bps, up_bps, queue_bytes)| Sample {
            at,
            down_bps,
            up_bps,
            queue_bytes,
        });
    (
        proptest::collection::vec(object(), 0..5),
        proptest::collection::vec(sample, 0..5),
    )
        .prop_map(|(objects, samples)| Detail { objects, samples })
}

fn row() -> impl Strategy<Value = Row> {
    let names = (words(), words(), words(), words(), words(), words());
    let times = (
        figure(),
        figure(),
        figure(),
        figure(),
        figure(),
        figure(),
        figure(),
    );
    let counts = (count(), count(), count(), count(), count(), count(), count());
    let failed = prop_oneof![4 => Just(0u64), 1 => count()];
    let rest = (
        failed,
        proptest::collection::vec(words(), 0..3),
        proptest::option::of(detail()),
        proptest::option::of(figure()),
        seen(),
    );
    (names, times, counts, rest).prop_map(|(names, times, counts, rest)| Row {
        page: names.0,
        link: names.1,
        system: names.2,
        state: names.3,
        loader: names.4,
        image_level: names.5,
        time_s: times.0,
        ideal_raw_s: times.1,
        ideal_gzip_s: times.2,
        ideal_lossy_s: times.3,
        link_rtt_s: times.4,
        internet_loss: times.5,
        queue_p95_s: times.6,
        bytes_down: counts.0,
        bytes_up: counts.1,
        bytes_gzip_text: counts.2,
        bytes_image_delivered: counts.3,
        link_down_bps: counts.4,
        objects: counts.5,
        push_wasted_bytes: counts.6,
        failed: rest.0,
        errors: rest.1,
        detail: rest.2,
        pipelining_factor: rest.3,
        ..rest.4
    })
}

/// Rows with the fields of newer commands.
fn seen() -> impl Strategy<Value = Row> {
    let maybe = || proptest::option::of(figure());
    let scheme = prop_oneof![Just("http".to_owned()), words()];
    let pictures = (
        proptest::option::of(words()),
        maybe(),
        maybe(),
        proptest::option::of(any::<bool>()),
    );
    let late = (words(), words());
    (scheme, pictures, maybe(), maybe(), count(), late).prop_map(
        |(scheme, pictures, window, idle, counted, late)| Row {
            scheme,
            screenshot: pictures.0,
            screenshot_differs: pictures.1,
            screenshot_noise: pictures.2,
            screenshot_no_worse: pictures.3,
            hop_window_s: window,
            hop_idle_after_first_byte: idle,
            hop_idle_origin_s: idle,
            http_objects: counted,
            body_bytes: counted,
            first_byte_s: idle,
            forwarded: Some(counted),
            late: [(late.0, [(late.1, counted)].into())].into(),
            ..Row::default()
        },
    )
}

fn results() -> impl Strategy<Value = Results> {
    let bar = (
        words(),
        words(),
        words(),
        figure(),
        proptest::option::of(figure()),
        proptest::option::of(any::<bool>()),
    )
        .prop_map(|(id, link, system, value, limit, met)| Bar {
            id,
            link,
            system,
            value,
            limit,
            met,
        });
    let point = (figure(), figure()).prop_map(|(at, value)| SeriesPoint { at, value });
    let what = prop_oneof![
        Just("goodput, bit/s".to_owned()),
        Just("queueing delay, s".to_owned()),
        words()
    ];
    let series = (what, words(), words(), proptest::collection::vec(point, 0..6)).prop_map(
        |(what, link, system, points)| Series {
            what,
            link,
            system,
            points,
        },
    );
    let environment = (
        words(),
        words(),
        words(),
        proptest::collection::btree_map(words(), words(), 0..3),
    )
        .prop_map(|(cpu, kernel, commit, versions)| Environment {
            cpu,
            kernel,
            commit,
            versions,
            seed: 1,
            date: String::new(),
        });
    (
        environment,
        proptest::collection::vec(row(), 0..12),
        proptest::collection::vec(bar, 0..5),
        proptest::collection::vec(series, 0..5),
    )
        .prop_map(|(environment, rows, bars, series)| Results {
            environment,
            rows,
            bars,
            series,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_files_give_a_wellformed_page(files in proptest::collection::vec((words(), results()), 0..3)) {
        check(&html(&files));
        let text = markdown(&files);
        let escape = char::from(0x1b);
        prop_assert!(!text.contains(escape) && !text.contains("<img") && !text.contains("<script"));
        for line in text.lines().filter(|line| line.starts_with('|')) {
            prop_assert!(line.ends_with('|'), "{line}");
        }
        for (_, results) in &files {
            let summary = text_summary(results);
            prop_assert!(!summary.contains([escape, '\r', '\0']) && summary.ends_with('\n'));
            let beside = text_times(results) + &text_late(results) + &text_replays(results) + &text_pictures(results);
            prop_assert!(!beside.contains([escape, '\r', '\0']));
            prop_assert!(beside.is_empty() || beside.ends_with('\n'));
        }
        prop_assert!(!targets(&files).is_empty());
    }
}
