//! The report as a whole: any file gives a well-formed page, and nothing in it becomes markup.
mod sample;
mod wellformed;

use longhaul_report::{Results, html, markdown, text_summary};
use wellformed::check;

#[test]
fn sample_gives_a_whole_page() {
    let files = [("sample.json".to_owned(), sample::results())];
    let page = html(&files);
    check(&page);
    for anchor in [
        "failures",
        "targets",
        "summary",
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
fn nothing_gives_a_sensible_page() {
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
        "the medians are those of the loads that count"
    );
    assert_eq!((fast[5].as_str(), without[5].as_str()), ("1", "0"), "{fast:?}");
}

#[test]
fn many_and_huge_loads_stay_small() {
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
    assert!(page.contains("waterfalls are left out") && page.contains("further objects are not drawn"));
    check(&page);
}

#[test]
#[should_panic(expected = "wrong end tag")]
fn the_check_sees_crossed_tags() {
    check("<!DOCTYPE html><p><b></p></b>");
}

#[test]
#[should_panic(expected = "attribute near")]
fn the_check_sees_handlers() {
    check("<!DOCTYPE html><p onclick=\"x()\"></p>");
}
