use super::*;
use crate::results::Row;

fn row(page: &str, system: &str, time_s: f64) -> Row {
    Row {
        page: page.to_owned(),
        link: "gprs-3+1".to_owned(),
        system: system.to_owned(),
        state: "cold".to_owned(),
        loader: "model".to_owned(),
        image_level: "low".to_owned(),
        run: 1,
        time_s,
        objects: 3,
        bytes_down: 1000,
        bytes_up: 100,
        ..Row::default()
    }
}

fn report(rows: Vec<Row>) -> PaperReport {
    let results = Results {
        rows,
        ..Results::default()
    };
    PaperReport {
        files: vec![("study.json".to_owned(), results)],
        ..PaperReport::default()
    }
}

#[test]
fn figures_stand_beside_those_of_the_paper() {
    let report = report(vec![row("mail", "direct", 20.0), row("mail", "longhaul", 5.0)]);
    let text = report.markdown();
    let line = text
        .lines()
        .skip_while(|line| !line.contains("Table 9"))
        .find(|line| line.starts_with("| mail |"))
        .unwrap();
    assert!(
        line.contains("12.4 (64 %)") && line.contains("5.00 (75 %)"),
        "{line}"
    );
    assert!(report.html().contains("What could not be repeated"));
    assert!(report.drawing().starts_with("<svg xmlns="));
}

#[test]
fn loads_without_a_technique_are_no_loads_with_everything() {
    let mut switched = row("mail", "longhaul", 10.0);
    switched.without = vec!["push".to_owned()];
    let mut base = row("mail", "longhaul", 5.0);
    for row in [&mut switched, &mut base] {
        row.image_level = "medium".to_owned();
    }
    let text = report(vec![base, switched]).markdown();
    assert!(text.contains("| without push | 2.00 |"), "{text}");
    assert!(text.contains("| without chk | – |"), "{text}");
}

#[test]
fn a_report_without_loads_has_dashes() {
    let report = PaperReport::default();
    assert!(report.markdown().contains("| mail |"));
    assert!(report.drawing().is_empty());
}

#[test]
fn loads_with_a_warm_gateway_take_the_place_of_cold_ones() {
    let mut warm = row("mail", "longhaul", 5.0);
    warm.state = "second-device".to_owned();
    let text = report(vec![row("mail", "direct", 20.0), warm.clone()]).markdown();
    assert!(text.contains("5.00 (75 %)"), "{text}");
    let text = report(vec![
        row("mail", "direct", 20.0),
        warm,
        row("mail", "longhaul", 4.0),
    ])
    .markdown();
    assert!(
        text.contains("4.00 (80 %)") && !text.contains("5.00 (75 %)"),
        "{text}"
    );
}
