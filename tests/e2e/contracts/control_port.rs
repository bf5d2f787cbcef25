//! The control port of the agent.
use anyhow::Result;
use longhaul_tests::client::{ask, request};
use serde_json::Value;

use crate::pair::{Pair, Setup};

#[tokio::test]
async fn the_control_port_serves_status_and_script_only_under_its_own_host_name() -> Result<()> {
    let pair = Pair::start(Setup::default()).await?;
    let control = pair.control()?;
    // The round-trip time is measured after the session is open.
    let is_measured = |status: &Value| status["session"]["rtt_ms"].is_number();
    let status = pair
        .status_until(|status| status["state"] == "open" && is_measured(status))
        .await?;
    for key in [
        "bytes_down",
        "bytes_up",
        "requests",
        "failures",
        "sessions",
        "uptime_s",
    ] {
        assert!(status[key].is_u64(), "{key} in {status:#}");
    }
    assert_eq!(status["proxy"], pair.proxy().to_string());

    let own = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: {control}\r\nConnection: close\r\n\r\n");
    let page = ask(control, own("/")).await?;
    assert_eq!(page.status, 200);
    assert!(
        page.field("content-type")
            .is_some_and(|kind| kind.starts_with("text/html")),
        "{page:?}"
    );
    for port in [control, pair.proxy()] {
        let request = format!(
            "GET /proxy.pac HTTP/1.1\r\nHost: {port}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        );
        let script = ask(port, request).await?;
        assert_eq!(script.status, 200);
        assert_eq!(
            script.field("content-type"),
            Some("application/x-ns-proxy-autoconfig")
        );
        assert_eq!(script.field("content-encoding"), None);
        assert!(
            script.text().contains("function FindProxyForURL"),
            "{}",
            script.text()
        );
        assert!(
            script.text().contains(&format!("PROXY {}", pair.proxy())),
            "{}",
            script.text()
        );
        assert!(script.text().contains("DIRECT"), "{}", script.text());
    }
    // DNS rebinding: a web page whose name resolves to the agent sends its own name as `Host`.
    for host in ["evil.test", "127.0.0.1", ""] {
        let request = format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(ask(control, request).await?.status, 403, "{host}");
    }
    let through = ask(
        pair.proxy(),
        request("GET", &format!("http://{control}/status.json"), &[]),
    )
    .await?;
    assert_eq!(
        through.status,
        403,
        "a proxy request for the control port must be refused: {}",
        through.text()
    );
    Ok(())
}
