//! Options of a browser, and its command line.
use std::{net::SocketAddr, path::PathBuf};

use crate::motion::{self, Motion};

/// Address of Chromium's own services instead of Google's: a port without a listener.
const NOWHERE: &str = "http://127.0.0.1:9/";
/// Hosts that Chromium contacts on its own initiative. They are never contacted through a proxy (and do not
/// resolve otherwise), unless the page needs them: some of the requests cannot be disabled, and each uses a
/// connection on the uplink.
const OWN_HOSTS: &[&str] = &[
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
/// Options that disable Chromium's own work and requests. None of them changes the loading of a page.
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
    // A tab without a window must not count as being in the background.
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
];
/// Disabled features. The first two would try `https` first for test names without a scheme; the others send
/// requests of Chromium's own. Prediction and preconnects stay at their defaults: a new profile has no
/// history to predict from.
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

/// Options of a browser.
#[derive(Clone, Debug, Default)]
pub struct BrowserOptions {
    /// The HTTP proxy for all requests. It resolves all names. Chromium never sends loopback names and
    /// addresses through a proxy.
    pub proxy: Option<SocketAddr>,
    /// How the proxy is reached.
    pub proxy_scheme: ProxyScheme,
    /// How the browser learns of the proxy.
    pub proxy_setting: ProxySetting,
    /// Names that resolve without a proxy.
    pub names: Names,
    /// Hosts of the page among those that Chromium contacts itself (`accounts.google.com`, …): only listed
    /// hosts are contacted through the proxy.
    pub page_hosts: Vec<String>,
    /// Trusted certificates: Base64 of the SHA-256 of the public key of one in the chain.
    pub trust_spki: Vec<String>,
    /// The tab's size in CSS pixels.
    pub viewport: Viewport,
    /// Motion of pages.
    pub motion: Motion,
    /// Negotiation of HTTP/2.
    pub http2: Http2,
    /// Folder of the profile and other temporary files; `None` for the system's folder.
    pub folder: Option<PathBuf>,
    /// Additional arguments of Chromium's command line.
    pub extra: Vec<String>,
}

/// Names that a browser without a proxy resolves. All others fail without a query, so that Chromium's own
/// requests never use the link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Hosts that are queried from the name servers of `/etc/resolv.conf`. `*.site.test` means all names
    /// below. Chromium's own resolver sends the queries, as in users' browsers unless `/etc/nsswitch.conf` is
    /// unusual: for A and HTTPS records (RFC 9460) of each name, also for AAAA if there is a route for IPv6,
    /// and again for A if the name does not exist.
    pub system: Vec<String>,
    /// Hosts at fixed addresses: pattern, then `ADDRESS` or `ADDRESS:PORT`.
    pub fixed: Vec<(String, String)>,
}

/// Size of a tab in CSS pixels, which are also the pixels of screenshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewport {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

/// How a proxy is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxyScheme {
    /// By plain HTTP.
    #[default]
    Http,
    /// Inside TLS, with HTTP/2 if the proxy has it: a secure web proxy.
    Https,
}

/// How a browser learns of its proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProxySetting {
    /// Its address is configured.
    #[default]
    Address,
    /// The address of its proxy auto-configuration script, `/proxy.pac`, is configured. The script is fetched from the proxy
    /// itself, without a proxy. It decides about Chromium's own requests, too.
    Script,
}

/// Negotiation of HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2 {
    /// Allowed.
    #[default]
    On,
    /// HTTP/1.1 only.
    Off,
}

impl Names {
    /// Returns names that the system's name servers resolve.
    pub fn system(hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            system: hosts.into_iter().map(Into::into).collect(),
            fixed: Vec::new(),
        }
    }

    /// Returns names at fixed addresses.
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
    /// 1366 x 768, the most common notebook size.
    fn default() -> Self {
        Self {
            width: 1366,
            height: 768,
        }
    }
}

impl BrowserOptions {
    /// Returns a browser that sends everything through `proxy` and resolves no name itself.
    pub fn behind(proxy: SocketAddr) -> Self {
        Self {
            proxy: Some(proxy),
            ..Self::default()
        }
    }

    /// Returns a browser without a proxy that resolves these names.
    pub fn direct(names: Names) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    /// Returns the command line without the profile's folder.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Viewport { width, height } = self.viewport;
        let mut line: Vec<String> = vec![
            "--headless=new".into(),
            // Chromium's own sandbox needs privileges that a world's processes, root in a user namespace, do
            // not have.
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-quic".into(),
            // One renderer per tab: frames of other sites report to the tab's session, and concurrent loads
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
            let scheme = match self.proxy_scheme {
                ProxyScheme::Http => "http",
                ProxyScheme::Https => "https",
            };
            match self.proxy_setting {
                ProxySetting::Address => {
                    line.push(format!("--proxy-server={scheme}://{proxy}"));
                    line.push(format!("--proxy-bypass-list={}", self.bypassed().join(";")));
                }
                ProxySetting::Script => line.push(format!("--proxy-pac-url={scheme}://{proxy}/proxy.pac")),
            }
        }
        if self.motion == Motion::Still {
            line.push(motion::FLAG.into());
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
        // Exclusions take precedence over every other rule, wherever they are. These rules treat an address
        // as a name.
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
        let own_hosts = OWN_HOSTS.iter().copied();
        own_hosts
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
    fn only_configured_names_resolve() {
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
    fn a_script_is_fetched_from_the_proxy_itself() {
        let mut options = BrowserOptions::behind(SocketAddr::from(([10, 78, 0, 1], 3128)));
        options.proxy_scheme = ProxyScheme::Https;
        options.proxy_setting = ProxySetting::Script;
        let line = options.arguments();
        assert!(line.contains(&"--proxy-pac-url=https://10.78.0.1:3128/proxy.pac".to_owned()));
        assert!(!line.iter().any(|flag| flag.starts_with("--proxy-server")));
    }

    #[test]
    fn own_requests_bypass_the_proxy_unless_the_page_needs_the_host() {
        let mut options = BrowserOptions::behind(SocketAddr::from(([127, 0, 0, 1], 3128)));
        assert!(options.bypassed().contains(&"accounts.google.com"));
        options.page_hosts = vec!["accounts.google.com".to_owned()];
        assert!(!options.bypassed().contains(&"accounts.google.com"));
    }
}
