//! Links by name: built-in profiles, users' definitions, recorded traces.
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_netem::{HopConfig, LinkDefinition, LinkFileError, ParseTraceError, Profile, parse_links};
use longhaul_types::{BitRate, ByteCount};
use serde::{Deserialize, Serialize};

/// Prefix of the path of a trace.
const TRACE: &str = "trace:";
/// Delay of traces, which contain only rates: that of the networks in which they were recorded, as assumed by
/// mahimahi's users.
const TRACE_DELAY: Duration = Duration::from_millis(20);
/// Queue of traces: 500 packets in each direction.
const TRACE_QUEUE: ByteCount = ByteCount::kb(750);

/// A link by its name on the command line, so that a worker finds the same link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkChoice {
    name: String,
    links_file: Option<PathBuf>,
}

/// A link with its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name in results.
    pub name: String,
    /// Configuration of both directions.
    pub hop: HopConfig,
    /// Raw rate towards the client; the mean rate of a trace.
    pub rate_down: BitRate,
    /// Round-trip time of the idle link with the mean jitter.
    pub rtt: Duration,
    /// Link profile that a user of this link would configure in the agent: the name of a built-in link, or
    /// for a link with a base the built-in base.
    pub agent_profile: Option<String>,
}

/// Errors of links.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// There is no such link.
    #[error("`{name}` is not a link{among}; built-in links are: {known}. `trace:PATH` reads PATH.down and PATH.up, and --links-file adds link definitions",
        known = Profile::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// Other places that were searched.
        among: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A trace is invalid.
    #[error("{} or its .up: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The error.
        source: ParseTraceError,
    },
    /// A link file has mistakes.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The mistakes.
        source: LinkFileError,
    },
}

impl LinkChoice {
    /// Creates the choice of the link with this name, built in or in `links_file`.
    pub fn new(name: &str, links_file: Option<&Path>) -> Self {
        Self {
            name: name.to_owned(),
            links_file: links_file.map(Path::to_owned),
        }
    }

    /// Returns its name in results: without its folder for a trace.
    pub fn name(&self) -> &str {
        match self.name.strip_prefix(TRACE) {
            Some(path) => Path::new(path)
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or(path),
            None => &self.name,
        }
    }

    /// Returns the folder from which a worker reads it.
    pub fn path(&self) -> Option<&Path> {
        let trace = self.name.strip_prefix(TRACE).map(Path::new);
        trace.or(self.links_file.as_deref()).and_then(Path::parent)
    }

    /// Finds the link.
    ///
    /// # Errors
    /// There is no such link, or its files are invalid.
    pub fn resolve(&self) -> Result<Link, LinkError> {
        if let Some(path) = self.name.strip_prefix(TRACE) {
            return traced(self.name(), path);
        }
        let mut among = String::new();
        if let Some(path) = &self.links_file {
            if let Some(found) = defined(path)?.into_iter().find(|link| link.name == self.name) {
                return Ok(found);
            }
            among = format!(" of {}", path.display());
        }
        let found = Profile::named(&self.name).map(Link::from);
        found.map_err(|_| LinkError::Unknown {
            name: self.name.clone(),
            among,
        })
    }
}

impl Link {
    /// Returns the link in the form that the transport's experiments use.
    pub fn definition(&self) -> LinkDefinition {
        LinkDefinition {
            name: self.name.clone(),
            hop: self.hop.clone(),
        }
    }
}

impl From<Profile> for Link {
    fn from(profile: Profile) -> Self {
        Self {
            agent_profile: Some(profile.name().to_owned()),
            ..LinkDefinition::from(profile).into()
        }
    }
}

impl From<LinkDefinition> for Link {
    fn from(link: LinkDefinition) -> Self {
        Self {
            rate_down: link.rate_down(),
            rtt: link.rtt(),
            name: link.name,
            hop: link.hop,
            agent_profile: None,
        }
    }
}

fn traced(name: &str, path: &str) -> Result<Link, LinkError> {
    let text = |suffix: &str| read(Path::new(&format!("{path}{suffix}")));
    let link = LinkDefinition::from_traces(name, &text(".down")?, &text(".up")?, TRACE_DELAY, TRACE_QUEUE);
    let link = link.map_err(|source| LinkError::Trace {
        path: format!("{path}.down").into(),
        source,
    })?;
    Ok(link.into())
}

