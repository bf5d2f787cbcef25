//! The complete report: any file gives a well-formed page without markup from the file.
mod sample;
mod wellformed;

use longhaul_report::{
    Results, Row, html, markdown, text_late, text_pictures, text_replays, text_summary, text_times,
};
use wellformed::check;

#[test]
fn the_sample_gives_a_complete_page() {
    let files = [("sample.json".to_owned(), sample::results())];
    let page = html(&files);
    check(&page);
    for anchor in [
        "failures",
        "targets",
        "summary",
        "idle",
        "returns",
        "pages",
        "factors",
        "effects",
        "transport",
        "waterfalls",
        "environment",
    ] {
        assert!(
            page.contains(&format!("<section id=\"{anchor}\"")),
            "no section {anchor}"
        );
    }
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(folder.join("report.html"), &page).expect("a writable folder");
    println!(
        "{}\n{}",
        folder.join("report.html").display(),
        text_summary(&files[0].1)
    );
    println!("{}", markdown(&files));
}

#[test]
fn no_results_give_a_valid_page() {
    let page = html(&[]);
    check(&page);
    assert!(page.contains("No rows") && page.contains("not measured"));
    let empty = Results::default();
    assert_eq!(text_summary(&empty), "no rows\n");
    check(&html(&[("empty.json".to_owned(), empty)]));
}

#[test]
fn failed_loads_do_not_make_a_system_look_fast() {
    let mut results = sample::results();
    results.rows.retain(|row| {
        row.link == "lte" && row.page == "mail" && row.state == "cold" && row.loader == "model"
    });
    for row in results
        .rows
        .iter_mut()
        .filter(|row| row.system == "squid" && row.run == 1)
    {
        row.time_s = 0.001;
        row.failed = 10;
        row.errors = vec!["<b>gone</b>".to_owned()];
    }
    let fast = text_summary(&results);
    results.rows.retain(|row| row.failed == 0);
    let without = text_summary(&results);
    let ratio = |text: &str| -> Vec<String> {
        let line = text
            .lines()
            .find(|line| line.contains("squid"))
            .expect("a line")
            .to_owned();
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (fast, without) = (ratio(&fast), ratio(&without));
    assert_eq!(
        fast[6..],
        without[6..],
        "the medians are those of the valid loads"
    );
    assert_eq!((fast[5].as_str(), without[5].as_str()), ("1", "0"), "{fast:?}");
}

/// Returns a row of a load in Chromium with half of the bytes over http, and with a screenshot.
fn pictured(system: &str, run: u32, differs: Option<f64>, noise: Option<f64>) -> Row {
    Row {
        page: "portal".to_owned(),
        link: "umts-384".to_owned(),
        system: system.to_owned(),
        state: "cold".to_owned(),
        loader: "chromium".to_owned(),
        image_level: "original".to_owned(),
        scheme: "http".to_owned(),
        run,
        time_s: 2.0,
        objects: 10,
        http_objects: 5,
        body_bytes: 100_000,
        http_bytes: 75_000,
        screenshot: Some(format!("portal_{system}_{run}.png")),
        screenshot_differs: differs,
        screenshot_mean_difference: differs.map(|differs| differs / 2.0),
        screenshot_noise: noise,
        screenshot_no_worse: differs.zip(noise).map(|(differs, noise)| differs <= noise),
        ..Row::default()
    }
}

#[test]
fn screenshots_and_replays_have_separate_tables() {
    let noise = Some(0.02);
    let rows = vec![
        pictured("direct", 1, noise, noise),
        pictured("direct", 2, noise, noise),
        pictured("longhaul", 1, Some(0.01), noise),
        pictured("longhaul", 2, Some(0.3), noise),
        pictured("squid", 1, Some(0.0), noise),
    ];
    let results = Results {
        rows,
        ..Results::default()
    };
    let text = text_pictures(&results);
    println!("{text}");
    let line = |system: &str| {
        let found = text.lines().find(|line| line.contains(system));
        found.unwrap_or_else(|| panic!("no {system}")).to_owned()
    };
    assert!(line("longhaul").ends_with("worse") && !line("longhaul").ends_with("no worse"));
    assert!(line("longhaul").contains("30 %") && line("squid").ends_with("no worse"));
    assert!(text.ends_with("pictures: 2 of 3 no worse than direct compared with direct\n"));
    let replays = text_replays(&results);
    println!("{replays}");
    let line = replays.lines().nth(1).expect("a page");
    assert!(line.contains("50 %") && line.contains("75 %"), "{line}");
    let page = html(&[("pictures.json".to_owned(), results)]);
    check(&page);
    assert!(page.contains("<section id=\"pictures\"") && page.contains("replayed over http"));

    let undecided = Results {
        rows: vec![
            pictured("direct", 1, None, None),
            pictured("longhaul", 1, Some(0.5), None),
        ],
        ..Results::default()
    };
    assert!(text_pictures(&undecided).contains("2 undecided, which requires two runs of direct"));
    let sample = sample::results();
    assert_eq!(text_pictures(&sample) + &text_replays(&sample), "");
}

/// Returns a row of a page that another device visited before, loaded by a browser that paints or does not.
fn second_device(loader: &str, paint: Option<f64>, late: u64) -> Row {
    Row {
        state: "second-device".to_owned(),
        loader: loader.to_owned(),
        first_byte_s: Some(0.5),
        first_paint_s: paint,
        largest_paint_s: paint.map(|paint| paint + 0.25),
        forwarded: Some(late + 1),
        late: [("script".to_owned(), [("not planned".to_owned(), late)].into())].into(),
        lessons_refused_before: [("credentials".to_owned(), 2)].into(),
        ..pictured("longhaul", 1, None, None)
    }
}

#[test]
fn first_byte_paints_and_late_requests_have_columns() {
    let mut rows = vec![
        second_device("chromium", Some(0.75), 3),
        second_device("model", None, 0),
    ];
    rows[1].late.clear();
    let results = Results {
        rows,
        ..Results::default()
    };
    let words = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines().skip(1);
        lines
            .map(|line| line.split_whitespace().rev().take(5).map(str::to_owned).collect())
            .collect()
    };
    let times = words(&text_times(&results));
    assert_eq!(
        times[0],
        ["1.00", "–", "–", "0.500", "2.00"],
        "the scripted browser"
    );
    assert_eq!(times[1], ["4.00", "1.00", "0.750", "0.500", "2.00"]);
    let late = text_late(&results);
    println!("{late}");
    let lines: Vec<String> = late
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert!(lines[1].ends_with("not taught before credentials 2.00"), "{late}");
    assert!(lines[3].ends_with("script not planned 3.00"), "{late}");
    let page = html(&[("late.json".to_owned(), results.clone())]);
    check(&page);
    assert!(page.contains("first byte 0.500, first paint 0.750, largest paint 1.00"));
    let document = markdown(&[("late.json".to_owned(), results)]);
    assert!(
        document.contains("; 0.500, 0.750, 1.00 |") && document.contains("| script | not planned | 3.00 |")
    );
    assert_eq!(text_late(&sample::results()), "");
}

