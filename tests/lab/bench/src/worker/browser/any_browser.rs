//! The browser of a load, scripted or Chromium.
use std::{
    path::Path,
    time::{Duration, Instant},
};

use longhaul_chromium::{
    Browser, BrowserOptions, Cache, Http2, LoadError as ChromiumLoadError, LoadOptions, Motion, Names,
    ProxyScheme, ProxySetting, Usage,
};
use longhaul_hosting::Content as _;
use longhaul_loader::{
    PageLoad,
    model::{self, AcceptEncoding, BrowserCache, ModelOptions, Route, Rules},
};
use longhaul_world::DNS_SERVER;
use url::Url;

use super::{super::network::Network, LoadError};
use crate::{
    job::{LoadJob, Picture},
    loader::Loader,
    system::System,
};

/// A browser in the client's namespace.
pub(in crate::worker) enum AnyBrowser {
    Model {
        options: Box<ModelOptions>,
        cache: BrowserCache,
    },
    Chromium(Box<Browser>),
}

pub(in crate::worker) async fn start_browser(
    job: &LoadJob,
    network: &Network,
    limit: Duration,
    temporary: &Path,
) -> Result<AnyBrowser, LoadError> {
    let ours = network.agent_authority()?;
    match job.loader {
        Loader::Model => {
            let mut trusted = vec![network.authority.certificate().clone()];
            trusted.extend(ours.map(|authority| authority.certificate));
            let trust = longhaul_replay::page::client_trust(&trusted)?;
            let route = match network.proxy() {
                Some(proxy) => Route::Proxy(proxy),
                None => Route::Direct {
                    resolver: (DNS_SERVER, 53).into(),
                },
            };
            let mut options = ModelOptions::new(route, trust);
            options.rules = rules(job.system, job.outstanding);
            if job.system.is_longhaul() || job.system.is_clientless() || job.system == System::Ziproxy {
                // Every browser sends this field. Without it, a proxy must not compress, and Longhaul takes the client for a
                // program, which gets the codings that it negotiated.
                options.accept_encoding = AcceptEncoding::Gzip;
            }
            if job.system == System::DirectDns {
                options.hosts = network.known_names();
            }
            options.limits.time = limit;
            Ok(AnyBrowser::Model {
                options: Box::new(options),
                cache: BrowserCache::default(),
            })
        }
        Loader::Chromium => {
            let hosts = network.content.hosts();
            let mut trust_spki = vec![network.authority.pin().to_owned()];
            trust_spki.extend(ours.map(|authority| authority.pin));
            let options = BrowserOptions {
                proxy: network.proxy(),
                proxy_scheme: if job.system.is_secure_proxy() {
                    ProxyScheme::Https
                } else {
                    ProxyScheme::Http
                },
                proxy_setting: if job.system.has_proxy_script() {
                    ProxySetting::Script
                } else {
                    ProxySetting::Address
                },
                // The script permits direct connections where the proxy does not answer: they would be another system.
                names: if job.system.has_proxy_script() {
                    Names::default()
                } else {
                    Names::system(hosts.clone())
                },
                page_hosts: hosts,
                trust_spki,
                http2: if job.system.allows_http2() {
                    Http2::On
                } else {
                    Http2::Off
                },
                motion: match job.picture {
                    Picture::None => Motion::AsUsual,
                    Picture::Taken => Motion::Still,
                },
                folder: Some(temporary.to_owned()),
                ..BrowserOptions::default()
            };
            let browser = network
                .world
                .client()
                .run(move || async move { Browser::start(&options).await })
                .await?;
            Ok(AnyBrowser::Chromium(Box::new(browser)))
        }
    }
}

pub(super) fn rules(system: System, outstanding: Option<u32>) -> Rules {
    if let Some(depth) = outstanding.filter(|_| system.is_pipelined()) {
        return Rules::Pipelined {
            per_host: 1,
            depth: usize::try_from(depth).unwrap_or(usize::MAX),
        };
    }
    match system {
        System::DirectHttp10 => Rules::Http10,
        System::DirectPipelined
        | System::TcpProxyPipelined
        | System::TcpWwanPipelined
        | System::SquidPipelined
        | System::ClientlessPipelined => Rules::pipelined(),
        System::Direct | System::TcpProxy | System::TcpWwan | System::Clientless2 => Rules::persistent(2),
        System::Direct6
        | System::DirectDns
        | System::UrlRewriting
        | System::ClientlessH2
        | System::ClientlessPac
        | System::ClientlessH2Pac
        | System::DirectH2
        | System::Squid
        | System::SquidCache
        | System::Ziproxy
        | System::Http2Pair
        | System::Clientless
        | System::ClientlessUnknown
        | System::ClientlessTransparent
        | System::ClientlessDns
        | System::Longhaul
        | System::LonghaulNopush
        | System::LonghaulFixed
        | System::LonghaulHttps
        | System::LonghaulTls
        | System::LonghaulQuic
        | System::LonghaulUnknown
        | System::LonghaulTlsUnknown
        | System::LonghaulRemembered => Rules::persistent(6),
    }
}

/// Result of a load; a failure contains the reason, and the state of the load at that time.
pub(in crate::worker) type Loaded = Result<PageLoad, (String, Option<PageLoad>)>;

/// An ended load, with its start time.
pub(in crate::worker) struct Ended {
    pub(in crate::worker) browser: AnyBrowser,
    pub(in crate::worker) began: Instant,
    pub(in crate::worker) loaded: Loaded,
    /// Screenshot as PNG, if requested.
    pub(in crate::worker) picture: Option<Vec<u8>>,
    /// What Chromium used: processor time during the load, and memory at its end.
    pub(in crate::worker) usage: Option<Usage>,
}

/// Loads `url` in the client's namespace.
pub(in crate::worker) async fn load(
    mut browser: AnyBrowser,
    network: &Network,
    url: Url,
    limit: Duration,
    cache: Cache,
    picture: Picture,
) -> Ended {
    let absent_hosts = network.content.blocked_hosts();
    let loading = network.world.client().run(move || async move {
        let (mut began, mut taken, mut usage) = (Instant::now(), None, None);
        let loaded = match &mut browser {
            AnyBrowser::Model { options, cache: held } => {
                if cache == Cache::Clear {
                    *held = BrowserCache::default();
                }
                model::load(&url, options, Some(held))
                    .await
                    .map_err(|error| (error.to_string(), None))
            }
            AnyBrowser::Chromium(browser) => {
                let options = LoadOptions {
                    cache,
                    screenshot: picture == Picture::Taken,
                    absent_hosts,
                    ..LoadOptions::within(limit)
                };
                let before = browser.usage();
                let loaded = browser.load(url.as_str(), &options).await;
                let after = browser.usage();
                usage = Some(Usage {
                    cpu: after.cpu.saturating_sub(before.cpu),
                    ..after
                });
                if let Ok(loaded) = &loaded {
                    began = loaded.navigated;
                }
                let loaded = loaded.map(|loaded| {
                    taken = loaded.screenshot;
                    loaded.load
                });
                loaded.map_err(given_up)
            }
        };
        Ended {
            browser,
            began,
            loaded,
            picture: taken,
            usage,
        }
    });
    loading.await
}

pub(super) fn given_up(error: ChromiumLoadError) -> (String, Option<PageLoad>) {
    let reason = error.to_string();
    match error {
        ChromiumLoadError::Document { load, .. } | ChromiumLoadError::TimedOut { load, .. } => {
            (reason, Some(*load))
        }
        ChromiumLoadError::Url(_) | ChromiumLoadError::DevTools(_) => (reason, None),
    }
}
