//! Conversion of raw settings into validated ones; all problems are reported together.
use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_session::ImageLevel;
use longhaul_types::{ByteCount, Invite, LinkProfile, parse_duration};
use toml::Value;

use super::{
    CacheSettings, Config, ConfigFile, ConfigFlags, DEFAULT_CACHE_SIZE, DEFAULT_CONTROL, DEFAULT_FALLBACK,
    DEFAULT_IMAGE_LEVEL, DEFAULT_LISTEN, DEFAULT_PATIENCE, EarlyCredentials, Fallback, MIN_CACHE_SIZE,
    PushSettings, access,
};
use crate::{
    https::{Accelerate, HttpsSettings},
    state_dir::StateDir,
};

/// Environment variables that are valid Unicode.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Returns the variables of this process.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Returns a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(
            variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }
}

/// A problem with a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Problem {
    /// The flag, variable, key or file with the problem.
    pub place: String,
    /// Description of the problem and of the action to take.
    pub what: String,
}

/// All problems of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub Vec<Problem>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "the configuration has a problem: {one}"),
            many => {
                write!(f, "the configuration has {} problems:", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Returns `$XDG_STATE_HOME/longhaul-agent`, else `~/.local/state/longhaul-agent`.
pub fn default_state_dir(environment: &Environment) -> Option<PathBuf> {
    // The XDG Base Directory Specification requires that relative paths are ignored.
    let state = environment
        .get("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let home = || {
        environment
            .get("HOME")
            .map(|home| Path::new(home).join(".local/state"))
    };
    state.or_else(home).map(|state| state.join("longhaul-agent"))
}

/// Reads file, environment and flags; reads the invite from the state directory if none of them contains one.
///
/// # Errors
/// All problems found.
pub fn load(flags: &ConfigFlags, environment: &Environment) -> Result<Config, ConfigError> {
    let path = flags
        .config
        .clone()
        .or_else(|| environment.get("LONGHAUL_CONFIG").map(PathBuf::from));
    let Some(path) = path else {
        return resolve(flags, environment, &ConfigFile::default(), Vec::new());
    };
    let place = path.display().to_string();
    let read = std::fs::read_to_string(&path).map_err(|error| format!("the file cannot be read: {error}"));
    match read.and_then(|text| toml::from_str(&text).map_err(|error| error.to_string().trim_end().to_owned()))
    {
        Ok(file) => resolve(flags, environment, &file, Vec::new()),
        Err(what) => resolve(
            flags,
            environment,
            &ConfigFile::default(),
            vec![Problem { place, what }],
        ),
    }
}

/// Resolves only the state directory, for commands that need no other setting.
///
/// # Errors
/// The state directory is not set and there is no home directory.
pub fn load_state_dir(flag: Option<&Path>, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let given = flag
        .map(Path::to_path_buf)
        .or_else(|| environment.get("LONGHAUL_STATE_DIR").map(PathBuf::from));
    given
        .or_else(|| default_state_dir(environment))
        .ok_or_else(|| ConfigError(vec![no_state_dir()]))
}

/// Resolves settings; `problems` are the problems found earlier.
///
/// # Errors
/// All problems found.
pub fn resolve(
    flags: &ConfigFlags,
    environment: &Environment,
    file: &ConfigFile,
    problems: Vec<Problem>,
) -> Result<Config, ConfigError> {
    let mut layers = Layers {
        environment,
        problems,
    };
    let state_flag = flags.state_dir.as_ref().map(|path| path.display().to_string());
    let listen = layers.pick("listen", flags.listen.as_deref(), access::listen_address(file));
    let control = layers.pick("control", flags.control.as_deref(), file.control.as_ref());
    let state_dir = layers.pick("state-dir", state_flag.as_deref(), file.state_dir.as_ref());
    let invite = layers.pick("invite", flags.invite.as_deref(), file.invite.as_ref());
    let link = layers.pick("link", flags.link.as_deref(), file.link.as_ref());
    let image_level = layers.pick(
        "image-level",
        flags.image_level.as_deref(),
        file.image_level.as_ref(),
    );
    let after = layers.pick(
        "fallback.after",
        flags.fallback_after.as_deref(),
        file.fallback.after.as_ref(),
    );
    let size = layers.pick(
        "cache.size",
        flags.cache_size.as_deref(),
        file.cache.size.as_ref(),
    );
    let cache_flag = flags.cache_dir.as_ref().map(|path| path.display().to_string());
    let cache_dir = layers.pick("cache.dir", cache_flag.as_deref(), file.cache.dir.as_ref());
    let in_file = file.push.enabled.as_ref().map(yes_or_no);
    let enabled = layers.pick("push.enabled", flags.no_push.then_some("no"), in_file.as_ref());
    let patience = layers.pick("push.patience", None, file.push.patience.as_ref());
    let in_file = file.session.early_credentials.as_ref().map(yes_or_no);
    let early_credentials = layers.pick(
        "session.early-credentials",
        flags.session_early_credentials.as_deref(),
        in_file.as_ref(),
    );
    let [accelerate, except] =
        [&file.https.accelerate, &file.https.except].map(|value| value.as_ref().map(joined));
    let accelerate = layers.pick(
        "https.accelerate",
        flags.https_accelerate.as_deref(),
        accelerate.as_ref(),
    );
    let except = layers.pick("https.except", flags.https_except.as_deref(), except.as_ref());

    let listen = listen.or_default("listen", DEFAULT_LISTEN);
    let place = listen.place.clone();
    let listen = layers.parse(listen, socket_address);
    let access = access::resolve(&mut layers, flags, file, listen.map(|address| (address, place)));
    let control = layers.parse(control.or_default("control", DEFAULT_CONTROL), loopback_address);
    let link = link.0.map_or(Some(None), |given| {
        layers.parse(given, |text| parse_link(text).map(Some))
    });
    let images = match image_level.0 {
        Some(given) => layers.parse(given, parse_image_level),
        None => Some(DEFAULT_IMAGE_LEVEL),
    };
    let fallback = match after.0 {
        Some(given) => layers.parse(given, parse_fallback),
        None => Some(Fallback::After(DEFAULT_FALLBACK)),
    };
    let size = match size.0 {
        Some(given) => layers.parse(given, parse_cache_size),
        None => Some(DEFAULT_CACHE_SIZE),
    };
    let enabled = match enabled.0 {
        Some(given) => layers.parse(given, parse_yes),
        None => Some(true),
    };
    let early_credentials = match early_credentials.0 {
        Some(given) => layers.parse(given, parse_early_credentials),
        None => Some(EarlyCredentials::default()),
    };
    let patience = match patience.0 {
        Some(given) => layers.parse(given, parse_patience),
        None => Some(DEFAULT_PATIENCE),
    };
    let accelerate = match accelerate.0 {
        Some(given) => layers.parse(given, parse_accelerate),
        None => Some(Accelerate::Off),
    };
    let except = match except.0 {
        Some(given) => layers.parse(given, parse_hosts),
        None => Some(Vec::new()),
    };
    let https = accelerate
        .zip(except)
        .map(|(accelerate, except)| HttpsSettings { accelerate, except });
    let state_dir = match state_dir.0 {
        Some(Given { text, .. }) => Some(PathBuf::from(text)),
        None => default_state_dir(environment),
    };
    if state_dir.is_none() {
        layers.problems.push(no_state_dir());
    }
    let invite = match (invite.0, &state_dir) {
        (Some(given), _) => layers.parse(given, parse_invite),
        (None, Some(state_dir)) => match StateDir::new(state_dir.clone()).invite() {
            Ok(invite) => Some(invite),
            Err(error) => {
                layers.problems.push(Problem {
                    place: "invite".to_owned(),
                    what: error.to_string(),
                });
                None
            }
        },
        (None, None) => None,
    };
    let pages = match (images, size, enabled, patience, https) {
        (Some(images), Some(size), Some(enabled), Some(patience), Some(https)) => {
            Some((images, size, enabled, patience, https))
        }
        _ => None,
    };
    match (
        listen.zip(access),
        control,
        state_dir,
        invite,
        link,
        fallback.zip(early_credentials),
        pages,
    ) {
        (
            Some((listen, (access, direct_allow))),
            Some(control),
            Some(state_dir),
            Some(invite),
            Some(link),
            Some((fallback, early_credentials)),
            Some((images, size, enabled, patience, https)),
        ) if layers.problems.is_empty() => Ok(Config {
            listen,
            access,
            direct_allow,
            control,
            invite,
            link,
            images,
            fallback,
            cache: CacheSettings {
                size,
                dir: cache_dir
                    .0
                    .map_or_else(|| state_dir.join("cache"), |given| given.text.into()),
            },
            push: PushSettings {
                enabled,
                patience,
                ..PushSettings::default()
            },
            https,
            early_credentials,
            state_dir,
        }),
        _ => Err(ConfigError(layers.problems)),
    }
}

pub(super) struct Layers<'a> {
    environment: &'a Environment,
    pub(super) problems: Vec<Problem>,
}

/// A value and its origin.
pub(super) struct Given {
    place: String,
    text: String,
}

pub(super) struct Picked(pub(super) Option<Given>);

impl Picked {
    fn or_default(self, key: &str, default: &str) -> Given {
        self.0.unwrap_or_else(|| Given {
            place: key.to_owned(),
            text: default.to_owned(),
        })
    }
}

impl Layers<'_> {
    /// Returns the value of the highest layer that has one.
    pub(super) fn pick(&mut self, key: &str, flag: Option<&str>, file: Option<&Value>) -> Picked {
        let name = key.replace('.', "-");
        let variable = format!("LONGHAUL_{}", name.replace('-', "_").to_ascii_uppercase());
        let in_file = file.and_then(|value| {
            let place = format!("`{key}` in the file");
            if let Some(text) = value.as_str() {
                return Some(Given {
                    place,
                    text: text.to_owned(),
                });
            }
            let what = format!("`{value}` must be text in quotes, with its unit where it has one");
            self.problems.push(Problem { place, what });
            None
        });
        let given = |place: String, text: &str| Given {
            place,
            text: text.to_owned(),
        };
        let picked = flag
            .map(|text| given(format!("--{name}"), text))
            .or_else(|| {
                self.environment
                    .get(&variable)
                    .map(|text| given(variable.clone(), text))
            })
            .or(in_file);
        Picked(picked)
    }

    pub(super) fn parse<T>(&mut self, given: Given, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let Given { place, text } = given;
        parse(text.trim())
            .map_err(|what| self.problems.push(Problem { place, what }))
            .ok()
    }
}

