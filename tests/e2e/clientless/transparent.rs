//! Transparent mode: connections that nftables redirects to the gateway.
use std::{future::ready, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result, ensure};
use http::{Request, Response, header};
use hyper::body::Incoming;
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions, Names};
use longhaul_tests::{
    authority::TestAuthority,
    origin::{AnswerBody, Origin},
    process::run,
};
use rustls::ServerConfig;

use super::network::{
    HOST_V4, HOST_V6, INTERFACE, Net, OTHER_V4, ROUTER_V4, ROUTER_V6, RouterGateway, VISITOR_V4, visit,
};
use crate::{
    content::whole,
    pair::{COMMAND_LIMIT, LIMIT},
};

const CONFIG: &str = r#"
[clientless]
transparent = ["[::]:3130"]
allow = ["10.92.0.0/24", "fd92::/64"]
[fetch.resolve]
"site.test" = "11.92.0.2"
"other.test" = "11.92.0.3"
"six.test" = "2a00:92::2"
[metrics]
listen = "127.0.0.1:9191"
"#;
const PAGE: &str =
    "<!doctype html><link rel=icon href=data:,><p id=said>not said</p><script src=/script.js></script>";
const SCRIPT: &str = "document.getElementById('said').textContent = 'said by the script';";

/// The hosts of the web: at each address one for http and one for https. Their answers tell the host at which they are, not
/// the one that the request names.
struct Web {
    host: Vec<Origin>,
    other: Origin,
}

impl Web {
    async fn start(net: &Net, tls: Arc<ServerConfig>) -> Result<Self> {
        let at = |address, port, tls, name| origin_at(net, address, port, tls, name);
        Ok(Self {
            host: vec![
                at(HOST_V4, 80, None, "site").await?,
                at(HOST_V4, 443, Some(Arc::clone(&tls)), "site").await?,
                at(HOST_V6, 80, None, "six").await?,
                at(HOST_V6, 443, Some(Arc::clone(&tls)), "six").await?,
                at(OTHER_V4, 443, Some(tls), "other").await?,
            ],
            other: at(OTHER_V4, 80, None, "other").await?,
        })
    }
}

/// An origin of the web that tells its name.
pub(super) async fn origin_at(
    net: &Net,
    address: &str,
    port: u16,
    tls: Option<Arc<ServerConfig>>,
    name: &'static str,
) -> Result<Origin> {
    let address = SocketAddr::new(address.parse()?, port);
    let start = move || async move {
        Origin::start_at(address, tls, |_| {}, move |request| ready(answer(&request, name))).await
    };
    net.web.run(start).await
}

fn answer(request: &Request<Incoming>, name: &str) -> Response<AnswerBody> {
    let (kind, body) = match request.uri().path() {
        "/" => ("text/html", PAGE.to_owned()),
        "/script.js" => ("text/javascript", SCRIPT.to_owned()),
        path => ("text/plain", format!("{path} at {name}")),
    };
    Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "public, max-age=600")
        .body(whole(body))
        .expect("a valid response")
}

struct Setup {
    net: Arc<Net>,
    gateway: RouterGateway,
    web: Web,
    authority: TestAuthority,
}

impl Setup {
    /// `None`, with a message, where a program or privilege is missing.
    async fn start() -> Result<Option<Self>> {
        let Some(net) = Net::build()? else { return Ok(None) };
        for program in ["nft", "curl"] {
            if std::process::Command::new(program)
                .arg("--version")
                .output()
                .is_err()
            {
                println!("SKIPPED: {program} is not installed");
                return Ok(None);
            }
        }
        let authority = TestAuthority::new()?;
        let tls = authority.server(&["site.test", "six.test", "other.test"])?;
        let web = Web::start(&net, tls).await?;
        let gateway = RouterGateway::start(&net, CONFIG).await?;
        std::fs::write(gateway.folder.path().join("ca.pem"), authority.pem())?;
        gateway.redirect(&net).await?;
        Ok(Some(Self {
            net,
            gateway,
            web,
            authority,
        }))
    }

