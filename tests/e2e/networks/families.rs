//! A gateway with addresses of both families, of which one does not answer.
use std::time::Instant;

use anyhow::{Context, Result};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{ask, get},
    origin::Origin,
    process::Running,
};
use tokio::net::UdpSocket;

use crate::{
    content::ok,
    doctor::is_root,
    pair::{agent_arguments, control, folder, invite, start_gateway, status, status_until},
};

/// Name of the gateway, which has an address of each family.
const NAME: &str = "gateway.test";

/// The gateway's name has an address of each family. The gateway answers only at one; datagrams to the other disappear.
#[tokio::test(flavor = "multi_thread")]
async fn a_family_that_swallows_datagrams_does_not_prevent_a_session() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |_: Request<Incoming>| async { ok("text/html", "<p>Text") },
    )
    .await?;
    if !is_root("a file of host names for one program")? {
        return Ok(());
    }
    for (answering, silent) in [("127.0.0.1", "[::1]"), ("[::1]", "127.0.0.1")] {
        let Ok(swallowing) = UdpSocket::bind(format!("{silent}:0")).await else {
            println!("SKIPPED: this machine has no IPv6");
            return Ok(());
        };
        let port = swallowing.local_addr()?.port();
        let folder = folder()?;
        let resolve = format!("[fetch.resolve]\n\"a.test\" = \"{}\"\n", origin.address());
        std::fs::write(folder.path().join("gateway.toml"), resolve)?;
        let line = invite(folder.path(), "test", &format!("{NAME}:{port}")).await?;
        let _gateway = start_gateway(folder.path(), &format!("{answering}:{port}")).await?;
        let began = Instant::now();
        let never = ["--fallback-after".to_owned(), "never".to_owned()];
        let hosts = folder.path().join("hosts");
        std::fs::write(&hosts, format!("127.0.0.1 localhost {NAME}\n::1 {NAME}\n"))?;
        let arguments = agent_arguments(folder.path(), &line, &never);
        let agent = Running::start_with_hosts(&hosts, "longhaul-agent", &arguments).await?;
        let control = control(folder.path())?;
        status_until(control, |status| status["state"] == "open").await?;
        println!(
            "{answering}: open {} ms after the start",
            began.elapsed().as_millis()
        );
        let page = ask(agent.address(), get("http://a.test/", &[]))
            .await
            .context("a page")?;
        assert_eq!((page.status, page.text().as_str()), (200, "<p>Text"));
        let status = status(control).await?;
        assert_eq!(status["sessions"], 1, "{status:#}");
    }
    Ok(())
}