fn no_state_dir() -> Problem {
    Problem {
        place: "state-dir".to_owned(),
        what: "there is no home directory here (HOME is not set): say --state-dir DIR".to_owned(),
    }
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not ADDRESS:PORT, such as 127.0.0.1:3128 or [::1]:3128"))
}

fn loopback_address(text: &str) -> Result<SocketAddr, String> {
    let address = socket_address(text)?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "`{text}` could be reached from other machines: use 127.0.0.1 or [::1]"
        ))
    }
}

/// Accepts a TOML boolean as `yes` or `no`.
fn yes_or_no(value: &Value) -> Value {
    match value.as_bool() {
        Some(yes) => Value::String(if yes { "yes" } else { "no" }.to_owned()),
        None => value.clone(),
    }
}

/// Converts a list of names into one text with commas.
pub(super) fn joined(value: &Value) -> Value {
    let names = value
        .as_array()
        .map(|names| names.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
    match names {
        Some(Some(names)) => Value::String(names.join(",")),
        Some(None) | None => value.clone(),
    }
}

fn parse_accelerate(text: &str) -> Result<Accelerate, String> {
    match text {
        "off" => Ok(Accelerate::Off),
        "all" => Ok(Accelerate::All),
        names => parse_hosts(names).map(Accelerate::Only),
    }
}

fn parse_hosts(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let name = name.trim_start_matches("*.").to_ascii_lowercase();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
            if name.len() <= 253 && name.chars().all(plain) {
                Ok(name)
            } else {
                Err(format!(
                    "`{name}` is no host name; write such as example.org, without https:// and path"
                ))
            }
        })
        .collect()
}

