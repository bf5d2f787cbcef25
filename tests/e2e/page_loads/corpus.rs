//! Recorded sites: the browser receives the same through agent and gateway as without them, over http and
//! over accelerated https.
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Response, StatusCode, request};
use longhaul_hosting::{Content, Hosting, HostingOptions, Listen, Scheme, TestAuthority};
use longhaul_loader::{ObjectClass, ObjectLoad, Outcome, model};
use longhaul_pages::Page;
use longhaul_tests::process::corpus;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use url::Url;

use super::large_pages::{options, options_trusting};
use crate::pair::{Pair, Setup};

/// A recorded page with the hosts that resolve.
#[derive(Debug)]
struct RecordedSite(Page);

impl Content for RecordedSite {
    fn answer(&self, request: &request::Parts, _: Scheme) -> Response<Bytes> {
        let url = Url::parse(&request.uri.to_string()).ok();
        let Some(answer) = url.and_then(|url| self.0.answer(&request.method, &url)) else {
            let mut missing = Response::new(Bytes::new());
            *missing.status_mut() = StatusCode::NOT_FOUND;
            return missing;
        };
        let mut response = Response::new(answer.body);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }

    fn hosts(&self) -> Vec<String> {
        let mut hosts = self.0.hosts();
        hosts.extend(self.0.blocked_hosts().iter().cloned());
        hosts
    }
}

/// The loaded object of each requested URL.
type LoadedObjects = BTreeMap<String, ObjectLoad>;

async fn load(page: &Page, proxy: SocketAddr) -> Result<LoadedObjects> {
    let mut url = page.url().clone();
    let secure = url.scheme() == "https";
    if secure {
        // The recordings answer under either scheme; https URLs in the page remain https.
        ensure!(url.set_scheme("http").is_ok(), "{url} without TLS");
    }
    let load = model::load(&url, &options(proxy)?, None).await;
    let load = load.with_context(|| format!("{} through {proxy}", page.name()))?;
    let plain = load
        .objects
        .into_iter()
        .filter(|object| object.url.scheme() == "http");
    Ok(plain.map(|object| (object.url.to_string(), object)).collect())
}

/// Loads a page with the scheme of the recording.
async fn load_as_recorded(page: &Page, pair: &Pair, authority: &TestAuthority) -> Result<LoadedObjects> {
    let mut roots = authority.roots()?;
    if let Ok(ours) = CertificateDer::from_pem_file(pair.folder().join("agent/ca.pem")) {
        roots.add(ours)?;
    }
    let options = options_trusting(pair.proxy(), roots)?;
    let load = model::load(page.url(), &options, None).await;
    let load = load.with_context(|| format!("{} through {}", page.name(), pair.proxy()))?;
    let objects = load.objects.into_iter();
    Ok(objects.map(|object| (object.url.to_string(), object)).collect())
}

