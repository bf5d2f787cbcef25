//! Access to the agent: `listen.users`, `listen.allow` and `listen.password-file`.
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use longhaul_settings::{Form, Layers, Value, Wrong};

use super::settings;
use crate::listener::{Access, Passwords, UserId};

/// Maximum size of a password file, which has only a few lines.
const MAX_PASSWORD_FILE: u64 = 64 * 1024;

/// A password file that was read.
#[derive(Clone, Debug)]
pub struct PasswordFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The names and passwords.
    pub passwords: Passwords,
}

/// Resolves these settings, and checks that they suffice for the address of `listen`.
pub(super) fn resolve(layers: &mut Layers<'_>, listen: SocketAddr) -> Access {
    let users = layers.get(&settings::LISTEN_USERS);
    let allow = layers.get(&settings::LISTEN_ALLOW);
    let file = layers.get(&settings::LISTEN_PASSWORD_FILE);
    // Ranges with a mistake are reported once, by their own setting.
    let has_ranges = !allow.is_empty() || layers.is_wrong(&settings::LISTEN_ALLOW);
    let has_passwords = layers.is_given(&settings::LISTEN_PASSWORD_FILE);
    let is_protected = listen.ip().to_canonical().is_loopback() || (has_ranges && has_passwords);
    if !is_protected {
        let wrong = Wrong::explained(format!(
            "`{listen}` can be reached from other machines, which could then use the gateway as you: set \
             `listen.allow` (the ranges of those that may, such as 192.168.1.0/24) and `listen.password-file` \
             (lines of `name:password`), or listen on 127.0.0.1"
        ));
        layers.reject(&settings::LISTEN, &wrong);
    }
    let passwords = file.map_or_else(Passwords::default, |file| file.passwords);
    Access::new(users, allow, passwords)
}

pub(super) fn users(value: &Value, _: &Form) -> Result<Vec<UserId>, Wrong> {
    let user = |name: String| {
        if let Ok(number) = name.parse() {
            return Ok(UserId::new(number));
        }
        match nix::unistd::User::from_name(&name) {
            Ok(Some(user)) => Ok(UserId::new(user.uid.as_raw())),
            Ok(None) => Err(Wrong::new(format!("there is no user `{name}` on this machine"))),
            Err(error) => Err(Wrong::new(format!(
                "the user `{name}` cannot be looked up: {error}"
            ))),
        }
    };
    value.texts()?.into_iter().map(user).collect()
}

/// Reads a file with passwords, which only its owner may read.
pub(super) fn read_private(path: &Path) -> Result<String, Wrong> {
    let unreadable = |error: io::Error| Wrong::new(format!("{} cannot be read: {error}", path.display()));
    let about = fs::metadata(path).map_err(unreadable)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&about) & 0o077 != 0 {
        return Err(Wrong::explained(format!(
            "{} can be read by other users: `chmod 600` it, and choose new passwords",
            path.display()
        )));
    }
    if about.len() > MAX_PASSWORD_FILE {
        let problem = format!("{} is too large for a file of passwords", path.display());
        return Err(Wrong::new(problem));
    }
    fs::read_to_string(path).map_err(unreadable)
}

pub(super) fn read_passwords(path: &Path) -> Result<PasswordFile, Wrong> {
    let text = read_private(path)?;
    let passwords =
        Passwords::parse(&text).map_err(|error| Wrong::explained(format!("{}: {error}", path.display())))?;
    let path = path.to_owned();
    Ok(PasswordFile { path, passwords })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn parse_users(text: &str) -> Result<Vec<UserId>, Wrong> {
        users(&Value::Text(text.to_owned()), &settings::RANGES)
    }

    #[test]
    fn users_are_names_or_numbers() {
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid());
        let own = own.unwrap().expect("whoever runs tests has a name");
        assert_eq!(
            parse_users(&format!(" {}, 4000001", own.name)),
            Ok(vec![UserId::own(), UserId::new(4_000_001)])
        );
        let error = parse_users("no-such-user-anywhere").unwrap_err();
        assert_eq!(
            error.problem(),
            "there is no user `no-such-user-anywhere` on this machine"
        );
        assert!(parse_users("-1").is_err());
    }

    #[test]
    fn a_password_file_that_others_can_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        fs::write(&path, "me:a long password\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(read_passwords(&path).unwrap_err().problem().contains("chmod 600"));
        mode(0o600);
        assert!(read_passwords(&path).is_ok());
        fs::write(&path, "me:short\n").unwrap();
        assert!(read_passwords(&path).unwrap_err().problem().contains("line 1"));
        assert!(read_passwords(&folder.path().join("none")).is_err());
    }
}
