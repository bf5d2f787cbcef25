//! Options of a browser, and the command line that they make.
use std::{net::SocketAddr, path::PathBuf};

use crate::still::{self, Motion};

/// Where Chromium's own services are sent instead of to Google: a port that nobody listens on.
const NOWHERE: &str = "http://127.0.0.1:9/";
/// Hosts that Chromium calls on its own account. They never go through a proxy (they are found nowhere instead), unless
/// the page needs them: some of the calls cannot be switched off, and each costs the uplink a connection.
const HOMES: &[&str] = &[
    "accounts.google.com",
    "android.clients.google.com",
    "clients1.google.com",
    "clients2.google.com",
    "clientservices.googleapis.com",
    "content-autofill.googleapis.com",
    "dl.google.com",
    "edgedl.me.gvt1.com",
    "mtalk.google.com",
    "optimizationguide-pa.googleapis.com",
    "passwordsleakcheck-pa.googleapis.com",
    "redirector.gvt1.com",
    "safebrowsing.googleapis.com",
    "safebrowsingohttpgateway.googleapis.com",
    "sb-ssl.google.com",
    "update.googleapis.com",
];
/// What makes Chromium work or call home on its own account. Nothing here changes how a page is loaded.
const QUIET: &[&str] = &[
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--noerrdialogs",
    "--mute-audio",
    "--metrics-recording-only",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    // A tab without a window is no tab in the background.
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];
/// Features switched off. The first two would ask plain test names for `https` first; the others call home. Prediction
/// and preconnects stay as users have them: a new profile has no history to predict from.
const FEATURES_OFF: &[&str] = &[
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationGuideModelDownloading",
    "OptimizationGuideOnDeviceModel",
    "OptimizationHints",
    "OptimizationHintsFetching",
    "Translate",
];

/// What a browser is to be like.
#[derive(Clone, Debug, Default)]
pub struct BrowserOptions {
    /// The HTTP proxy that everything goes through. It resolves all names. Chromium never sends loopback names and
    /// addresses through a proxy.
    pub proxy: Option<SocketAddr>,
    /// Names that are found without a proxy.
    pub names: Names,
    /// Hosts of the page that are among those that Chromium calls itself (`accounts.google.com`, …): only if named
    /// here do they go through the proxy.
    pub page_hosts: Vec<String>,
    /// Certificates to trust: Base64 of the SHA-256 of the public key of one in the chain.
    pub trust_spki: Vec<String>,
    /// The tab's size in CSS pixels.
    pub viewport: Viewport,
    /// Whether pages move by themselves.
    pub motion: Motion,
    /// Whether HTTP/2 may be negotiated.
    pub http2: Http2,
    /// Where the profile and other temporary files lie; the system's folder for those if none.
    pub folder: Option<PathBuf>,
    /// More of Chromium's command line.
    pub extra: Vec<String>,
}

/// Which names a browser without a proxy finds. All others are not found without a question to anybody, so that
/// Chromium's own calls never load the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Hosts that the name servers of `/etc/resolv.conf` are asked for. `*.site.test` names all below. It is
    /// Chromium's own resolver that asks, as users' browsers do unless `/etc/nsswitch.conf` is unusual: for A and HTTPS
    /// records (RFC 9460) of each name, for AAAA too where there is a route for IPv6, and for A once more if there is
    /// no such name.
    pub system: Vec<String>,
    /// Hosts at fixed addresses: pattern, then `ADDRESS` or `ADDRESS:PORT`.
    pub fixed: Vec<(String, String)>,
}

/// The size of a tab in CSS pixels, which are also the pixels of screenshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewport {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// Whether HTTP/2 may be negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2 {
    /// As servers wish.
    #[default]
    On,
    /// HTTP/1.1 only.
    Off,
}

impl Names {
    /// The system's resolver is asked for these hosts.
    pub fn system(hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            system: hosts.into_iter().map(Into::into).collect(),
            fixed: Vec::new(),
        }
    }

    /// These hosts lie at these addresses.
    pub fn fixed(hosts: impl IntoIterator<Item = (impl Into<String>, impl ToString)>) -> Self {
        let fixed = hosts.into_iter();
        Self {
            system: Vec::new(),
            fixed: fixed
                .map(|(host, target)| (host.into(), target.to_string()))
                .collect(),
        }
    }
}