    /// Runs curl on the visitor's computer; returns the status and the body.
    async fn curl(&self, arguments: &[&str]) -> Result<(u16, String)> {
        let authority = self.gateway.folder.path().join("ca.pem").display().to_string();
        let usual = [
            "--silent",
            "--max-time",
            "60",
            "--noproxy",
            "*",
            "--cacert",
            &authority,
        ];
        let status = ["--write-out", "\n%{http_code}"];
        let arguments = [&usual[..], &status, arguments].concat();
        let done = visit(&self.net, "curl", &arguments).await?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').context("curl's status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    async fn text(&self, arguments: &[&str]) -> Result<String> {
        let (status, body) = self.curl(arguments).await?;
        ensure!(status == 200, "{status} {body}");
        Ok(body)
    }

    /// Value of a metric of the gateway.
    async fn metric(&self, name: &str) -> Result<u64> {
        let done = self.net.router.run(|| async {
            let mut curl = tokio::process::Command::new("curl");
            curl.args(["--silent", "http://127.0.0.1:9191/metrics"])
                .output()
                .await
        });
        let text = String::from_utf8(done.await?.stdout)?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        Ok(line.map_or(Ok(0), |value| value.trim().parse())?)
    }

    fn seen(&self, index: usize) -> usize {
        self.web.host[index].seen().len()
    }
}

const SITE: [&str; 2] = ["--resolve", "site.test:80:11.92.0.2"];

#[tokio::test(flavor = "multi_thread")]
async fn redirected_requests_are_cached_only_if_the_host_is_at_their_destination() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    let get = async |more: &[&str]| setup.text(&[&SITE[..], more].concat()).await;
    for _ in 0..2 {
        assert_eq!(get(&["http://site.test/a"]).await?, "/a at site");
    }
    assert_eq!(setup.seen(0), 1, "the second comes from the cache");
    let seen = setup.web.host[0].seen();
    assert!(seen[0].headers.contains_key("via") && seen[0].headers.get("x-forwarded-for").is_none());
    assert_ne!(seen[0].peer.ip().to_string(), VISITOR_V4);
    let head = get(&["--head", "http://site.test/a"]).await?;
    assert!(head.to_ascii_lowercase().contains("age:"), "{head}");

    // The host's own name at another address: that address answers, and nothing of it is kept.
    let forged = ["--resolve", "site.test:80:11.92.0.3", "http://site.test/b"];
    for _ in 0..2 {
        assert_eq!(setup.text(&forged).await?, "/b at other");
    }
    assert_eq!(setup.web.other.seen().len(), 2);
    assert!(
        !setup.web.other.seen()[0].headers.contains_key("via"),
        "relayed as it is"
    );
    assert_eq!(
        get(&["http://site.test/b"]).await?,
        "/b at site",
        "the cache was poisoned"
    );
    // What is in the cache for the host is not told for another address, either.
    let forged = ["--resolve", "site.test:80:11.92.0.3", "http://site.test/a"];
    assert_eq!(setup.text(&forged).await?, "/a at other");
    // A forged field on a connection to the right address, behind a proper request.
    let second = [
        "http://site.test/a",
        "--next",
        "--silent",
        "--write-out",
        "\n%{http_code}",
        "--header",
        "Host: other.test",
    ];
    let both = [&second[..], &SITE, &["http://site.test/c"]].concat();
    assert!(get(&both).await?.ends_with("/c at site"));
    let other = ["--resolve", "other.test:80:11.92.0.3", "http://other.test/c"];
    assert_eq!(setup.text(&other).await?, "/c at other");

