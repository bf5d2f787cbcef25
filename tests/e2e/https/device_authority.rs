//! Commands for the device's certificate authority.
use anyhow::Result;
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{authority::TestAuthority, origin::Origin, process::run};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{Accelerated, exchange};
use crate::{
    content::ok,
    pair::{COMMAND_LIMIT, LIMIT},
};

#[tokio::test(flavor = "multi_thread")]
async fn commands_show_and_remove_the_certificate_authority() -> Result<()> {
    let home = tempfile::tempdir()?;
    let state = home.path().join("state").display().to_string();
    let ca = |verb: &'static str| {
        let state = state.clone();
        async move {
            run(
                "longhaul-agent",
                &["ca", verb, "--state-dir", &state],
                COMMAND_LIMIT,
            )
            .await
        }
    };
    let missing = ca("fingerprint").await?;
    assert!(
        missing.code != Some(0) && missing.stderr.contains("ca export"),
        "{missing:?}"
    );
    let first = ca("export").await?.stdout;
    assert_eq!(first, ca("export").await?.stdout);
    let fingerprint = ca("fingerprint").await?.stdout;
    assert_eq!(fingerprint.trim().split(':').count(), 32, "{fingerprint}");
    assert!(ca("remove").await?.stdout.contains("removed"));
    assert!(
        ca("remove")
            .await?
            .stdout
            .contains("there was no certificate authority")
    );
    assert_ne!(first, ca("export").await?.stdout);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_agent_stops_to_sign_when_its_authority_is_removed() -> Result<()> {
    let authority = TestAuthority::new()?;
    let way = |request: Request<Incoming>| async move {
        let way = if request.headers().contains_key("via") {
            "gateway"
        } else {
            "tunnel"
        };
        ok("text/plain", way.to_owned())
    };
    let origin = Origin::start(Some(authority.server(&["safe.test"])?), |_| {}, way).await?;
    let site = Accelerated::start(&[("safe.test", origin.address())], &authority, "all").await?;
    let state = site.pair.folder().join("agent");
    let text = state.display().to_string();
    let ca = async |verb: &str| {
        run(
            "longhaul-agent",
            &["ca", verb, "--state-dir", &text],
            COMMAND_LIMIT,
        )
        .await
    };
    let ours = ca("export").await?.stdout;
    let fingerprint = ca("fingerprint").await?.stdout;
    assert!(site.get("safe.test", "/", "").await?.ends_with("gateway"));
    // A connection that is open during the removal ends.
    let mut open = site.connect("safe.test", &ours, &[b"http/1.1"]).await?;
    open.write_all(b"GET / HTTP/1.1\r\nHost: safe.test\r\n\r\n")
        .await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"gateway") {
        answer.push(open.read_u8().await?);
    }

    // The running agent's authority is exported, not another one, whatever happened to the files.
    std::fs::remove_file(state.join("ca.key"))?;
    std::fs::remove_file(state.join("ca.pem"))?;
    assert_eq!(ca("export").await?.stdout, ours);
    assert_eq!(ca("fingerprint").await?.stdout, fingerprint);
    assert!(!state.join("ca.pem").exists());

    let removed = ca("remove").await?;
    assert!(
        removed.stdout.contains("https goes through tunnels"),
        "{removed:?}"
    );
    let status = site.pair.status().await?;
    assert!(status["https"]["fingerprint"].is_null(), "{status}");
    assert_eq!(status["https"]["authority_removed"], true);
    let head = "GET / HTTP/1.1\r\nHost: safe.test\r\nConnection: close\r\n\r\n";
    let mut rest = Vec::new();
    let _no_close_notify = timeout(LIMIT, open.read_to_end(&mut rest)).await?;
    assert_eq!(rest, b"");
    // The next connection has the origin's certificate.
    let tunnel = site.connect("safe.test", authority.pem(), &[b"http/1.1"]).await?;
    assert!(exchange(tunnel, head).await?.ends_with("tunnel"));
    site.pair
        .agent()
        .log()
        .contains("https goes through tunnels", LIMIT)
        .await?;

    let again = ca("remove").await?;
    assert!(
        again.stdout.contains("there was no certificate authority"),
        "{again:?}"
    );
    let another = ca("export").await?;
    assert_ne!(another.stdout, ours);
    assert!(
        another.stderr.contains("a new one is created") && another.stderr.contains("running agent"),
        "{another:?}"
    );
    Ok(())
}