fn parse_link(text: &str) -> Result<LinkProfile, String> {
    text.parse()
        .map_err(|error: longhaul_types::ParseLinkError| error.to_string())
}

fn parse_invite(text: &str) -> Result<Invite, String> {
    text.parse()
        .map_err(|error: longhaul_types::ParseInviteError| error.to_string())
}

fn parse_cache_size(text: &str) -> Result<ByteCount, String> {
    if text == "0" {
        return Ok(ByteCount::ZERO);
    }
    match text.parse::<ByteCount>() {
        Ok(ByteCount::ZERO) => Ok(ByteCount::ZERO),
        Ok(size) if size >= MIN_CACHE_SIZE => Ok(size),
        Ok(_) => Err(format!(
            "`{text}` is less than {MIN_CACHE_SIZE}; say \"0\" for no cache"
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_image_level(text: &str) -> Result<ImageLevel, String> {
    ImageLevel::ALL
        .into_iter()
        .find(|level| level.name() == text)
        .ok_or_else(|| format!("`{text}` is none of original, high, medium, low, text"))
}

fn parse_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "on" => Ok(true),
        "no" | "false" | "off" => Ok(false),
        _ => Err(format!("`{text}` is neither yes nor no")),
    }
}

fn parse_early_credentials(text: &str) -> Result<EarlyCredentials, String> {
    Ok(if parse_yes(text)? {
        EarlyCredentials::Allowed
    } else {
        EarlyCredentials::Withheld
    })
}

fn parse_patience(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => {
            Err("0 would believe in no push at all: use `push.enabled = false` for that".to_owned())
        }
        Ok(patience) => Ok(patience),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_fallback(text: &str) -> Result<Fallback, String> {
    if text == "never" {
        return Ok(Fallback::Never);
    }
    match parse_duration(text) {
        Ok(Duration::ZERO) => {
            Err("0 would always go around the gateway: say at least 1s, or \"never\"".to_owned())
        }
        Ok(after) => Ok(Fallback::After(after)),
        Err(error) => Err(format!("{error}; or say \"never\"")),
    }
}
