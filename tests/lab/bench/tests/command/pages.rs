//! Page loads through the whole command.
mod switches;
mod visits;

use std::process::Command;

use serde_json::Value;

use super::{bench, folder, json, path, programs, run, stderr_text, worlds};

/// Required fields of a row, with their types: `s` text, `i` whole number, `n` number or null.
const FIELDS: &[(&str, char)] = &[
    ("page", 's'),
    ("link", 's'),
    ("system", 's'),
    ("state", 's'),
    ("loader", 's'),
    ("image_level", 's'),
    ("run", 'i'),
    ("time_s", 'n'),
    ("ideal_raw_s", 'n'),
    ("ideal_gzip_s", 'n'),
    ("ideal_lossy_s", 'n'),
    ("bytes_down", 'i'),
    ("bytes_up", 'i'),
    ("origin_bytes", 'i'),
    ("bytes_gzip_text", 'i'),
    ("bytes_image_delivered", 'i'),
    ("link_down_bps", 'i'),
    ("link_rtt_s", 'n'),
    ("objects", 'i'),
    ("failed", 'i'),
    ("missing", 'i'),
    ("connections", 'i'),
    ("dns_lookups", 'i'),
    ("pipelining_factor", 'n'),
    ("hop_idle_while_missing", 'n'),
    ("queue_p95_s", 'n'),
    ("push_wasted_bytes", 'i'),
    ("cpu_agent_s", 'n'),
    ("cpu_gateway_s", 'n'),
];

pub(super) fn rows(results: &Value) -> &Vec<Value> {
    results["rows"].as_array().expect("rows")
}

pub(super) fn find<'a>(results: &'a Value, system: &str, loader: &str) -> &'a Value {
    let row = rows(results)
        .iter()
        .find(|row| row["system"] == system && row["loader"] == loader);
    row.unwrap_or_else(|| panic!("no row of {system} with {loader}"))
}

pub(super) fn number(row: &Value, field: &str) -> f64 {
    row[field]
        .as_f64()
        .unwrap_or_else(|| panic!("{field} is no number: {row}"))
}

fn has_ziproxy() -> bool {
    Command::new("ziproxy").arg("--help").output().is_ok()
}

#[test]
fn every_system_loads_a_complete_page() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&[
        "pages", "--link", "umts-384", "--pages", "mail", "--loader", "model", "--runs", "1",
    ]);
    let mut systems =
        "direct,direct-6,direct-pipelined,direct-http10,tcp-proxy,squid,squid-cache,squid-pipelined,\
         clientless,clientless-pipelined,clientless-transparent,clientless-dns,longhaul"
            .to_owned();
    let has_ziproxy = has_ziproxy();
    if has_ziproxy {
        systems.push_str(",ziproxy");
    } else {
        println!("SKIPPED: the system `ziproxy`, which is not installed");
    }
    let has_nghttpx = Command::new("nghttpx").arg("--version").output().is_ok();
    if has_nghttpx {
        systems.push_str(",http2-pair");
    } else {
        println!("SKIPPED: the system `http2-pair`, because nghttpx is not installed");
    }
    command.args(["--system", &systems]);
    let output = run(command.arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let results = json(&results);
    let optional = usize::from(has_ziproxy) + usize::from(has_nghttpx);
    assert_eq!(rows(&results).len(), 13 + optional);
    for row in rows(&results) {
        assert_eq!(
            (row["failed"].as_u64(), row["missing"].as_u64()),
            (Some(0), Some(0)),
            "{row}"
        );
        assert_eq!(row["objects"].as_u64(), Some(11), "{row}");
        for (field, kind) in FIELDS {
            let value = &row[*field];
            let right = match kind {
                's' => value.is_string(),
                'i' => value.is_u64(),
                _ => value.is_number() || value.is_null(),
            };
            assert!(right, "{field} is {value}");
        }
        // No system can be faster than the ideal for the bytes sent unless it codes better than gzip; none of
        // these does so by much. Ziproxy makes pictures smaller at every image level.
        if row["system"] != "ziproxy" {
            assert!(number(row, "time_s") > 0.9 * number(row, "ideal_gzip_s"), "{row}");
            let ideal_bits = (number(row, "ideal_gzip_s") - 0.3) * 384_000.0;
            assert!(number(row, "bytes_down") * 8.0 > 0.9 * ideal_bits, "{row}");
        }
        assert!(
            (0.0..=1.0).contains(&number(row, "hop_idle_while_missing")),
            "{row}"
        );
    }
    let (direct, http10) = (
        find(&results, "direct", "model"),
        find(&results, "direct-http10", "model"),
    );
    assert!(number(http10, "connections") > number(direct, "connections"));
    assert_eq!(number(direct, "pipelining_factor"), 1.0);
    assert!(number(find(&results, "direct-pipelined", "model"), "pipelining_factor") > 1.0);
    assert_eq!(direct["dns_lookups"].as_u64(), Some(4), "one for each host");
    for row in rows(&results) {
        let (all, ideal) = (
            number(row, "hop_idle_share"),
            number(row, "hop_idle_while_missing"),
        );
        // The transfer of the request and the handshakes are idle time that an ideal sender cannot use
        // either.
        assert!((0.0..=1.0).contains(&all) && all >= ideal - 0.05, "{row}");
        let window = number(row, "hop_window_s");
        assert!(window > 0.0 && window < number(row, "time_s"), "{row}");
        let parts = ["origin", "gateway", "request"].map(|cause| number(row, &format!("hop_idle_{cause}_s")));
        let sum: f64 = parts.iter().sum();
        let whole = number(row, "hop_idle_after_first_byte") * window;
        assert!(
            (sum - whole).abs() < 1e-6 && parts.iter().all(|part| *part >= 0.0),
            "{row}"
        );
        assert_eq!(row["scheme"], "recorded");
        assert_eq!(row["http_objects"], row["objects"]);
        assert!(
            number(row, "body_bytes") > 0.0 && row["http_bytes"] == row["body_bytes"],
            "{row}"
        );
    }
    // Two connections without pipelining wait for the browser's requests most of the time.
    assert!(
        number(direct, "hop_idle_request_s") + number(direct, "hop_idle_origin_s")
            > number(direct, "hop_idle_gateway_s"),
        "{direct}"
    );
    let longhaul = find(&results, "longhaul", "model");
    assert!(
        number(longhaul, "hop_idle_after_first_byte") < number(direct, "hop_idle_after_first_byte"),
        "{longhaul}"
    );
    assert!(number(longhaul, "rss_agent_bytes") > 1e6 && number(longhaul, "rss_gateway_bytes") > 1e6);
    assert_eq!(longhaul["dns_lookups"].as_u64(), Some(0));
    assert!(number(longhaul, "cpu_agent_s") > 0.0 && number(longhaul, "cpu_gateway_s") > 0.0);
    let environment = &results["environment"];
    for field in ["cpu", "kernel", "date"] {
        assert!(
            environment[field].as_str().is_some_and(|text| !text.is_empty()),
            "{field}"
        );
    }
}

