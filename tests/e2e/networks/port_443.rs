//! A gateway with everything on port 443: sessions over UDP, QUIC and TLS, and the proxy for browsers without an agent.
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use longhaul_tests::client::{Ending, ask, get};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

use super::{
    harness::{HOST, Net, Plug, Programs, Site},
    middlebox::{Obstacle, place},
    moving::{PAGE, assert_one_session, origin},
};
use crate::pair::{COMMAND_LIMIT, folder};

/// Name of the gateway in its certificate.
const NAME: &str = "gateway.test";

/// Certificate and key of the gateway's port.
struct Files(TempDir);

impl Files {
    fn make() -> Result<Self> {
        let files = Self(folder()?);
        files.renew()?;
        Ok(files)
    }

    /// Makes a new certificate with another key.
    fn renew(&self) -> Result<()> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])?;
        // The key first: a gateway that looks in between keeps what it has.
        std::fs::write(self.0.path().join("key.pem"), made.signing_key.serialize_pem())?;
        std::fs::write(self.certificate(), made.cert.pem())?;
        Ok(())
    }

    fn certificate(&self) -> std::path::PathBuf {
        self.0.path().join("cert.pem")
    }

    /// A gateway whose settings name the port 443 in different ways. Its name has these addresses.
    fn site(&self, hosts: &'static [&'static str]) -> Site {
        let lines = format!(
            "[carriers]\ntls = \"on\"\nquic = \"on\"\n\
             [clientless]\ntls = \"0.0.0.0:443\"\nallow = [\"10.91.0.0/16\"]\n\
             certificate = \"{}\"\nkey = \"{}\"\n",
            self.certificate().display(),
            self.0.path().join("key.pem").display(),
        );
        Site {
            listen: "0.0.0.0:443",
            address: "gateway.test:443",
            // The harness keeps texts of the program, and a test makes one.
            lines: Box::leak(lines.into_boxed_str()),
            hosts,
        }
    }
}

const ONE_ADDRESS: &[&str] = &["127.0.0.1 localhost", "10.91.0.1 gateway.test"];
const TWO_ADDRESSES: &[&str] = &[
    "127.0.0.1 localhost",
    "10.91.0.1 gateway.test",
    "10.91.0.2 gateway.test",
];

/// The namespaces; `None`, with a message, without privileges or without IPv6.
fn net() -> Result<Option<Arc<Net>>> {
    if let Err(error) = std::net::UdpSocket::bind("[::]:0") {
        println!("SKIPPED: this machine has no IPv6: {error}");
        return Ok(None);
    }
    Net::build()
}

