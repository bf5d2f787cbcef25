//! Loads without techniques of Longhaul, and the papers' systems.
use serde_json::Value;

use super::{number, rows};
use crate::{bench, folder, json, path, programs, run, stderr_text, worlds};

fn load(arguments: &[&str]) -> Option<Value> {
    if !worlds() || !programs() {
        return None;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--link", "umts-384", "--pages", "mail", "--runs", "1"]);
    let output = run(command.args(arguments).arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    Some(json(&results))
}

#[test]
fn rows_name_the_techniques_that_were_off() {
    let Some(results) = load(&[
        "--system",
        "longhaul,direct",
        "--without",
        "none",
        "--without",
        "push,headers",
        "--only",
        "push",
    ]) else {
        return;
    };
    let of = |system: &str, count: usize| {
        let off = |row: &&Value| row["without"].as_array().map_or(0, Vec::len) == count;
        let found = rows(&results).iter().filter(|row| row["system"] == system);
        found.clone().find(off).cloned()
    };
    assert_eq!(rows(&results).len(), 4, "one load of the system without switches");
    let (usual, without, only) = (
        of("longhaul", 0).unwrap(),
        of("longhaul", 2).unwrap(),
        of("longhaul", 11).unwrap(),
    );
    assert_eq!(without["without"], serde_json::json!(["push", "headers"]));
    assert!(number(&usual, "pushed_objects") > 0.0 && number(&only, "pushed_objects") > 0.0);
    assert_eq!(number(&without, "pushed_objects"), 0.0);
    assert!(number(&without, "bytes_up") > number(&usual, "bytes_up") * 2.0);
    // 1.45 times as many: nothing is compressed.
    assert!(number(&only, "bytes_down") > number(&usual, "bytes_down") * 1.4);
    for row in rows(&results) {
        assert_eq!(row["failed"].as_u64(), Some(0), "{row}");
    }
}

#[test]
fn names_and_hosts_can_cost_nothing() {
    let Some(results) = load(&[
        "--system",
        "direct-6,direct-dns,url-rewriting,tcp-wwan-pipelined",
        "--outstanding",
        "3",
    ]) else {
        return;
    };
    let of = |system: &str| {
        let found = rows(&results).iter().find(|row| row["system"] == system);
        found.unwrap().clone()
    };
    for row in rows(&results) {
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(11)),
            "{row}"
        );
    }
    assert_eq!(number(&of("direct-6"), "dns_lookups"), 4.0);
    assert_eq!(number(&of("direct-dns"), "dns_lookups"), 0.0);
    assert_eq!(number(&of("url-rewriting"), "dns_lookups"), 1.0);
    assert_eq!(
        of("tcp-wwan-pipelined")["conditions"],
        "one connection, 3 requests outstanding"
    );
    assert!(
        of("direct-6")["conditions"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
    );
}
