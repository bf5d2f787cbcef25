//! `carrier.proxy` and `carrier.proxy-password-file`.
use std::path::{Path, PathBuf};

use longhaul_proxy::{Credentials, Exceptions, HttpProxy, ProxyUrl, of_environment};
use longhaul_settings::{Form, Layers, Value, Wrong};

use super::{access::read_private, settings};

/// The HTTP proxy of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxySetting {
    /// The one of the environment.
    #[default]
    System,
    /// None.
    Off,
    /// This one.
    Url(ProxyUrl),
}

impl ProxySetting {
    /// The value as in the configuration, without the credentials.
    pub(super) fn text(&self) -> String {
        match self {
            Self::System => "system".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Url(url) => url.to_string(),
        }
    }
}

/// A file with credentials that was read.
#[derive(Clone, Debug)]
pub struct CredentialsFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Name and password.
    pub credentials: Credentials,
}

pub(super) fn proxy(value: &Value, _: &Form) -> Result<ProxySetting, Wrong> {
    match value.text()? {
        "system" => Ok(ProxySetting::System),
        "off" => Ok(ProxySetting::Off),
        // The text may contain a password, which no message repeats.
        text => text
            .parse()
            .map(ProxySetting::Url)
            .map_err(|error| Wrong::new(format!("it is no address of an HTTP proxy: {error}"))),
    }
}

pub(super) fn read_credentials(path: &Path) -> Result<CredentialsFile, Wrong> {
    let text = read_private(path)?;
    let mut lines = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let (Some(line), None) = (lines.next(), lines.next()) else {
        let problem = format!(
            "{} does not have exactly one line `name:password`",
            path.display()
        );
        return Err(Wrong::new(problem));
    };
    let credentials =
        Credentials::parse(line).map_err(|error| Wrong::explained(format!("{}: {error}", path.display())))?;
    let path = path.to_owned();
    Ok(CredentialsFile { path, credentials })
}

/// Resolves these settings for an agent whose proxy port is `own_port`.
pub(super) fn resolve(layers: &mut Layers<'_>, own_port: u16) -> Option<HttpProxy> {
    let setting = layers.get(&settings::CARRIER_PROXY);
    let file = layers.get(&settings::CARRIER_PROXY_PASSWORD_FILE);
    let found = match setting {
        ProxySetting::Off => None,
        ProxySetting::Url(url) => {
            let proxy = HttpProxy::new(url, Exceptions::default());
            if proxy.is_at(&[own_port]) {
                let wrong = Wrong::new(format!("{} is the agent itself", proxy.url()));
                layers.reject(
                    &settings::CARRIER_PROXY,
                    &wrong.instead("name the proxy of the network, or `off`"),
                );
            }
            Some(proxy)
        }
        ProxySetting::System => {
            let environment = layers.environment();
            // Programs of this computer may be told to use the agent: that is no proxy for the agent itself.
            of_environment(|name| environment.get(name)).filter(|proxy| !proxy.is_at(&[own_port]))
        }
    };
    Some(match file {
        Some(file) => found?.with_credentials(file.credentials),
        None => found?,
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn a_file_has_one_line_with_name_and_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            read_credentials(&path).map(|file| file.credentials)
        };
        assert_eq!(
            read("# proxy\n\nanna:a:b\n"),
            Ok(Credentials::parse("anna:a:b").unwrap())
        );
        for text in ["", "anna", ":x", "a:b\nc:d\n"] {
            assert!(read(text).is_err(), "{text}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(
            read_credentials(&path)
                .unwrap_err()
                .problem()
                .contains("chmod 600")
        );
    }
}
