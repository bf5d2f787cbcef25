//! Tests of coders on texts of pages.
use std::{fs, path::Path};

use serde_json::Value;

use super::{bench, folder, json, pages::number, path, run, stderr_text};

const RATES: [u64; 4] = [40_000, 384_000, 10_000_000, 1_000_000_000];

/// Returns a recorded response.
fn answer(url: &str, content_type: &str, body: &str) -> String {
    let block = format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n{body}");
    format!(
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

/// Records one edition of a page of some 50 kB, in which the number changes.
fn record(folder: &Path, edition: u32) {
    let story = |n: u32| format!("<p>Story {n}: {:x}</p>", (n + 1).wrapping_mul(2_654_435_761));
    let page = (0..1500).map(story).collect::<String>() + &format!("<p>Edition {edition}</p>");
    let record = answer("http://news.example/", "text/html; charset=utf-8", &page);
    fs::write(folder.join(format!("news.v{edition}.warc")), record).expect("a recording");
}

fn list<'a>(of: &'a Value, field: &str) -> &'a Vec<Value> {
    of[field].as_array().expect("a list")
}

/// Returns the size of the text with a coder.
fn coded(text: &Value, coder: &str) -> f64 {
    let coders = list(text, "coders").iter();
    let found = coders
        .filter(|coding| coding["coder"] == coder)
        .collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{coder} in {text}");
    number(found[0], "bytes")
}

fn check_choices(text: &Value) {
    let rates: Vec<_> = list(text, "choices")
        .iter()
        .map(|choice| choice["link_bps"].as_u64())
        .collect();
    assert_eq!(rates, RATES.map(Some));
    for choice in list(text, "choices") {
        let sum = number(choice, "time_s") + number(choice, "bytes") * 8.0 / number(choice, "link_bps");
        assert!((sum - number(choice, "total_s")).abs() < 1e-9, "{choice}");
        let regret = number(choice, "total_s") / number(choice, "best_total_s");
        assert!((regret - number(choice, "regret")).abs() < 1e-9, "{choice}");
    }
}

#[test]
fn every_coder_codes_the_texts_of_a_generated_page() {
    let folder = folder();
    let results = path(&folder, "codec.json");
    let output = run(bench(&["codec", "--pages", "static", "--runs", "1", "--json"]).arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("40 kbit/s") && printed.contains("brotli 11"),
        "{printed}"
    );
    assert!(!printed.contains("editions"), "{printed}");
    let found = json(&results);
    assert_eq!(list(&found, "texts").len(), 1);
    assert!(list(&found, "bases").is_empty());
    for text in list(&found, "texts") {
        assert_eq!(
            (text["kind"].as_str(), text["size_class"].as_str()),
            (Some("html"), Some("< 256 KiB"))
        );
        assert_eq!(text["bytes"].as_u64(), Some(40_000));
        let whole = coded(text, "identity");
        // The body framing adds few bytes.
        assert!((40_000.0..40_100.0).contains(&whole), "{whole}");
        for coder in [
            "zstd 3",
            "zstd 9",
            "zstd 19",
            "brotli 5",
            "brotli 10",
            "brotli 11",
        ] {
            assert!(coded(text, coder) < 0.7 * whole, "{text}");
        }
        check_choices(text);
        for choice in list(text, "choices") {
            assert!(
                number(choice, "regret") >= 1.0,
                "the choice must be one of the candidates: {choice}"
            );
        }
    }
}

/// Coders that use a base or a dictionary.
const BASED: [&str; 7] = [
    "zstd 3",
    "zstd 9",
    "zstd 19",
    "brotli 5",
    "brotli 9",
    "brotli 10",
    "brotli 11",
];

#[test]
fn the_previous_edition_is_a_base() {
    let folder = folder();
    for edition in 1..=2 {
        record(folder.path(), edition);
    }
    let results = path(&folder, "codec.json");
    let place = format!("{}:news", folder.path().display());
    let output = run(bench(&["codec", "--runs", "1", "--pages", &place, "--json"]).arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        printed.contains("editions: 1 texts changed, 0 did not"),
        "{printed}"
    );
    let found = json(&results);
    assert_eq!(
        list(&found, "texts").len(),
        1,
        "the first edition, without a base"
    );
    assert_eq!(list(&found, "bases").len(), 1);
    for text in list(&found, "bases") {
        assert_eq!(
            (text["edition"].as_u64(), text["bytes"].as_u64()),
            (Some(2), text["base_bytes"].as_u64())
        );
        for coder in BASED {
            let based = coded(text, &format!("base, {coder}"));
            assert!(based < 0.1 * coded(text, "brotli 11"), "{text}");
        }
        check_choices(text);
        let slow = &list(text, "choices")[0]["coder"];
        assert!(
            slow.as_str().is_some_and(|coder| coder.starts_with("base, ")),
            "{slow}"
        );
    }
}

#[test]
fn a_style_sheet_is_coded_with_a_dictionary() {
    let folder = folder();
    let styles = (0..40)
        .map(|n| {
            format!(
                ".a{n} {{ position: absolute; top: {n}px; left: 0; width: 100%; box-sizing: border-box }}\n"
            )
        })
        .collect::<String>();
    let page = "<!doctype html><link rel=stylesheet href=/site.css><p>";
    let record = answer("http://site.example/", "text/html", page)
        + &answer("http://site.example/site.css", "text/css", &styles);
    fs::write(folder.path().join("site.warc"), record).expect("a recording");
    let results = path(&folder, "codec.json");
    let place = format!("{}:site", folder.path().display());
    let output = run(bench(&["codec", "--runs", "1", "--pages", &place, "--json"]).arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("texts with a dictionary"), "{printed}");
    let found = json(&results);
    let sheets = || list(&found, "texts").iter().filter(|text| text["kind"] == "css");
    assert_eq!(sheets().count(), 1);
    for text in sheets() {
        for coder in BASED {
            let with = coded(text, &format!("dictionary, {coder}"));
            assert!(with > 0.0 && with < coded(text, "identity"), "{text}");
        }
        check_choices(text);
    }
}

#[test]
fn errors_are_reported_before_the_measurements() {
    let output = run(&mut bench(&["codec", "--pages", "statik"]));
    assert!(
        !output.status.success() && stderr_text(&output).contains("`statik`"),
        "{}",
        stderr_text(&output)
    );
    let output = run(&mut bench(&[
        "codec",
        "--pages",
        "static",
        "--json",
        "/nowhere/codec.json",
    ]));
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(
        stderr_text(&output).contains("/nowhere/codec.json"),
        "{}",
        stderr_text(&output)
    );
}
