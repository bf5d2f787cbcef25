//! Recorded pages, as recorded and over http.
use std::{fs, path::Path};

use super::{
    bench, folder, json,
    pages::{number, rows},
    path, programs, run, stderr_text, worlds,
};

/// Records a page that refers to one picture by https and to one without a scheme.
fn record(folder: &Path) {
    let mut file = Vec::new();
    let picture = "GIF89a".repeat(400);
    for (url, kind, body) in [
        (
            "https://site.example/",
            "text/html",
            "<!doctype html><title>Site</title><img src=https://cdn.example/one.gif><img src=//cdn.example/two.gif>",
        ),
        ("https://cdn.example/one.gif", "image/gif", picture.as_str()),
        ("https://cdn.example/two.gif", "image/gif", picture.as_str()),
    ] {
        let block = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n{body}");
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        );
        file.extend(record.into_bytes());
    }
    fs::write(folder.join("site.warc"), file).expect("a recording");
}

#[test]
fn a_recorded_site_is_replayed_over_http() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    record(folder.path());
    let results = path(&folder, "results.json");
    let mut command = bench(&[
        "pages",
        "--link",
        "lte",
        "--runs",
        "1",
        "--system",
        "direct,longhaul",
    ]);
    command
        .args(["--scheme", "recorded,http", "--pages"])
        .arg(folder.path());
    let output = run(command.arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let found = json(&results);
    assert_eq!(rows(&found).len(), 4);
    for row in rows(&found) {
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(3)),
            "{row}"
        );
        let over_http = if row["scheme"] == "http" { 2 } else { 0 };
        assert_eq!(row["http_objects"].as_u64(), Some(over_http), "{row}");
        assert!(number(row, "http_bytes") <= number(row, "body_bytes"), "{row}");
        if row["system"] == "longhaul" && row["scheme"] == "recorded" {
            assert_eq!(
                row["pushed_objects"].as_u64().unwrap_or(0),
                0,
                "the contents of tunnels are not counted: {row}"
            );
        }
    }
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = table.lines().find(|line| line.starts_with("site "));
    assert!(line.is_some_and(|line| line.contains("67 %")), "{table}");
}
