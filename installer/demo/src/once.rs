//! One page load through gateway and agent, and if a link is emulated, one without them.
use std::{net::SocketAddr, sync::Arc};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use longhaul_types::ByteCount;
use rustls_pki_types::CertificateDer;
use url::Url;

use super::{Comparison, Demo, DemoError, Report, Way, scrape};
use longhaul_replay::{
    origin::Content,
    page::{Client, Loader, Oracle, PageLoad, Route, TrustError, client_trust},
};

/// Result of a page load.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The report.
    pub report: Report,
    /// Number of objects that the recording does not contain; recordings are always incomplete.
    pub missing: usize,
    /// The load without Longhaul, if a link is emulated.
    pub direct: Option<DirectLoad>,
    longhaul: Way,
}

/// A load over the emulated link without Longhaul.
#[derive(Clone, Debug)]
pub struct DirectLoad {
    /// Failed objects and reasons.
    pub failures: Vec<(Url, String)>,
    way: Way,
}

impl Finished {
    /// Both loads, if a link is emulated.
    pub fn comparison(&self) -> Option<Comparison> {
        Some(Comparison {
            url: self.report.url.clone(),
            direct: self.direct.as_ref()?.way,
            longhaul: self.longhaul,
        })
    }
}

impl Demo {
    /// Loads `url` with its subresources, and reads the counters before and after. If a link is emulated, loads it
    /// also without Longhaul, at the same time over a link of its own.
    ///
    /// # Errors
    /// Counters cannot be read, or a program ended. The report contains failed objects.
    pub async fn load_once(&mut self, url: &Url) -> Result<Finished, DemoError> {
        let local = Client::new(Route::Direct, client_trust(&self.trusted)?);
        let longhaul = loader(self.pair.proxy(), &self.trusted, &self.content)?;
        let before = scrape::counters(&self.pair, &local).await?;
        let bars = MultiProgress::new();
        let direct = async {
            let Some(proxy) = self.direct.as_deref() else {
                return Ok(None);
            };
            let loader = loader(proxy.address(), &self.trusted, &self.content)?;
            let received = proxy.received();
            let load = watched(&loader, url, &bars, "direct").await;
            let bytes = ByteCount::new(proxy.received().saturating_sub(received));
            Ok::<_, TrustError>(Some((load, bytes)))
        };
        let name = if self.direct.is_some() { "Longhaul" } else { "" };
        let loads = async { tokio::join!(watched(&longhaul, url, &bars, name), direct) };
        let (load, direct) = tokio::select! {
            loads = loads => loads,
            error = self.pair.ended() => return Err(error.into()),
        };
        let direct = direct?;
        let after = scrape::resting_counters(&self.pair, &local).await?;
        let _hidden = bars.clear();
        let report = Report::new(&load, direct.as_ref().map(|(load, _)| load), before, after)?;
        Ok(Finished {
            missing: load.missing(),
            longhaul: way(&load, ByteCount::new(report.bytes_down)),
            direct: direct.map(|(load, bytes)| DirectLoad {
                failures: load
                    .failures()
                    .map(|(url, reason)| (url.clone(), reason.to_owned()))
                    .collect(),
                way: way(&load, bytes),
            }),
            report,
        })
    }
}

fn loader(
    proxy: SocketAddr,
    trusted: &[CertificateDer<'static>],
    content: &Arc<Content>,
) -> Result<Loader, TrustError> {
    let oracle: Arc<dyn Oracle> = Arc::<Content>::clone(content);
    let client = Client::new(Route::Proxy(proxy), client_trust(trusted)?);
    Ok(Loader::new(client, Some(oracle)))
}

fn way(load: &PageLoad, bytes: ByteCount) -> Way {
    Way {
        time: load.time,
        bytes,
        failed: load.failures().count(),
    }
}

/// Loads with a progress bar, which is visible only on a terminal: indicatif draws on stderr and hides itself
/// elsewhere.
async fn watched(loader: &Loader, url: &Url, bars: &MultiProgress, name: &'static str) -> PageLoad {
    let style = ProgressStyle::with_template("{prefix:8} {bar:30} {pos}/{len} objects  {elapsed}");
    let bar = bars.add(ProgressBar::new(1));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(name);
    let load = loader.load(url, |done, known| {
        bar.set_length(u64::try_from(known).unwrap_or(u64::MAX));
        bar.set_position(u64::try_from(done).unwrap_or(u64::MAX));
    });
    let load = load.await;
    bar.abandon();
    load
}