#[test]
fn chromium_loads_the_same_page_with_every_system() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let (results, report) = (path(&folder, "results.json"), path(&folder, "report.html"));
    let mut command = bench(&[
        "pages",
        "--link",
        "lte",
        "--pages",
        "altavista",
        "--loader",
        "chromium",
        "--runs",
        "1",
    ]);
    let mut systems =
        "direct,direct-h2,squid,squid-cache,clientless,clientless-unknown,clientless-h2,clientless-pac,\
                       clientless-h2-pac,longhaul"
            .to_owned();
    if has_ziproxy() {
        systems.push_str(",ziproxy");
    } else {
        println!("SKIPPED: the system `ziproxy`, which is not installed");
    }
    command.args(["--system", &systems, "--detail", "all"]);
    let output = run(command.arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let found = json(&results);
    assert_eq!(rows(&found).len(), systems.split(',').count());
    for row in rows(&found) {
        // Behind a proxy, also one that a script names, the browser looks nothing up.
        let is_direct = row["system"]
            .as_str()
            .is_some_and(|name| name.starts_with("direct"));
        assert_eq!(is_direct, row["dns_lookups"] != 0, "{row}");
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(4)),
            "{row}"
        );
        assert!(
            number(row, "first_paint_s") <= number(row, "time_s") + 1.0,
            "{row}"
        );
        assert_eq!(row["detail"]["objects"].as_array().map(Vec::len), Some(4));
    }
    let output = run(bench(&["report"]).arg(&results).arg("--out").arg(&report));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let html = std::fs::read_to_string(&report).expect("a report");
    assert!(html.contains("altavista") && html.contains("</html>"));
    // A self-contained file.
    assert!(!html.contains("src=\"http") && !html.contains("<script src"));
}

#[test]
fn a_concurrent_download_is_recorded_in_the_row() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&[
        "pages",
        "--link",
        "umts-384",
        "--pages",
        "altavista",
        "--system",
        "direct",
    ]);
    let output = run(command
        .args(["--beside", "nothing,bulk", "--runs", "1", "--json"])
        .arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    let results = json(&results);
    let of = |conditions: &str| {
        let wanted = |row: &&Value| row["conditions"].as_str().unwrap_or_default() == conditions;
        rows(&results).iter().find(wanted).expect("both rows").clone()
    };
    let (alone, beside) = (of(""), of("beside a bulk download"));
    assert!(
        number(&beside, "bytes_down") > 2.0 * number(&alone, "bytes_down"),
        "{beside}"
    );
    assert!(number(&beside, "hop_idle_while_missing") < 0.2, "{beside}");
    assert_eq!(beside["failed"].as_u64(), Some(0), "{beside}");
}

#[test]
fn pages_load_from_origins_with_think_time_and_closing_connections() {
    if !worlds() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--link", "lan-fast", "--pages", "mail", "--runs", "1"]);
    command.args([
        "--system",
        "direct,direct-pipelined,tcp-proxy,squid",
        "--close-after",
        "2",
        "--think-time",
        "50ms",
    ]);
    let output = run(command.arg("--json").arg(&results));
    assert!(output.status.success(), "{}", stderr_text(&output));
    for row in rows(&json(&results)) {
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(11)),
            "{row}"
        );
        assert_eq!(
            row["conditions"],
            "origins think 50 ms, origins close after 2 answers"
        );
        // The think time of the document, then that of its objects.
        assert!(number(row, "time_s") > 0.1, "{row}");
    }
}

#[test]
fn nothing_is_pushed_if_push_is_disabled() {
    if !worlds() || !programs() {
        return;
    }
    let folder = folder();
    let results = path(&folder, "results.json");
    let mut command = bench(&["pages", "--link", "umts-384", "--pages", "mail", "--runs", "1"]);
    let output = run(command
        .args(["--system", "longhaul-nopush", "--json"])
        .arg(&results));
    if stderr_text(&output).contains("--no-push") {
        println!("SKIPPED: {}", stderr_text(&output));
        return;
    }
    assert!(output.status.success(), "{}", stderr_text(&output));
    for row in rows(&json(&results)) {
        assert_eq!(
            (row["failed"].as_u64(), row["objects"].as_u64()),
            (Some(0), Some(11)),
            "{row}"
        );
        assert!(matches!(row["pushed_bytes"].as_u64(), None | Some(0)), "{row}");
    }
}
