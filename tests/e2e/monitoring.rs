//! Metrics, alerts and the dashboard file: what Prometheus' own tool says of them, and that they fit together.
use std::{collections::BTreeSet, fs, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use longhaul_tests::raw_origin::RawOrigin;
use serde_json::Value;
use tokio::{
    io::AsyncWriteExt as _,
    process::Command,
    time::{interval, timeout},
};

use crate::{
    operations::ask_metrics,
    pair::{LIMIT, Pair, Setup},
};

fn document(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../docs", name].iter().collect()
}

async fn promtool(words: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("promtool")
        .args(words)
        .current_dir(document("alerts"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("promtool: scripts/install-tools.sh test installs it")?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    stdin.write_all(input.as_bytes()).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    ensure!(output.status.success(), "promtool {words:?}: {text}");
    Ok(text)
}

/// OpenMetrics names a counter without `_total` in its descriptions; promtool reads the older form, in which both have
/// it, as Prometheus stores them.
fn older_form(text: &str) -> String {
    let counters: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => None,
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(name) => {
                Some(format!("# {kind} {name}_total {rest}\n"))
            }
            _ => Some(format!("{line}\n")),
        }
    });
    lines.collect()
}

/// The metrics of a gateway that has served a page.
async fn metrics() -> Result<String> {
    let origin = RawOrigin::start(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage".to_vec()).await?;
    let mut setup = Setup::resolving(&[("site.test", origin.address())]);
    setup.gateway_config = format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{}", setup.gateway_config);
    let pair = Pair::start(setup).await?;
    ensure!(pair.get("http://site.test/").await?.status == 200);
    // The gateway counts a fetch when its response has been sent, which the browser may have before.
    let mut looks = interval(Duration::from_millis(50));
    let counted = async {
        loop {
            looks.tick().await;
            let response = ask_metrics(&pair, "/metrics").await?;
            ensure!(response.status == 200, "{response:?}");
            let text = response.text();
            if !text.contains("longhaul_fetch_seconds_count 0") {
                return Ok(text);
            }
        }
    };
    timeout(LIMIT, counted).await.context("no fetch is counted")?
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let of_gateway = words.filter(|word| {
        ["longhaul_", "process_"]
            .iter()
            .any(|prefix| word.starts_with(prefix))
    });
    of_gateway.map(str::to_owned).collect()
}

#[tokio::test]
async fn prometheus_accepts_metrics_and_alerts_and_they_fit_together() -> Result<()> {
    let text = metrics().await?;
    println!("{}", promtool(&["check", "metrics"], &older_form(&text)).await?);
    println!(
        "{}",
        promtool(&["check", "rules", "longhaul.rules.yml"], "").await?
    );
    println!("{}", promtool(&["test", "rules", "longhaul.test.yml"], "").await?);

    let exported: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let rules = fs::read_to_string(document("alerts/longhaul.rules.yml"))?;
    let dashboard = fs::read_to_string(document("grafana/longhaul.json"))?;
    for name in names(&rules).into_iter().chain(names(&dashboard)) {
        assert!(
            exported.contains(name.as_str()),
            "no gateway has the metric {name}"
        );
    }
    for series in [
        "longhaul_build_info{version=",
        "longhaul_failures_total{reason=\"quota_reached\"} 0",
        "longhaul_sessions_closed_total{reason=\"timed-out\"} 0",
        "longhaul_devices{state=\"open\"} 1",
        "longhaul_fetch_seconds_count 1",
        "longhaul_first_byte_seconds_count 1",
    ] {
        assert!(text.contains(series), "no `{series}` in {text}");
    }
    Ok(())
}

#[test]
fn each_alert_has_a_line_of_runbook() -> Result<()> {
    let rules = fs::read_to_string(document("alerts/longhaul.rules.yml"))?;
    let manual = fs::read_to_string(document("OPERATIONS.md"))?;
    let tests = fs::read_to_string(document("alerts/longhaul.test.yml"))?;
    let alerts: Vec<&str> = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "))
        .collect();
    assert!(alerts.len() > 5);
    for alert in alerts {
        assert!(
            manual.contains(&format!("| `{alert}` |")),
            "no runbook for {alert}"
        );
        assert!(
            tests.contains(&format!("alertname: {alert}\n")),
            "no test of {alert}"
        );
        let link = format!("runbook: OPERATIONS.md#{}", alert.to_lowercase());
        assert!(rules.contains(&link), "{link}");
    }
    Ok(())
}

/// Grafana publishes no JSON schema of dashboards as a package: this checks what its import needs.
#[test]
fn the_dashboard_file_has_the_structure_that_grafana_imports() -> Result<()> {
    let text = fs::read_to_string(document("grafana/longhaul.json"))?;
    let dashboard: Value = serde_json::from_str(&text)?;
    for field in ["title", "uid"] {
        assert!(dashboard[field].is_string(), "{field}");
    }
    assert!(dashboard["schemaVersion"].as_u64() >= Some(36));
    let variables = dashboard["templating"]["list"].as_array().context("variables")?;
    assert!(
        variables
            .iter()
            .any(|variable| variable["name"] == "datasource" && variable["type"] == "datasource")
    );
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard["panels"].as_array().context("panels")? {
        assert!(ids.insert(panel["id"].as_u64().context("an id")?), "an id twice");
        assert!(panel["title"].is_string() && panel["type"].is_string());
        let place = |name: &str| panel["gridPos"][name].as_u64().context("a place");
        let (x, y, w, h) = (place("x")?, place("y")?, place("w")?, place("h")?);
        assert!(x + w <= 24);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(cell), "two panels at {cell:?}: {}", panel["title"]);
        }
        if panel["type"] == "row" {
            continue;
        }
        let targets = panel["targets"].as_array().context("queries")?;
        assert!(!targets.is_empty());
        let mut references = BTreeSet::new();
        for target in targets {
            assert!(target["expr"].is_string());
            assert_eq!(target["datasource"]["uid"], "${datasource}");
            assert!(references.insert(target["refId"].as_str().context("a name")?));
        }
    }
    Ok(())
}
