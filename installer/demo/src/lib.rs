//! `longhaul demo`: a gateway and an agent on this machine with temporary keys, and page loads through them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod comparison;
mod emulation;
mod measurement;
mod once;
mod overrides;
mod pair;
mod program;
mod report;
mod scrape;
mod service;
pub mod site;

use std::{io, path::PathBuf, sync::Arc};

use longhaul_netem::Profile;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tempfile::TempDir;
use url::Url;

use crate::{
    comparison::{ComparisonPage, Contents, ControlPort},
    emulation::{DirectProxy, Names},
    site::Site,
};
use longhaul_replay::{
    origin::{Content, Origin, OriginError},
    page::TrustError,
    tls::{TestAuthority, TlsError},
    warc::{LoadError, Recording},
};
pub use measurement::{Comparison, Way};
pub use once::{DirectLoad, Finished};
pub use overrides::{Override, ParseOverrideError};
use pair::Pair;
pub use pair::PairError;
pub use program::ProgramError;
pub use program::find_agent;
pub use report::{ObjectError, Report};
pub use scrape::{Savings, SavingsByCause, ScrapeError};
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
    /// The link that is emulated between agent and gateway; none if absent.
    pub link: Option<Profile>,
}

/// `--link`
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Link {
    /// No emulation: the machine's own speed.
    None,
    /// A slow link between agent and gateway.
    Emulated(Profile),
}

/// A name that is not a link profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a link profile; known are: none, {known}", known = Profile::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownLink(String);

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
    /// The emulated link cannot be started.
    #[error("cannot start the emulated link: {0}")]
    Emulation(#[source] io::Error),
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
    direct: Option<Arc<DirectProxy>>,
    page: Option<ComparisonPage>,
    _origin: Origin,
    content: Arc<Content>,
    options: DemoOptions,
    trusted: Vec<CertificateDer<'static>>,
    directory: TempDir,
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
        let content = Arc::new(Content::new(recording).with_host(Site::built_in()));
        let origin = Origin::start(Arc::clone(&content), &authority).await?;
        let directory = tempfile::Builder::new().prefix("longhaul-demo-").tempdir();
        let directory = directory.map_err(DemoError::Temporary)?;
        let ca_file = directory.path().join("test-ca.pem");
        std::fs::write(&ca_file, authority.pem()).map_err(DemoError::Temporary)?;
        let mut ca_files = vec![ca_file];
        ca_files.extend(options.extra_ca.clone());
        let resolve = overrides(&options, &origin, content.recording().is_some());
        let hop = options.link.map(emulation::hop);
        let direct = match hop.clone() {
            Some(hop) => {
                let proxy = DirectProxy::start(hop, Names::new(resolve.clone())).await;
                Some(Arc::new(proxy.map_err(DemoError::Emulation)?))
            }
            None => None,
        };
        let plan = pair::Plan {
            resolve,
            ca_files,
            hop,
        };
        let pair = Pair::start(&programs, directory.path(), &plan).await?;
        Ok(Self {
            pair,
            direct,
            page: None,
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

    /// Description of the emulated link, if there is one.
    pub fn link(&self) -> Option<String> {
        self.options.link.map(measurement::describe)
    }

    /// Starts the page that shows both loads side by side; only with an emulated link.
    ///
    /// # Errors
    /// No port is available.
    pub async fn show(&mut self, measured: &Comparison) -> Result<(), DemoError> {
        let (Some(direct), Some(link)) = (&self.direct, self.link()) else {
            return Ok(());
        };
        let contents = Contents {
            link,
            direct_proxy: direct.address(),
            longhaul_proxy: self.pair.proxy(),
            measured,
        };
        let control = ControlPort {
            address: self.pair.control(),
            token: self.pair.token().to_owned(),
        };
        let page = ComparisonPage::start(&contents, Arc::clone(direct), control).await;
        self.page = Some(page.map_err(DemoError::Emulation)?);
        Ok(())
    }

    /// Runs until gateway or agent ends, which is an error.
    pub async fn watch(&mut self) -> DemoError {
        self.pair.ended().await.into()
    }

    /// Addresses of the parts and instructions for their use, as lines for a terminal.
    pub fn instructions(&self) -> String {
        let proxy = self.pair.proxy();
        let page = self.default_page().unwrap_or_else(|_| site_url());
        let mut text = String::new();
        if let Some(page) = &self.page {
            text.push_str(&format!("See both loads side by side:  {}\n\n", page.url()));
        }
        text.push_str(&format!(
            "Longhaul runs on this machine: browser -> agent -> gateway -> web\n\n  \
             proxy      {proxy}\n  dashboard  http://{}/\n",
            self.pair.control()
        ));
        if let Some(buttons) = self.pair.buttons() {
            text.push_str(&format!("  with buttons {buttons}\n"));
        }
        if let Some(direct) = &self.direct {
            let address = direct.address();
            text.push_str(&format!(
                "  direct proxy {address} (an equal link without Longhaul)\n"
            ));
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

impl std::str::FromStr for Link {
    type Err = UnknownLink;
    fn from_str(name: &str) -> Result<Self, UnknownLink> {
        if name == "none" {
            return Ok(Self::None);
        }
        let profile = Profile::named(name).map_err(|_| UnknownLink(name.to_owned()))?;
        Ok(Self::Emulated(profile))
    }
}

impl Link {
    /// The profile to emulate.
    pub const fn profile(self) -> Option<Profile> {
        match self {
            Self::None => None,
            Self::Emulated(profile) => Some(profile),
        }
    }
}

#[expect(clippy::expect_used, reason = "a constant that a test loads")]
fn site_url() -> Url {
    Site::URL.parse().expect("the built-in site has a valid URL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_named_as_for_the_agent() {
        assert_eq!("none".parse(), Ok(Link::None));
        for name in longhaul_types::LinkProfile::names() {
            let link: Link = name.parse().unwrap();
            assert_eq!(link.profile().unwrap().name(), name);
        }
        let error = "pigeon".parse::<Link>().unwrap_err().to_string();
        assert!(
            error.contains("`pigeon`") && error.contains("none, gprs-3+1"),
            "{error}"
        );
    }
}
