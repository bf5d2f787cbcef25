//! `longhaul demo`: a gateway and an agent on this machine with temporary keys, and page loads through them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod once;
mod pair;
mod program;
mod report;
mod scrape;
mod service;
pub mod site;

use std::{io, path::PathBuf, sync::Arc};

use longhaul_types::LinkProfile;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tempfile::TempDir;
use url::Url;

use crate::site::Site;
use longhaul_replay::{
    origin::{Content, Origin, OriginError},
    page::TrustError,
    tls::{TestAuthority, TlsError},
    warc::{LoadError, Recording},
};
pub use once::Finished;
use pair::Pair;
pub use pair::PairError;
pub use program::ProgramError;
pub use program::find_agent;
pub use report::{ObjectError, Report};
pub use scrape::ScrapeError;
pub use service::ServiceError;

/// Options of a demonstration.
#[derive(Clone, Debug, Default)]
pub struct DemoOptions {
    /// Names that the gateway resolves by these entries instead of the DNS.
    pub resolve: Vec<Override>,
    /// PEM file of certificates that gateway and loader trust in addition to the web's authorities.
    pub extra_ca: Option<PathBuf>,
    /// WARC file to replay.
    pub warc: Option<PathBuf>,
    /// Name of the link profile that is passed to the agent.
    pub link: Option<String>,
}

/// One `--resolve NAME=ADDR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// `NAME`, `*.SUFFIX` or `*`, with or without `:PORT`.
    pub name: String,
    /// `ADDRESS` or `ADDRESS:PORT`.
    pub address: String,
}

/// A text that is not `NAME=ADDR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write NAME=ADDR, such as www.example.org=10.0.0.7 or *.test:443=127.0.0.1:8443")]
pub struct ParseOverrideError;

