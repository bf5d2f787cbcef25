//! Page loads by `longhaul demo --once`: the built-in page and recorded pages.
use std::time::Duration;

use anyhow::Result;
use longhaul_tests::process::{corpus, run};
use serde_json::Value;

use crate::contracts::report;

const DEMO: Duration = Duration::from_secs(180);

#[tokio::test]
async fn the_demo_loads_its_own_page() -> Result<()> {
    let demo = run("longhaul", &["demo", "--once", "--json"], DEMO).await?;
    assert_eq!(demo.code, Some(0), "{}\n{}", demo.stdout, demo.stderr);
    let report = report(&demo.stdout);
    println!("{report}");
    assert_eq!(
        (
            report["failed"].as_u64(),
            report["errors"].as_array().map(Vec::len)
        ),
        (Some(0), Some(0)),
        "{report}"
    );
    assert!(report["objects"].as_u64() > Some(5), "{report}");
    for key in ["bytes_down", "bytes_up", "origin_bytes"] {
        assert!(report[key].as_u64() > Some(0), "{key} in {report}");
    }
    for key in ["time_s", "ideal_gprs_s", "ideal_umts_s"] {
        assert!(report[key].as_f64() > Some(0.0), "{key} in {report}");
    }
    let plain = run("longhaul", &["demo", "--once"], DEMO).await?;
    println!("{}", plain.stdout);
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    for name in ["objects", "saved"] {
        let line = plain
            .stdout
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        assert!(
            line.is_some_and(|line| line.split_whitespace().count() >= 3),
            "{name}: {}",
            plain.stdout
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_demo_compares_with_a_direct_load_over_an_equal_link() -> Result<()> {
    let demo = run(
        "longhaul",
        &["demo", "--once", "--json", "--link", "umts-384"],
        DEMO,
    )
    .await?;
    assert_eq!(demo.code, Some(0), "{}\n{}", demo.stdout, demo.stderr);
    let report: Value = serde_json::from_str(&demo.stdout)?;
    println!("{report}");
    let seconds = |key: &str| report[key].as_f64().unwrap_or_default();
    let (longhaul, direct) = (seconds("time_s"), seconds("time_direct_s"));
    let bytes = |key: &str| report[key].as_f64().unwrap_or_default();
    // 48,000 bytes a second, and half a round trip each way; the bytes include early traffic of the session.
    assert!(longhaul >= 0.25, "{report}");
    assert!(longhaul >= bytes("bytes_down") / 48_000.0 * 0.8, "{report}");
    // The origin's bytes cross the link whole, after the round trips for the name and the connection.
    assert!(direct >= bytes("origin_bytes") / 48_000.0 + 0.5, "{report}");
    // Longhaul is faster by the bytes that it does not send. The times themselves depend on what else this machine does;
    // `longhaul-bench` compares them.
    assert!(bytes("bytes_down") < 0.75 * bytes("origin_bytes"), "{report}");
    let plain = run("longhaul", &["demo", "--once", "--link", "lan-fast"], DEMO).await?;
    assert_eq!(plain.code, Some(0), "{}", plain.stderr);
    assert!(
        plain.stdout.contains("\n  direct  ") && plain.stdout.contains("\n  Longhaul  "),
        "{}",
        plain.stdout
    );
    Ok(())
}

#[tokio::test]
async fn the_demo_loads_recorded_pages() -> Result<()> {
    let Some(corpus) = corpus() else {
        println!("SKIPPED: no recorded sites; set LONGHAUL_CORPUS to their folder");
        return Ok(());
    };
    for (file, url) in [
        ("wikipedia-portal.warc.gz", Some("https://www.wikipedia.org/")),
        (
            "wikimedia-sopa.warc.gz",
            Some("http://wikimediafoundation.org/wiki/SOPA/Blackoutpage"),
        ),
        ("reddit.warc.gz", None),
    ] {
        let warc = corpus.join(file).display().to_string();
        let mut arguments = vec!["demo", "--once"];
        arguments.extend(url);
        arguments.extend(["--warc", &warc, "--json"]);
        let demo = run("longhaul", &arguments, DEMO).await?;
        assert_eq!(demo.code, Some(0), "{file}: {}\n{}", demo.stdout, demo.stderr);
        let report = report(&demo.stdout);
        println!("{file}: {report}");
        assert_eq!(report["failed"], 0, "{file}: {report}");
        if let Some(url) = url {
            assert_eq!(report["url"], url);
        }
        assert!(report["objects"].as_u64() >= Some(4), "{file}: {report}");
    }
    let missing = corpus.join("no-such.warc.gz").display().to_string();
    let demo = run(
        "longhaul",
        &["demo", "--once", "--warc", &missing, "--json"],
        DEMO,
    )
    .await?;
    assert_eq!((demo.code, demo.stdout.as_str()), (Some(1), ""));
    assert!(demo.stderr.contains("no-such.warc.gz"), "{}", demo.stderr);
    Ok(())
}