/// Returns the links of a file; relative paths of traces start at the file's folder.
fn defined(path: &Path) -> Result<Vec<Link>, LinkError> {
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let text = read(path)?;
    let links = parse_links(&text, |name| fs::read_to_string(folder.join(name)));
    let links = links.map_err(|source| LinkError::File {
        path: path.to_owned(),
        source,
    })?;
    let table: toml::Table = text.parse().unwrap_or_default();
    let links = links.into_iter().map(|link| Link {
        agent_profile: base_profile(&table, &link.name),
        ..link.into()
    });
    Ok(links.collect())
}

/// Returns the built-in profile on which a link of the file is based, directly or through other links.
fn base_profile(table: &toml::Table, name: &str) -> Option<String> {
    let links = table.get("link")?.as_table()?;
    let mut name = name;
    // More steps than links would be a circle, which the file's parser rejects.
    for _ in 0..=links.len() {
        if Profile::named(name).is_ok() {
            return Some(name.to_owned());
        }
        name = links.get(name)?.get("base")?.as_str()?;
    }
    None
}

fn read(path: &Path) -> Result<String, LinkError> {
    fs::read_to_string(path).map_err(|source| LinkError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Returns all named links: the built-in ones and those of the file.
///
/// # Errors
/// The file is invalid.
pub fn known(links_file: Option<&Path>) -> Result<Vec<Link>, LinkError> {
    let mut links: Vec<_> = Profile::all().map(Link::from).collect();
    if let Some(path) = links_file {
        links.extend(defined(path)?);
    }
    Ok(links)
}

impl fmt::Display for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a displayed rate")]
        let kilobits = self.rate_down.as_bps() as f64 / 1000.0;
        write!(
            out,
            "{:<14} {kilobits:>9.1} kbit/s down, {:>5.0} ms round trip",
            self.name,
            self.rtt.as_secs_f64() * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_from_profiles_files_and_traces() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("links.toml");
        fs::write(
            &file,
            "[link.train]\nbase = \"lte\"\ndelay = \"50 ms\"\n[link.own]\nrate = \"1 Mbit/s\"\ndelay = \"9 ms\"\nqueue = \"9 kB\"\n",
        )?;
        fs::write(folder.path().join("car.down"), "1\n2\n")?;
        fs::write(folder.path().join("car.up"), "2\n")?;
        let train = LinkChoice::new("train", Some(&file)).resolve()?;
        assert_eq!(train.rate_down, BitRate::kbps(12_000));
        assert_eq!(train.agent_profile.as_deref(), Some("lte"));
        assert_eq!(LinkChoice::new("own", Some(&file)).resolve()?.agent_profile, None);
        assert_eq!(train.rtt, Duration::from_millis(103));
        assert_eq!(
            LinkChoice::new("lte", Some(&file))
                .resolve()?
                .agent_profile
                .as_deref(),
            Some("lte")
        );
        let choice = LinkChoice::new(&format!("trace:{}", folder.path().join("car").display()), None);
        assert_eq!(
            (choice.name(), choice.resolve()?.rate_down),
            ("car", BitRate::kbps(12_000))
        );
        Ok(())
    }

    #[test]
    fn the_example_of_the_documentation_is_valid() -> Result<(), Box<dyn std::error::Error>> {
        let text = include_str!("../../../../docs/BENCHMARKING.md");
        let example = text
            .split_once("```toml\n")
            .and_then(|(_, rest)| rest.split_once("```"))
            .ok_or("no example")?;
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), example.0)?;
        let train = LinkChoice::new("my-train", Some(file.path())).resolve()?;
        assert_eq!(train.rate_down, BitRate::kbps(6_000));
        Ok(())
    }

    #[test]
    fn link_errors_contain_the_reason() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("links.toml");
        fs::write(&file, "[link.a]\nbase = \"lte\"\nspeed = 3\n")?;
        let error = |name: &str, file| LinkChoice::new(name, file).resolve().unwrap_err().to_string();
        let unknown = error("gprs", None);
        assert!(
            unknown.contains("`gprs` is not a link") && unknown.contains("gprs-3+1"),
            "{unknown}"
        );
        let key = error("a", Some(file.as_path()));
        assert!(key.contains("links.toml") && key.contains("speed"), "{key}");
        let missing = error("trace:/nowhere/car", None);
        assert!(missing.contains("/nowhere/car.down"), "{missing}");
        Ok(())
    }
}