fn over(carrier: &'static str) -> impl Fn(&Value) -> bool + Send + 'static {
    move |status| status["state"] == "open" && status["session"]["carrier"] == carrier
}

async fn page(net: &Net, programs: &Programs) -> Result<()> {
    let proxy = programs.proxy();
    let page = net
        .computer
        .run(move || async move { ask(proxy, get(&format!("http://{HOST}/page"), &[])).await })
        .await?;
    ensure!(
        (page.status, page.ending) == (200, Ending::Whole) && page.text() == PAGE,
        "{page:?}"
    );
    Ok(())
}

/// What `curl` has printed.
#[derive(Debug)]
struct Curl {
    has_succeeded: bool,
    text: String,
    errors: String,
}

/// Runs `curl` on the computer, which finds the gateway's name at its first address.
async fn curl(net: &Net, files: &Files, more: &[&str]) -> Result<Curl> {
    let authority = files.certificate().display().to_string();
    let resolve = format!("{NAME}:443:10.91.0.1");
    let common = ["--silent", "--show-error", "--noproxy", "", "--resolve", &resolve];
    let trusting = ["--proxy-cacert", &authority, "--cacert", &authority];
    let arguments = common.iter().chain(&trusting).chain(more);
    let arguments: Vec<String> = arguments.map(|argument| (*argument).to_owned()).collect();
    net.computer
        .run(move || async move {
            let output = Command::new("curl").args(arguments).kill_on_drop(true).output();
            let output = timeout(COMMAND_LIMIT, output)
                .await
                .context("curl takes too long")?;
            let output = output.context("curl is missing: install curl")?;
            anyhow::Ok(Curl {
                has_succeeded: output.status.success(),
                text: String::from_utf8(output.stdout)?,
                errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            })
        })
        .await
}

/// A browser without an agent loads a page through the secure proxy; strangers see an ordinary server.
async fn browse(net: &Net, files: &Files) -> Result<()> {
    let url = format!("http://{HOST}/page");
    let loaded = curl(net, files, &["--proxy", "https://gateway.test:443", &url]).await?;
    ensure!(
        loaded.has_succeeded && loaded.text == PAGE,
        "{}{}",
        loaded.text,
        loaded.errors
    );
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    for (path, expected) in [("/", "404"), ("/proxy.pac", "200")] {
        let url = format!("https://{NAME}{path}");
        let asked = curl(net, files, &[&status[..], &[url.as_str()]].concat()).await?;
        ensure!(asked.text == expected, "{path}: {} {}", asked.text, asked.errors);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_port_serves_all_carriers_and_browsers() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let files = Files::make()?;
    let mut programs = Programs::start_at(&net, origin, files.site(ONE_ADDRESS)).await?;
    for (carrier, obstacles) in [
        ("udp", &[][..]),
        ("tls", &[Obstacle::UdpDropped]),
        ("quic", &[Obstacle::OnlyQuic, Obstacle::TcpDropped]),
    ] {
        programs.end_agent().await?;
        place(&net, 1, obstacles)?;
        programs.start_agent(&[]).await?;
        let status = programs.status_until(over(carrier)).await;
        status.with_context(|| format!("over {carrier}"))?;
        let browses = !obstacles.contains(&Obstacle::TcpDropped);
        let browsing = async {
            if browses {
                browse(&net, &files).await
            } else {
                Ok(())
            }
        };
        tokio::try_join!(page(&net, &programs), browsing)?;
        let status = programs.status_until(over(carrier)).await?;
        assert_one_session(&status);
        assert_eq!(status["session"]["intercepted"], false, "{status:#}");
    }
    // In an open network the session leaves QUIC or stays, and the browser works again.
    place(&net, 1, &[])?;
    browse(&net, &files).await
}

/// What the agent has stored of the gateway's announcement.
fn announced(programs: &Programs) -> String {
    std::fs::read_to_string(programs.folder().join("agent/gateway-announced")).unwrap_or_default()
}

/// The certificate of the shared port changes, with its key: agents learn it in their sessions, and take it for no
/// interception.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_announced() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    net.plug(Plug::new(1))?;
    let files = Files::make()?;
    let mut programs = Programs::start_at(&net, origin, files.site(ONE_ADDRESS)).await?;
    let path = programs.folder().join("agent/gateway-announced");
    let read = move || std::fs::read_to_string(&path).unwrap_or_default();
    let is_known = {
        let read = read.clone();
        move |_: &Value| !read().is_empty()
    };
    programs.status_until(is_known).await?;
    let before = announced(&programs);
    files.renew()?;
    let known = before.clone();
    programs.status_until(move |_| read() != known).await?;
    for carrier in ["tls", "quic"] {
        programs.end_agent().await?;
        programs
            .start_agent(&["--carrier", carrier, "--carrier-pin", "require"])
            .await?;
        let status = programs.status_until(over(carrier)).await?;
        assert_eq!(status["session"]["intercepted"], false, "{status:#}");
    }
    browse(&net, &files).await
}

/// The gateway is reached only at its second address, by a carrier beside UDP.
#[tokio::test(flavor = "multi_thread")]
async fn links_find_the_second_address() -> Result<()> {
    let Some(net) = net()? else { return Ok(()) };
    net.add_gateway_address("10.91.0.2/32")?;
    net.plug(Plug::new(1))?;
    let files = Files::make()?;
    let mut programs = Programs::start_at(&net, origin, files.site(TWO_ADDRESSES)).await?;
    for (carrier, obstacles) in [
        ("tls", [Obstacle::FirstAddressDropped, Obstacle::UdpDropped]),
        ("quic", [Obstacle::FirstAddressDropped, Obstacle::OnlyQuic]),
    ] {
        programs.end_agent().await?;
        place(&net, 1, &obstacles)?;
        programs.start_agent(&["--carrier", carrier]).await?;
        let status = programs.status_until(over(carrier)).await;
        status.with_context(|| format!("over {carrier}"))?;
        page(&net, &programs).await?;
    }
    Ok(())
}
