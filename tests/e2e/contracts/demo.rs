//! The demo: its output, its report and its files.
use std::{net::SocketAddr, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::ask,
    process::{command, run},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};

use super::LONGHAUL;
use crate::pair::{LIMIT, folder, status};

/// Keys of the output of `demo --once --json`, in their order.
const REPORT: [&str; 11] = [
    "url",
    "objects",
    "failed",
    "bytes_down",
    "bytes_up",
    "origin_bytes",
    "time_s",
    "ideal_gprs_s",
    "ideal_umts_s",
    "savings",
    "errors",
];

/// Parses one line of JSON with exactly the specified keys and types.
pub(crate) fn report(stdout: &str) -> Value {
    assert!(
        stdout.ends_with('\n') && stdout.lines().count() == 1,
        "not exactly one line: {stdout}"
    );
    let report: Value = serde_json::from_str(stdout).expect("one line of JSON");
    let keys: Vec<&String> = report.as_object().expect("an object").keys().collect();
    let mut expected = REPORT.to_vec();
    expected.sort_unstable();
    assert_eq!(keys, expected, "the keys and their order");
    assert!(report["url"].is_string(), "{report}");
    for key in ["objects", "failed", "bytes_down", "bytes_up", "origin_bytes"] {
        assert!(report[key].is_u64(), "{key} in {report}");
    }
    for key in ["time_s", "ideal_gprs_s", "ideal_umts_s"] {
        assert!(report[key].is_number(), "{key} in {report}");
    }
    assert_savings(&report["savings"]);
    for error in report["errors"].as_array().expect("a list of errors") {
        assert!(error["url"].is_string() && error["reason"].is_string(), "{error}");
    }
    report
}

/// Asserts that savings are complete and that their causes add up.
pub(crate) fn assert_savings(savings: &Value) {
    let number = |value: &Value| value.as_i64().expect("an integer");
    let causes = ["coding", "base", "pictures", "cache", "unchanged", "headers"];
    let sum: i64 = causes
        .iter()
        .map(|cause| number(&savings["by_cause"][cause]))
        .sum();
    assert_eq!(sum, number(&savings["bytes"]), "{savings}");
}

#[tokio::test]
async fn a_failed_demo_page_is_reported_as_json_with_exit_code_1() -> Result<()> {
    let demo = run(
        LONGHAUL,
        &["demo", "--once", "http://missing.invalid/", "--json"],
        LIMIT,
    )
    .await?;
    assert_eq!(demo.code, Some(1), "{}\n{}", demo.stdout, demo.stderr);
    let report = report(&demo.stdout);
    println!("{report}");
    assert_eq!(
        (report["failed"].as_u64(), report["url"].as_str()),
        (Some(1), Some("http://missing.invalid/"))
    );
    let error = &report["errors"][0];
    assert_eq!(error["url"], "http://missing.invalid/");
    assert!(
        error["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("name") || reason.contains("looked up")),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn the_demo_prints_its_addresses_and_removes_its_files() -> Result<()> {
    let temporary = folder()?;
    let mut demo = command(LONGHAUL)?
        .arg("demo")
        .env("TMPDIR", temporary.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut lines = BufReader::new(demo.stdout.take().context("stdout is piped")?).lines();
    let (mut proxy, mut page) = (None, None);
    let read = async {
        while let Some(line) = lines.next_line().await? {
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some("proxy"), Some(address), None) => proxy = Some(address.parse::<SocketAddr>()?),
                (Some("dashboard"), Some(url), None) => page = Some(url.to_owned()),
                _ => {}
            }
            if line.contains("Ctrl-C") {
                break;
            }
        }
        anyhow::Ok(())
    };
    timeout(LIMIT, read).await??;
    let proxy = proxy.context("the proxy's address")?;
    let page = page.context("the dashboard's URL")?;
    let control: SocketAddr = page.trim_start_matches("http://").trim_end_matches('/').parse()?;
    assert!(status(control).await?["state"].is_string());
    let help = ask(proxy, format!("GET / HTTP/1.1\r\nHost: {proxy}\r\n\r\n")).await?;
    assert!(help.text().contains("proxy.pac"), "{}", help.text());

    let sent = Command::new("kill")
        .arg("-INT")
        .arg(demo.id().context("running")?.to_string())
        .status()
        .await?;
    ensure!(sent.success());
    let ended = timeout(LIMIT, demo.wait()).await??;
    assert_eq!(ended.code(), Some(0), "after Ctrl-C: {ended}");
    assert!(
        std::fs::read_dir(temporary.path())?.next().is_none(),
        "the demo removes its files"
    );
    assert!(
        tokio::net::TcpStream::connect(proxy).await.is_err(),
        "the agent of the demo ends with it"
    );
    Ok(())
}