impl Default for Viewport {
    /// 1366 x 768, the most frequent notebook's.
    fn default() -> Self {
        Self {
            width: 1366,
            height: 768,
        }
    }
}

impl BrowserOptions {
    /// A browser that sends everything through `proxy` and resolves no name itself.
    pub fn behind(proxy: SocketAddr) -> Self {
        Self {
            proxy: Some(proxy),
            ..Self::default()
        }
    }

    /// A browser without a proxy that finds these names.
    pub fn direct(names: Names) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// The command line, the profile's folder apart.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Viewport { width, height } = self.viewport;
        let mut line: Vec<String> = vec![
            "--headless=new".into(),
            // Chromium's own sandbox needs privileges that a world's processes, root in a user namespace, do not have.
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            // One renderer a tab: frames of other sites report to the tab's session, and loads that run side by side
            // share two cores.
            "--disable-site-isolation-trials".into(),
            "--remote-debugging-port=0".into(),
            format!("--window-size={width},{height}"),
            format!("--gaia-url={NOWHERE}"),
            format!("--component-updater=url-source={NOWHERE}"),
            format!("--disable-features={}", FEATURES_OFF.join(",")),
        ];
        line.extend(QUIET.iter().map(|flag| (*flag).to_owned()));
        line.push(format!("--host-resolver-rules={}", self.resolver_rules()));
        if let Some(proxy) = self.proxy {
            line.push(format!("--proxy-server=http://{proxy}"));
            line.push(format!("--proxy-bypass-list={}", self.bypassed().join(";")));
        }
        if self.motion == Motion::Still {
            line.push(still::FLAG.into());
        }
        if self.http2 == Http2::Off {
            line.push("--disable-http2".into());
        }
        if !self.trust_spki.is_empty() {
            line.push(format!(
                "--ignore-certificate-errors-spki-list={}",
                self.trust_spki.join(",")
            ));
        }
        line.extend(self.extra.iter().cloned());
        line
    }

    fn resolver_rules(&self) -> String {
        let mut rules: Vec<String> = self.names.fixed.iter().map(rule).collect();
        rules.push("MAP * ~NOTFOUND".to_owned());
        // Exclusions win over every other rule, wherever they stand. An address is a name to these rules.
        let proxy = self.proxy.map(|proxy| proxy.ip().to_string());
        rules.extend(
            self.names
                .system
                .iter()
                .chain(&proxy)
                .map(|host| format!("EXCLUDE {host}")),
        );
        rules.join(" , ")
    }

    fn bypassed(&self) -> Vec<&'static str> {
        let homes = HOMES.iter().copied();
        homes
            .filter(|home| !self.page_hosts.iter().any(|host| host == home))
            .collect()
    }
}

fn rule((pattern, target): &(String, String)) -> String {
    format!("MAP {pattern} {target}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_names_are_found() {
        let mut options = BrowserOptions::direct(Names::fixed([("site.test", "127.0.0.1:8080")]));
        assert_eq!(
            options.resolver_rules(),
            "MAP site.test 127.0.0.1:8080 , MAP * ~NOTFOUND"
        );
        options.names = Names::system(["site.test", "*.cdn.test"]);
        assert_eq!(
            options.resolver_rules(),
            "MAP * ~NOTFOUND , EXCLUDE site.test , EXCLUDE *.cdn.test"
        );
        let proxied = BrowserOptions::behind(SocketAddr::from(([10, 78, 0, 1], 3128)));
        assert_eq!(proxied.resolver_rules(), "MAP * ~NOTFOUND , EXCLUDE 10.78.0.1");
    }

    #[test]
    fn calls_home_pass_the_proxy_by_unless_the_page_needs_the_host() {
        let mut options = BrowserOptions::behind(SocketAddr::from(([127, 0, 0, 1], 3128)));
        assert!(options.bypassed().contains(&"accounts.google.com"));
        options.page_hosts = vec!["accounts.google.com".to_owned()];
        assert!(!options.bypassed().contains(&"accounts.google.com"));
    }
}
