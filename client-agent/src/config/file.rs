//! The configuration file.
use serde::{Deserialize, Deserializer, de::Error as _};
use toml::Value;

/// The configuration file as parsed. Values are validated later, so that all problems are reported together;
/// unknown keys are rejected.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ConfigFile {
    /// Address for browsers, and who is served: the address alone, or a table.
    pub listen: ListenSection,
    /// Address and port of the status page, loopback only. Default `"127.0.0.1:3129"`.
    pub control: Option<Value>,
    /// A directory. Default `~/.local/state/longhaul-agent` (XDG state directory).
    pub state_dir: Option<Value>,
    /// The invite line. Default: the file `invite` in the state directory, which other users cannot read.
    pub invite: Option<Value>,
    /// The name of a link profile. Default: unknown, measured.
    pub link: Option<Value>,
    /// Fidelity of images. Default `"medium"`.
    pub image_level: Option<Value>,
    /// Conditions of the direct fallback.
    pub fallback: FallbackSection,
    /// Destinations of direct fetches.
    pub direct: DirectSection,
    /// The agent's cache.
    pub cache: CacheSection,
    /// Page bundles.
    pub push: PushSection,
    /// Acceleration of HTTPS.
    pub https: HttpsSection,
    /// The session with the gateway.
    pub session: SessionSection,
}

/// `listen`, or `[listen]`
#[derive(Clone, Debug, Default)]
pub struct ListenSection {
    /// Address and port for browsers. Default `"127.0.0.1:3128"`: this machine only.
    pub address: Option<Value>,
    /// Users of this machine, by name or number. Default: none besides the agent's own user.
    pub users: Option<Value>,
    /// Address ranges of other machines. Default none.
    pub allow: Option<Value>,
    /// Path of a file. Default none: no password.
    pub password_file: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct ListenTable {
    address: Option<Value>,
    users: Option<Value>,
    allow: Option<Value>,
    password_file: Option<Value>,
}

impl<'de> Deserialize<'de> for ListenSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if !value.is_table() {
            return Ok(Self {
                address: Some(value),
                ..Self::default()
            });
        }
        let ListenTable {
            address,
            users,
            allow,
            password_file,
        } = value.try_into().map_err(D::Error::custom)?;
        Ok(Self {
            address,
            users,
            allow,
            password_file,
        })
    }
}

/// `[direct]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct DirectSection {
    /// Address ranges. Default none.
    pub allow: Option<Value>,
}

/// `[cache]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CacheSection {
    /// A size with its unit, or `"0"` to disable the cache. Default `"256 MiB"`.
    pub size: Option<Value>,
    /// A directory. Default `cache` in the state directory.
    pub dir: Option<Value>,
}

/// `[push]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PushSection {
    /// `"yes"`, `"no"` or a boolean. Default yes.
    pub enabled: Option<Value>,
    /// A time with its unit. Default `"5s"`.
    pub patience: Option<Value>,
}

/// `[https]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HttpsSection {
    /// `"off"`, `"all"`, or host names. Default off.
    pub accelerate: Option<Value>,
    /// Host names. Default none.
    pub except: Option<Value>,
}

/// `[fallback]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct FallbackSection {
    /// A time with its unit, or `"never"`. Default `"10s"`: longer than a session takes to start on the
    /// slowest links.
    pub after: Option<Value>,
}

/// `[session]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct SessionSection {
    /// `"yes"`, `"no"` or a boolean. Default yes.
    pub early_credentials: Option<Value>,
}