/// Errors of a demonstration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The recording cannot be replayed.
    #[error("{}: {source}", path.display())]
    Recording {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: LoadError,
    },
    /// The recording contains no HTML page.
    #[error("{}: no HTML page is recorded in it; name the page: longhaul demo --once URL --warc FILE", .0.display())]
    NoPage(PathBuf),
    /// The file of additional authorities is not usable.
    #[error("{}: {problem}", path.display())]
    ExtraCa {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The directory for temporary state cannot be created or written.
    #[error("cannot write temporary files: {0}; TMPDIR names another place for them")]
    Temporary(#[source] io::Error),
    /// The local origin cannot be started.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Certificates cannot be created or used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The loader's certificates are not usable.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Gateway or agent did not start.
    #[error(transparent)]
    Pair(#[from] PairError),
    /// The counters of gateway and agent cannot be read.
    #[error(transparent)]
    Scrape(#[from] ScrapeError),
    /// A built-in link profile is missing.
    #[error("{0}")]
    Link(#[from] longhaul_types::ParseLinkError),
    /// Gateway or agent ended during the demonstration.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// A running demonstration. Dropping it stops its programs and removes its files.
#[derive(Debug)]
pub struct Demo {
    // Dropped in this order: first the programs, last the directory that they write to.
    pair: Pair,
    _origin: Origin,
    content: Arc<Content>,
    options: DemoOptions,
    trusted: Vec<CertificateDer<'static>>,
    directory: TempDir,
}

impl std::str::FromStr for Override {
    type Err = ParseOverrideError;
    fn from_str(text: &str) -> Result<Self, ParseOverrideError> {
        let (name, address) = text.split_once('=').ok_or(ParseOverrideError)?;
        let address_valid =
            address.parse::<std::net::IpAddr>().is_ok() || address.parse::<std::net::SocketAddr>().is_ok();
        let name_valid =
            !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '/' || c == '"');
        if name_valid && address_valid {
            Ok(Self {
                name: name.to_owned(),
                address: address.to_owned(),
            })
        } else {
            Err(ParseOverrideError)
        }
    }
}

impl Demo {
    /// Starts origin, gateway and agent.
    ///
    /// # Errors
    /// A requirement is missing or does not start; the message names it.
    pub async fn start(options: DemoOptions) -> Result<Self, DemoError> {
        // Missing programs are reported before anything is read or started.
        let programs = program::Programs::find().map_err(PairError::from)?;
        let recording = open_recording(&options)?;
        let mut trusted = read_extra_ca(&options)?;
        let authority = TestAuthority::new()?;
        trusted.push(authority.certificate().clone());
        let content = Arc::new(Content::new(recording).with_host(Site::paint()));
        let origin = Origin::start(Arc::clone(&content), &authority).await?;
        let directory = tempfile::Builder::new().prefix("longhaul-demo-").tempdir();
        let directory = directory.map_err(DemoError::Temporary)?;
        let ca_file = directory.path().join("test-ca.pem");
        std::fs::write(&ca_file, authority.pem()).map_err(DemoError::Temporary)?;
        let mut ca_files = vec![ca_file];
        ca_files.extend(options.extra_ca.clone());
        let plan = pair::Plan {
            resolve: overrides(&options, &origin, content.recording().is_some()),
            ca_files,
            link: options.link.clone(),
        };
        let pair = Pair::start(&programs, directory.path(), &plan).await?;
        Ok(Self {
            pair,
            _origin: origin,
            content,
            options,
            trusted,
            directory,
        })
    }

    /// Returns the page that is loaded if none is named: that of the recording, else the built-in one.
    ///
    /// # Errors
    /// The recording contains no page.
    pub fn default_page(&self) -> Result<Url, DemoError> {
        match (self.content.recording(), &self.options.warc) {
            (Some(recording), Some(path)) => recording
                .main_page()
                .cloned()
                .ok_or_else(|| DemoError::NoPage(path.clone())),
            _ => Ok(site_url()),
        }
    }

    /// Runs until gateway or agent ends, which is an error.
    pub async fn watch(&mut self) -> DemoError {
        self.pair.ended().await.into()
    }

    /// Addresses of the parts and instructions for their use, as lines for a terminal.
    pub fn instructions(&self) -> String {
        let proxy = self.pair.proxy();
        let page = self.default_page().unwrap_or_else(|_| site_url());
        let mut text = format!(
            "Longhaul runs on this machine: browser -> agent -> gateway -> web\n\n  \
             proxy        {proxy}\n  status page  http://{}/\n",
            self.pair.control()
        );
        if let Some(buttons) = self.pair.buttons() {
            text.push_str(&format!("  with buttons {buttons}\n"));
        }
        text.push_str(&format!("  try          {page}\n"));
        if page.host_str() != Some(Site::HOST) {
            text.push_str(&format!("  built-in     {}\n", Site::URL));
        }
        text.push_str(&format!(
            "\nUse it for one browser window, or for curl:\n\n  \
             chromium --user-data-dir=\"$(mktemp -d)\" --proxy-server=http://{proxy}{} {page}\n  \
             curl --proxy http://{proxy} {page}\n\n\
             Firefox: Settings, Network Settings, Manual proxy: HTTP proxy {} port {}, also for HTTPS.\n",
            if self.content.recording().is_some() {
                " --ignore-certificate-errors"
            } else {
                ""
            },
            proxy.ip(),
            proxy.port(),
        ));
        if self.content.recording().is_some() {
            text.push_str(&format!(
                "\nEvery host is replayed from the recording. Its https hosts show certificates of\n{}\nwhich no \
                 browser trusts: hence the switch above, for a throw-away profile only.\n",
                self.directory.path().join("test-ca.pem").display()
            ));
        }
        text.push_str("\nCtrl-C stops it and removes its keys.\n");
        text
    }
}

/// Returns the gateway's name overrides. The user's entries come last and take precedence.
fn overrides(options: &DemoOptions, origin: &Origin, replaying: bool) -> Vec<Override> {
    let entry = |name: &str, address: std::net::SocketAddr| Override {
        name: name.to_owned(),
        address: address.to_string(),
    };
    let mut overrides = vec![entry(&format!("{}:80", Site::HOST), origin.http())];
    overrides.push(entry(&format!("{}:443", Site::HOST), origin.https()));
    if replaying {
        overrides.extend([entry("*:80", origin.http()), entry("*:443", origin.https())]);
    }
    overrides.extend(options.resolve.iter().cloned());
    overrides
}

fn open_recording(options: &DemoOptions) -> Result<Option<Recording>, DemoError> {
    let Some(path) = &options.warc else {
        return Ok(None);
    };
    let recording = Recording::open(path).map_err(|source| DemoError::Recording {
        path: path.clone(),
        source,
    })?;
    Ok(Some(recording))
}

fn read_extra_ca(options: &DemoOptions) -> Result<Vec<CertificateDer<'static>>, DemoError> {
    let Some(path) = &options.extra_ca else {
        return Ok(Vec::new());
    };
    let fail = |problem: String| DemoError::ExtraCa {
        path: path.clone(),
        problem,
    };
    let pem = std::fs::read(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| fail(format!("is not valid PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(fail(
            "holds no certificate (PEM, -----BEGIN CERTIFICATE-----)".to_owned(),
        ));
    }
    Ok(certificates)
}

/// Checks the name of a link profile.
///
/// # Errors
/// There is no such profile; the message lists the existing ones.
pub fn parse_link(name: &str) -> Result<String, longhaul_types::ParseLinkError> {
    name.parse::<LinkProfile>().map(|_| name.to_owned())
}

#[expect(clippy::expect_used, reason = "a constant that a test loads")]
fn site_url() -> Url {
    Site::URL.parse().expect("the built-in site has a valid URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_name_and_address() {
        for good in [
            "a.test=10.0.0.1",
            "*.test=::1",
            "*:443=127.0.0.1:8443",
            "a=[::1]:80",
        ] {
            let parsed: Override = good.parse().unwrap();
            assert_eq!(format!("{}={}", parsed.name, parsed.address), good);
        }
        for bad in [
            "",
            "a",
            "a=",
            "=1.2.3.4",
            "a=b.test",
            "a b=1.2.3.4",
            "http://a=1.2.3.4",
            "a=1.2.3.4:99999",
        ] {
            assert_eq!(bad.parse::<Override>(), Err(ParseOverrideError), "{bad}");
        }
    }
}
