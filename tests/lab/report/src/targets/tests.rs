use super::*;
use crate::{
    papers::{REFERENCE_PAGES, STUDY_SITES},
    results::{Bar, Row},
};

/// Returns a load on a link of 80 kbit/s with a round trip of 0.6 s on the hop and 0.04 s in the Internet, of
/// a page with 20 kB of text and 30 kB of images: the lossy ideal takes 5.64 s.
fn row(page: &str, system: &str, time_s: f64) -> Row {
    Row {
        page: page.to_owned(),
        link: "gprs-3+1".to_owned(),
        system: system.to_owned(),
        state: "cold".to_owned(),
        loader: "model".to_owned(),
        image_level: "high".to_owned(),
        run: 1,
        time_s,
        ideal_raw_s: 10.64,
        ideal_gzip_s: 7.64,
        ideal_lossy_s: 5.64,
        bytes_down: 50_000,
        bytes_up: 2000,
        bytes_gzip_text: 20_000,
        bytes_image_delivered: 30_000,
        link_down_bps: 80_000,
        link_rtt_s: 0.6,
        objects: 10,
        ..Row::default()
    }
}

fn verdict(rows: Vec<Row>, what: &str) -> (Verdict, String) {
    let files = [(
        "a.json".to_owned(),
        Results {
            rows,
            ..Results::default()
        },
    )];
    let found = targets(&files)
        .into_iter()
        .find(|target| target.what.starts_with(what))
        .expect("this target");
    (found.verdict, found.measured)
}

#[test]
fn nothing_is_decided_without_rows() {
    let all = targets(&[]);
    assert!(all.len() >= 14, "{}", all.len());
    assert!(all.iter().all(|target| target.verdict == Verdict::NotMeasured));
}

#[test]
fn cold_pages_are_met_only_when_all_are_measured() {
    let what = "cold page, gprs-3+1";
    let rows = |seconds: f64| -> Vec<Row> {
        REFERENCE_PAGES
            .iter()
            .map(|page| row(page, "longhaul", seconds))
            .collect()
    };
    assert_eq!(verdict(rows(5.5), what).0, Verdict::Met);
    // The limit of each page: 1.05 x 5.64 s + 3 x 0.04 s = 6.042 s; but the median must stay below 1.
    assert_eq!(verdict(rows(6.0), what).0, Verdict::Missed);
    let few = rows(5.5).into_iter().take(3).collect();
    assert_eq!(verdict(few, what).0, Verdict::NotMeasured);
    let mut one_slow = rows(5.5);
    one_slow[0].time_s = 6.05;
    assert_eq!(verdict(one_slow.clone(), what).0, Verdict::Missed);
    one_slow[0].time_s = 6.04;
    assert_eq!(verdict(one_slow, what).0, Verdict::Met);
}

#[test]
fn a_failed_load_misses_its_target() {
    let mut rows: Vec<Row> = REFERENCE_PAGES
        .iter()
        .map(|page| row(page, "longhaul", 5.0))
        .collect();
    rows[3].failed = 1;
    let (verdict, words) = verdict(rows, "cold page, gprs-3+1");
    assert_eq!(verdict, Verdict::Missed);
    assert!(words.contains("1 loads failed"), "{words}");
}

#[test]
fn factors_compare_sums_with_direct() {
    let what = "factors on gprs-3+1";
    let mut fast = row("mail", "longhaul", 5.0);
    fast.image_level = "low".to_owned();
    fast.bytes_down = 10_000;
    fast.bytes_up = 500;
    let mut direct = row("mail", "direct", 30.0);
    direct.bytes_down = 60_000;
    direct.bytes_up = 4000;
    let (first, words) = verdict(vec![fast.clone(), direct.clone()], what);
    assert_eq!(
        (first, words.as_str()),
        (Verdict::Met, "6.00 / 6.00 / 8.00 / 6.00 over 1 pages")
    );
    direct.time_s = 29.0;
    assert_eq!(verdict(vec![fast.clone(), direct], what).0, Verdict::Missed);
    assert_eq!(verdict(vec![fast], what).0, Verdict::NotMeasured);
}