fn compare(page: &str, direct: &LoadedObjects, through: &LoadedObjects) {
    let only = |one: &LoadedObjects, other: &LoadedObjects| -> Vec<String> {
        one.keys()
            .filter(|url| !other.contains_key(*url))
            .cloned()
            .collect()
    };
    assert_eq!(
        only(direct, through),
        [""; 0],
        "{page}: requested only without the pair"
    );
    assert_eq!(
        only(through, direct),
        [""; 0],
        "{page}: requested only through the pair"
    );
    let (mut delivered, mut bytes) = (0, 0);
    for (url, expected) in direct {
        let found = &through[url];
        assert_eq!(found.outcome, expected.outcome, "{page}: {url}");
        // Images may be transcoded; all other bodies are exact.
        if expected.outcome == Outcome::Delivered && expected.class != ObjectClass::Image {
            assert_eq!(found.status, expected.status, "{page}: {url}");
            assert_eq!(
                found.body_hash, expected.body_hash,
                "{page}: {url}: {} bytes, {} through the pair",
                expected.body_bytes, found.body_bytes
            );
        }
        delivered += usize::from(expected.outcome == Outcome::Delivered);
        bytes += expected.body_bytes;
    }
    println!("{page}: {delivered} of {} objects, {bytes} bytes", direct.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sites_come_through_unchanged() -> Result<()> {
    let Some(folder) = corpus() else {
        println!("SKIPPED: no recorded sites; set LONGHAUL_CORPUS to their folder");
        return Ok(());
    };
    for page in longhaul_pages::recorded::folder(&folder)? {
        let authority = TestAuthority::new()?;
        let content: Arc<dyn Content> = Arc::new(RecordedSite(page.clone()));
        let listen = Listen {
            plain: vec![(Ipv4Addr::LOCALHOST, 0).into()],
            tls: Vec::new(),
        };
        let hosting = Hosting::start(content, &listen, &authority, HostingOptions::default()).await?;
        let origin = *hosting.plain().first().context("a listener")?;
        // The origin accepts proxy requests, so this load bypasses Longhaul.
        let direct = load(&page, origin).await?;
        let pair = Pair::start(Setup::resolving(&[("*:80", origin)])).await?;
        for visit in ["first visit", "second visit"] {
            let through = load(&page, pair.proxy()).await?;
            compare(&format!("{} ({visit})", page.name()), &direct, &through);
        }
        let status = pair.status().await?;
        println!("{}: {} B down for two visits", page.name(), status["bytes_down"]);
    }
    Ok(())
}

/// A pair that resolves the hosts to these origins and trusts their authority.
pub(super) async fn accelerating(
    hosting: &Hosting,
    authority: &TestAuthority,
    accelerate: &str,
) -> Result<Pair> {
    let plain = *hosting.plain().first().context("a listener")?;
    let secure = *hosting.tls().first().context("a listener with TLS")?;
    let ca = tempfile::NamedTempFile::new()?;
    std::fs::write(ca.path(), authority.pem())?;
    let mut setup = Setup::resolving(&[("*:80", plain), ("*:443", secure)]);
    setup.gateway_config = format!("[metrics]\nlisten = \"127.0.0.1:0\"\n{}", setup.gateway_config);
    let trusted = format!("\n[fetch]\nextra-ca = ['{}']\n", ca.path().display());
    setup.gateway_config.push_str(&trusted);
    let accelerate = ["--https-accelerate", accelerate].map(str::to_owned);
    setup.agent_arguments.extend(accelerate);
    Pair::start(setup).await
}

/// Serves a recorded page on loopback, by http and https.
pub(super) async fn host(page: &Page, authority: &TestAuthority) -> Result<Hosting> {
    let content: Arc<dyn Content> = Arc::new(RecordedSite(page.clone()));
    let listen = Listen {
        plain: vec![(Ipv4Addr::LOCALHOST, 0).into()],
        tls: vec![(Ipv4Addr::LOCALHOST, 0).into()],
    };
    Ok(Hosting::start(content, &listen, authority, HostingOptions::default()).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_sites_come_through_unchanged_when_https_is_accelerated() -> Result<()> {
    let Some(folder) = corpus() else {
        println!("SKIPPED: no recorded sites; set LONGHAUL_CORPUS to their folder");
        return Ok(());
    };
    for page in longhaul_pages::recorded::folder(&folder)? {
        if page.url().scheme() != "https" {
            continue;
        }
        let authority = TestAuthority::new()?;
        let hosting = host(&page, &authority).await?;
        // A tunnel is encrypted end to end, so its bytes are the origin's.
        let tunnelled = accelerating(&hosting, &authority, "off").await?;
        let direct = load_as_recorded(&page, &tunnelled, &authority).await?;
        drop(tunnelled);
        let accelerated = accelerating(&hosting, &authority, "all").await?;
        for visit in ["first visit", "second visit"] {
            let through = load_as_recorded(&page, &accelerated, &authority).await?;
            compare(&format!("{} ({visit})", page.name()), &direct, &through);
        }
        let status = accelerated.status().await?;
        ensure!(
            status["pages"].as_u64() >= Some(1) && status["tunnels"] == 0,
            "{}: the site was tunnelled: {status}",
            page.name()
        );
    }
    Ok(())
}