    let posted = get(&["--data", "x=1", "http://site.test/form"]).await?;
    assert_eq!(posted, "/form at site");
    assert_eq!(
        setup
            .metric("longhaul_clientless_intercepted_total{way=\"relayed\"} ")
            .await?,
        4
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn redirected_connections_of_ipv6_and_tls_reach_their_destination() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    let six = [
        "--resolve",
        "six.test:80:2a00:92::2",
        "--resolve",
        "six.test:443:2a00:92::2",
    ];
    for _ in 0..2 {
        let body = setup.text(&[&six[..], &["http://six.test/a"]].concat()).await?;
        assert_eq!(body, "/a at six");
    }
    assert_eq!(setup.seen(2), 1, "the second comes from the cache");
    let body = setup.text(&[&six[..], &["https://six.test/a"]].concat()).await?;
    assert_eq!(body, "/a at six");
    let secure = ["--resolve", "site.test:443:11.92.0.2", "https://site.test/a"];
    assert_eq!(setup.text(&secure).await?, "/a at site");
    let peer = setup.web.host[1].seen()[0].peer;
    assert_ne!(peer.ip().to_string(), VISITOR_V4, "the gateway connects");
    // A name at another address: never the name's own.
    let forged = ["--resolve", "site.test:443:11.92.0.3", "https://site.test/a"];
    assert_eq!(setup.text(&forged).await?, "/a at other");
    // Without a name.
    let nameless = ["--insecure", "https://11.92.0.2/a"];
    assert_eq!(setup.text(&nameless).await?, "/a at site");
    assert_eq!(
        setup
            .metric("longhaul_clientless_intercepted_total{way=\"tls\"} ")
            .await?,
        4
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_knows_of_no_proxy_loads_pages() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    let names = [("site.test", HOST_V4), ("six.test", "[2a00:92::2]")];
    let mut options = BrowserOptions::direct(Names::fixed(names));
    options.trust_spki = vec![setup.authority.pin().to_owned()];
    let texts = setup.net.visitor.run(move || async move {
        let mut browser = Browser::start(&options).await?;
        let mut texts = Vec::new();
        for url in [
            "http://site.test/",
            "https://site.test/",
            "http://six.test/",
            "https://six.test/",
        ] {
            let loaded = browser.load(url, &LoadOptions::within(LIMIT)).await?;
            texts.push((url, loaded.text));
        }
        anyhow::Ok(texts)
    });
    for (url, text) in texts.await? {
        assert!(text.contains("said by the script"), "{url}: {text}");
    }
    for host in 0..4 {
        assert!(setup.seen(host) >= 2, "host {host}");
    }
    for seen in [&setup.web.host[0], &setup.web.host[2]].map(Origin::seen) {
        assert!(
            seen.iter().all(|seen| seen.headers.contains_key("via")),
            "{seen:?}"
        );
    }
    assert!(
        setup
            .metric("longhaul_clientless_intercepted_total{way=\"fetched\"} ")
            .await?
            >= 2
    );
    Ok(())
}

/// The port is no relay: neither for those who connect to it, nor to addresses that the guard refuses, nor to itself.
#[tokio::test(flavor = "multi_thread")]
async fn the_port_of_redirected_connections_is_no_open_relay() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    let before = setup.seen(0);
    for gateway in [format!("{ROUTER_V4}:3130"), format!("[{ROUTER_V6}]:3130")] {
        let proxy = format!("http://{gateway}");
        for arguments in [
            &["--noproxy", "", "--proxy", &proxy, "http://site.test/x"][..],
            &[
                "--noproxy",
                "",
                "--proxy",
                &proxy,
                "--proxytunnel",
                "http://site.test/x",
            ],
            &["--header", "Host: site.test", &proxy],
            &["--insecure", &format!("https://{gateway}/")],
        ] {
            let (status, _) = setup.curl(arguments).await?;
            assert!([0, 404].contains(&status), "{arguments:?}: {status}");
        }
    }
    assert_eq!(setup.seen(0), before, "a request was relayed");

    // The rules let what is behind the router alone; a rule that does not, leads to the guard.
    let everything = format!(
        "table inet everything {{ chain incoming {{ type nat hook prerouting priority -110; \
         iifname \"{INTERFACE}\" tcp dport {{ 22, 80, 443 }} redirect to :3130; }}\n}}\n"
    );
    setup
        .net
        .router
        .run_blocking(move || super::network::nft(&everything))?;
    for url in [
        "http://10.99.0.1/",
        "http://169.254.169.254/",
        "http://127.0.0.2/",
        "http://11.92.0.1/",
    ] {
        let (status, body) = setup.curl(&[url]).await?;
        assert!([0, 403].contains(&status), "{url}: {status} {body}");
    }
    for url in ["http://11.92.0.2:22/", "https://11.92.0.1/"] {
        let (status, body) = setup.curl(&["--insecure", url]).await?;
        assert!([0, 403].contains(&status), "{url}: {status} {body}");
    }
    // From outside of the networks in `allow`.
    setup
        .net
        .visitor
        .run_blocking(|| super::network::ip("address add 10.93.0.2/24 dev wlan0"))?;
    setup
        .net
        .router
        .run_blocking(|| super::network::ip("address add 10.93.0.1/24 dev lan0"))?;
    let outside = [&SITE[..], &["--interface", "10.93.0.2", "http://site.test/x"]].concat();
    assert_eq!(setup.curl(&outside).await?.0, 0);
    assert_eq!(setup.seen(0), before, "a request was relayed");
    assert!(
        setup
            .metric("longhaul_clientless_denied_total{reason=\"outside\"} ")
            .await?
            >= 1
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_printed_only_for_what_the_gateway_serves() -> Result<()> {
    let folder = crate::pair::folder()?;
    let config = folder.path().join("gateway.toml").display().to_string();
    std::fs::write(&config, "[clientless]\nallow = [\"10.92.0.0/24\"]\n")?;
    let rules = async |from: &str| {
        let arguments = [
            "clientless",
            "rules",
            "--config",
            &config,
            "--iface",
            "lan0",
            "--from",
            from,
        ];
        run("longhaul-gateway", &arguments, COMMAND_LIMIT).await
    };
    let refused = rules("10.92.0.0/24").await?;
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("set clientless.transparent"),
        "{}",
        refused.stderr
    );
    let refused = rules("10.0.0.0/8").await?;
    assert!(refused.stderr.contains("clientless.allow"), "{}", refused.stderr);
    Ok(())
}
