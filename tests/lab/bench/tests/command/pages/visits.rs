//! Second visits, with and without what the first one left in caches, and visits by a second device.
use std::collections::BTreeSet;

use serde_json::Value;

use super::{number, rows};
use crate::{bench, folder, json, path, programs, run, stderr_text, worlds};

#[test]
fn an_earlier_visit_leaves_validators_in_the_browsers_own_cache_only() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&[
        "pages",
        "--link",
        "edge",
        "--pages",
        "altavista",
        "--system",
        "direct",
        "--runs",
        "1",
    ]);
    command
        .args(["--state", "cold,revisit,warm,next-edition,sibling", "--json"])
        .arg(&results);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", stderr_text(&output));
    let results = json(&results);
    let of = |state: &str| {
        rows(&results)
            .iter()
            .find(|row| row["state"] == state)
            .expect("a row of each state")
            .clone()
    };
    let (cold, revisit, warm) = (of("cold"), of("revisit"), of("warm"));
    let states: BTreeSet<_> = rows(&results)
        .iter()
        .map(|row| row["state"].to_string())
        .collect();
    assert_eq!(states.len(), 5);
    // Without a browser cache and without Longhaul, everything is loaded again.
    assert!(number(&revisit, "bytes_down") > 0.9 * number(&cold, "bytes_down"));
    assert!(
        number(&warm, "bytes_down") < 0.7 * number(&cold, "bytes_down"),
        "{warm}"
    );
    assert_eq!(warm["objects"], cold["objects"]);
}

/// The counts by class and reason.
fn reasons(late: &Value) -> impl Iterator<Item = &Value> {
    let classes = late.as_object().into_iter().flatten();
    classes.flat_map(|(_, reasons)| reasons.as_object().into_iter().flatten().map(|(_, count)| count))
}

#[test]
fn second_visits_and_second_devices_load_completely() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let (results, report) = (path(&folder, "results.json"), path(&folder, "report.html"));
    let mut command = bench(&["pages", "--link", "umts-384", "--pages", "mail", "--runs", "1"]);
    command
        .args([
            "--system",
            "direct,longhaul",
            "--state",
            "cold,revisit,warm,second-device,third-device",
            "--json",
        ])
        .arg(&results);
    let output_of_pages = run(&mut command);
    assert!(
        output_of_pages.status.success(),
        "{}",
        stderr_text(&output_of_pages)
    );
    let found = json(&results);
    assert_eq!(rows(&found).len(), 10);
    for row in rows(&found) {
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(11)),
            "{row}"
        );
        let (taken, pushed) = (row["push_taken_bytes"].as_u64(), row["pushed_bytes"].as_u64());
        assert!(taken <= pushed, "more used than pushed: {row}");
        if let (Some(taken), Some(pushed @ 1..)) =
            (row["push_taken_objects"].as_u64(), row["pushed_objects"].as_u64())
        {
            #[expect(clippy::cast_precision_loss, reason = "objects of a page")]
            let share = taken as f64 / pushed as f64;
            assert!((number(row, "push_useful_objects") - share).abs() < 1e-9, "{row}");
        }
        let late: u64 = reasons(&row["late"]).filter_map(Value::as_u64).sum();
        if row["system"] == "direct" {
            assert_eq!((pushed, &row["forwarded"]), (None, &Value::Null), "{row}");
        } else {
            // That of the page, and those that no plan answers.
            assert_eq!(row["forwarded"].as_u64(), Some(late + 1), "{row}");
        }
        assert!(number(row, "first_byte_s") <= number(row, "time_s"), "{row}");
        assert_eq!(row["first_paint_s"], Value::Null, "{row}");
    }
    let of = |system: &str, state: &str| {
        let wanted = |row: &&Value| row["system"] == system && row["state"] == state;
        rows(&found)
            .iter()
            .find(wanted)
            .expect("a row of each state")
            .clone()
    };
    // Another device's caches are empty, so the bodies cross the hop again; at a revisit they do not.
    let (cold, revisit) = (of("longhaul", "cold"), of("longhaul", "revisit"));
    for state in ["second-device", "third-device"] {
        let other = of("longhaul", state);
        assert!(
            number(&other, "bytes_down") > 0.7 * number(&cold, "bytes_down"),
            "{other}"
        );
    }
    assert!(
        number(&revisit, "bytes_down") < 0.2 * number(&cold, "bytes_down"),
        "{revisit}"
    );
    assert!(
        number(&of("longhaul", "warm"), "time_s") < number(&of("direct", "warm"), "time_s"),
        "{found}"
    );
    let output = run(bench(&["report"]).arg(&results).arg("--out").arg(&report));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let html = std::fs::read_to_string(&report).expect("a report");
    assert!(html.contains("Second visits") && html.contains("third-device"));
    let printed = String::from_utf8_lossy(&output_of_pages.stdout).into_owned();
    assert!(
        printed.contains("first byte") && printed.contains("forwarded"),
        "{printed}"
    );
}