#[test]
fn rows_of_an_older_command_are_read() {
    let mut value = serde_json::to_value(pictured("direct", 1, None, None)).expect("JSON");
    let fields = value.as_object_mut().expect("a row");
    fields.retain(|name, _| !["scheme", "body_bytes", "http_objects", "http_bytes"].contains(&name.as_str()));
    let row: Row = serde_json::from_value(value).expect("an older row");
    assert_eq!((row.scheme.as_str(), row.http_objects), ("recorded", 0));
}

#[test]
fn many_large_loads_give_a_small_page() {
    let mut results = sample::results();
    let row = results
        .rows
        .iter()
        .find(|row| row.detail.is_some())
        .expect("a detail")
        .clone();
    results.rows = (0..80)
        .map(|index| {
            let mut row = row.clone();
            row.page = format!("page-{index}");
            if let Some(detail) = &mut row.detail {
                detail.objects = detail.objects.iter().cycle().take(3000).cloned().collect();
                detail.samples = detail.samples.iter().cycle().take(20_000).copied().collect();
            }
            row
        })
        .collect();
    let page = html(&[("huge.json".to_owned(), results)]);
    assert!(page.len() < 15_000_000, "{} bytes", page.len());
    assert!(page.contains("waterfalls are omitted") && page.contains("further objects are omitted"));
    check(&page);
}

#[test]
#[should_panic(expected = "wrong end tag")]
fn the_parser_rejects_crossed_tags() {
    check("<!DOCTYPE html><p><b></p></b>");
}

#[test]
#[should_panic(expected = "attribute near")]
fn the_parser_rejects_event_handlers() {
    check("<!DOCTYPE html><p onclick=\"x()\"></p>");
}