#[test]
fn study_sites_need_all_four() {
    let what = "improvement over HTTP/1.1";
    let rows = |seconds: f64| -> Vec<Row> {
        STUDY_SITES
            .iter()
            .flat_map(|site| {
                [
                    row(site.page, "longhaul", seconds),
                    row(site.page, "direct", 40.0),
                ]
            })
            .collect()
    };
    assert_eq!(verdict(rows(5.9), what).0, Verdict::Met);
    assert_eq!(verdict(rows(6.1), what).0, Verdict::Missed);
    assert_eq!(
        verdict(rows(5.9).into_iter().take(4).collect(), what).0,
        Verdict::NotMeasured
    );
    assert_eq!(
        verdict(rows(6.1).into_iter().take(4).collect(), what).0,
        Verdict::Missed
    );
}

#[test]
fn the_limit_of_revisits_is_one_round_trip_and_two_kilobytes() {
    let mut again = row("mail", "longhaul", 0.83);
    again.state = "revisit".to_owned();
    // 0.64 s + 8 x 2000 B / 80 kbit/s = 0.84 s
    assert_eq!(verdict(vec![again.clone()], "revisit").0, Verdict::Met);
    again.time_s = 0.85;
    assert_eq!(verdict(vec![again], "revisit").0, Verdict::Missed);
}

#[test]
fn loads_with_loss_are_compared_with_the_same_pages_without_loss() {
    let mut lossy = row("mail", "longhaul", 5.4);
    lossy.internet_loss = 0.05;
    let clean = row("mail", "longhaul", 5.0);
    let elsewhere = row("yahoo", "longhaul", 50.0);
    assert_eq!(
        verdict(vec![clean.clone(), elsewhere, lossy.clone()], "Internet loss").0,
        Verdict::Met
    );
    lossy.time_s = 5.6;
    assert_eq!(
        verdict(vec![clean, lossy.clone()], "Internet loss").0,
        Verdict::Missed
    );
    assert_eq!(verdict(vec![lossy], "Internet loss").0, Verdict::NotMeasured);
}

#[test]
fn fast_links_must_not_be_slower_than_direct() {
    let on_lan = |page: &str, system: &str, seconds: f64| Row {
        link: "lan-fast".to_owned(),
        ..row(page, system, seconds)
    };
    let rows = |seconds: f64| {
        vec![
            on_lan("mail", "longhaul", seconds),
            on_lan("mail", "direct", 0.10),
        ]
    };
    assert_eq!(verdict(rows(0.10), "fast link").0, Verdict::Met);
    assert_eq!(verdict(rows(0.11), "fast link").0, Verdict::Missed);
}

#[test]
fn bars_decide_the_transport() {
    let bar = |id: &str, met: Option<bool>| Bar {
        id: id.to_owned(),
        system: "longhaul".to_owned(),
        met,
        ..Bar::default()
    };
    let judged = |bars: Vec<Bar>| {
        let files = [(
            String::new(),
            Results {
                bars,
                ..Results::default()
            },
        )];
        let all = targets(&files);
        let of = |what: &str| {
            all.iter()
                .find(|target| target.what.starts_with(what))
                .map(|target| target.verdict)
        };
        (of("transport, bar 0"), of("transport, the other"))
    };
    let (zero, others) = judged(vec![
        bar("0 bundle", Some(true)),
        bar("1 bulk", Some(false)),
        bar("10 x", None),
    ]);
    assert_eq!((zero, others), (Some(Verdict::Met), Some(Verdict::Missed)));
    assert_eq!(
        judged(vec![bar("10 x", None)]),
        (Some(Verdict::NotMeasured), Some(Verdict::NotMeasured))
    );
}

#[test]
fn files_of_different_commits_are_decided_separately() {
    let file = |commit: &str, seconds: f64| {
        let mut results = Results {
            rows: vec![row("mail", "longhaul", seconds)],
            ..Results::default()
        };
        results.environment.commit = commit.to_owned();
        (format!("{commit}.json"), results)
    };
    let cold = |files: &[(String, Results)]| -> Vec<String> {
        let all = targets(files).into_iter();
        all.filter(|target| target.what.starts_with("cold page, gprs"))
            .map(|target| target.measured)
            .collect()
    };
    let apart = cold(&[file("old", 7.0), file("new", 5.0)]);
    assert_eq!(apart.len(), 2, "{apart:?}");
    assert_ne!(apart[0], apart[1]);
    assert_eq!(cold(&[file("same", 7.0), file("same", 5.0)]).len(), 1);
}
