//! Links by name: built-in profiles, the user's own, recorded traces.
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_netem::{HopConfig, LinkDefinition, LinkFileError, ParseTraceError, Profile, parse_links};
use longhaul_types::{BitRate, ByteCount};
use serde::{Deserialize, Serialize};

/// What comes before the path of a trace.
const TRACE: &str = "trace:";
/// Traces hold rates, not delays: that of the networks in which they were recorded, as mahimahi's users assume it.
const TRACE_DELAY: Duration = Duration::from_millis(20);
/// 500 packets, each way.
const TRACE_QUEUE: ByteCount = ByteCount::kb(750);

/// A link as the command line names it, so that a worker finds the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkChoice {
    name: String,
    links_file: Option<PathBuf>,
}

/// A link, ready to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name in results.
    pub name: String,
    /// Both directions.
    pub hop: HopConfig,
    /// The raw rate towards the client; the mean rate of a trace.
    pub rate_down: BitRate,
    /// The idle round-trip time with the mean jitter.
    pub rtt: Duration,
    /// The profile that a user of this link would give the agent: a built-in one's own name, and for a link that is based on a
    /// built-in one that.
    pub agent_profile: Option<String>,
}

/// A link that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// No such link.
    #[error("`{name}` is no link{among}; built in are: {known}. `trace:PATH` takes PATH.down and PATH.up, and links of your own come with --links-file",
        known = Profile::names().collect::<Vec<_>>().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where else it was looked for.
        among: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A trace is none.
    #[error("{} or its .up: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ParseTraceError,
    },
    /// A file of links has mistakes.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: LinkFileError,
    },
}

impl LinkChoice {
    /// The link of this name, built in or in `links_file`.
    pub fn new(name: &str, links_file: Option<&Path>) -> Self {
        Self {
            name: name.to_owned(),
            links_file: links_file.map(Path::to_owned),
        }
    }

    /// Its name in results: a trace's without its folder.
    pub fn name(&self) -> &str {
        match self.name.strip_prefix(TRACE) {
            Some(path) => Path::new(path)
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or(path),
            None => &self.name,
        }
    }

    /// The folder that a worker reads it from.
    pub fn path(&self) -> Option<&Path> {
        let trace = self.name.strip_prefix(TRACE).map(Path::new);
        trace.or(self.links_file.as_deref()).and_then(Path::parent)
    }

    /// Looks the link up.
    ///
    /// # Errors
    /// There is none of this name, or its files are damaged.
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
    /// The link as the transport's experiments take it.
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

/// The links of a file; traces that it names are looked for beside it.
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

/// The built-in profile that a link of the file is based on, through however many links between.
fn base_profile(table: &toml::Table, name: &str) -> Option<String> {
    let links = table.get("link")?.as_table()?;
    let mut name = name;
    // More steps than links would be a circle, which the file's reader refuses.
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

/// All links that have names: the built-in ones and those of the file.
///
/// # Errors
/// The file is damaged.
pub fn known(links_file: Option<&Path>) -> Result<Vec<Link>, LinkError> {
    let mut links: Vec<_> = Profile::all().map(Link::from).collect();
    if let Some(path) = links_file {
        links.extend(defined(path)?);
    }
    Ok(links)
}

impl fmt::Display for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
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
    fn mistakes_say_what_is_wrong() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("links.toml");
        fs::write(&file, "[link.a]\nbase = \"lte\"\nspeed = 3\n")?;
        let said = |name: &str, file| LinkChoice::new(name, file).resolve().unwrap_err().to_string();
        let unknown = said("gprs", None);
        assert!(
            unknown.contains("`gprs` is no link") && unknown.contains("gprs-3+1"),
            "{unknown}"
        );
        let key = said("a", Some(file.as_path()));
        assert!(key.contains("links.toml") && key.contains("speed"), "{key}");
        let missing = said("trace:/nowhere/car", None);
        assert!(missing.contains("/nowhere/car.down"), "{missing}");
        Ok(())
    }
}
