//! Access to the agent and destinations of direct fetches: `listen.users`, `listen.allow`,
//! `listen.password-file` and `direct.allow`.
use std::{fs, io, net::SocketAddr, path::Path};

use longhaul_origin::Cidr;
use toml::Value;

use super::{
    ConfigFile, ConfigFlags,
    resolve::{Layers, Problem, joined},
};
use crate::listener::{Access, Passwords, UserId};

/// Maximum size of a password file, which has only a few lines.
const MAX_PASSWORD_FILE: u64 = 64 * 1024;

/// Reads these settings; returns `None` if there is a problem with them, or if `listen` requires a setting
/// that is absent.
pub(super) fn resolve(
    layers: &mut Layers<'_>,
    flags: &ConfigFlags,
    file: &ConfigFile,
    listen: Option<(SocketAddr, String)>,
) -> Option<(Access, Vec<Cidr>)> {
    let lists = [&file.listen.users, &file.listen.allow, &file.direct.allow];
    let [users, allow, direct] = lists.map(|value| value.as_ref().map(joined));
    let users = layers.pick("listen.users", flags.listen_users.as_deref(), users.as_ref());
    let allow = layers.pick("listen.allow", flags.listen_allow.as_deref(), allow.as_ref());
    let direct = layers.pick("direct.allow", flags.direct_allow.as_deref(), direct.as_ref());
    let path_flag = flags
        .listen_password_file
        .as_ref()
        .map(|path| path.display().to_string());
    let passwords = layers.pick(
        "listen.password-file",
        path_flag.as_deref(),
        file.listen.password_file.as_ref(),
    );
    let has_passwords = passwords.0.is_some();

    let users = users
        .0
        .map_or(Some(Vec::new()), |given| layers.parse(given, parse_users));
    let allow = allow
        .0
        .map_or(Some(Vec::new()), |given| layers.parse(given, parse_ranges));
    let direct = direct
        .0
        .map_or(Some(Vec::new()), |given| layers.parse(given, parse_ranges));
    let passwords = passwords.0.map_or_else(
        || Some(Passwords::default()),
        |given| layers.parse(given, |path| read_passwords(Path::new(path))),
    );
    let has_ranges = allow.as_ref().is_none_or(|ranges| !ranges.is_empty());
    if let Some((address, place)) = listen
        && !address.ip().to_canonical().is_loopback()
        && !(has_ranges && has_passwords)
    {
        let what = format!(
            "`{address}` can be reached from other machines, which could then use the gateway as you: set `listen.allow` \
             (the ranges of those that may, such as 192.168.1.0/24) and `listen.password-file` (lines of \
             `name:password`), or listen on 127.0.0.1"
        );
        layers.problems.push(Problem { place, what });
        return None;
    }
    Some((Access::new(users?, allow?, passwords?), direct?))
}

/// Returns the address of `listen`, which is either a plain value or a key of the table.
pub(super) fn listen_address(file: &ConfigFile) -> Option<&Value> {
    file.listen.address.as_ref()
}

fn parse_users(text: &str) -> Result<Vec<UserId>, String> {
    names(text)
        .map(|name| {
            if let Ok(number) = name.parse() {
                return Ok(UserId::new(number));
            }
            match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => Ok(UserId::new(user.uid.as_raw())),
                Ok(None) => Err(format!("there is no user `{name}` on this machine")),
                Err(error) => Err(format!("the user `{name}` cannot be looked up: {error}")),
            }
        })
        .collect()
}

fn parse_ranges(text: &str) -> Result<Vec<Cidr>, String> {
    names(text)
        .map(|range| {
            range
                .parse()
                .map_err(|error: longhaul_origin::CidrError| error.to_string())
        })
        .collect()
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn read_passwords(path: &Path) -> Result<Passwords, String> {
    let unreadable = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let about = fs::metadata(path).map_err(unreadable)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::mode(&about) & 0o077 != 0 {
        return Err(format!(
            "{} can be read by other users: `chmod 600` it, and choose new passwords",
            path.display()
        ));
    }
    if about.len() > MAX_PASSWORD_FILE {
        return Err(format!("{} is too large for a file of passwords", path.display()));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    Passwords::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn users_are_names_or_numbers() {
        let own = nix::unistd::User::from_uid(nix::unistd::geteuid());
        let own = own.unwrap().expect("whoever runs tests has a name");
        assert_eq!(
            parse_users(&format!(" {}, 4000001", own.name)),
            Ok(vec![UserId::own(), UserId::new(4_000_001)])
        );
        let error = parse_users("no-such-user-anywhere").unwrap_err();
        assert!(error.contains("no user `no-such-user-anywhere`"), "{error}");
        assert!(parse_users("-1").is_err());
    }

    #[test]
    fn passwords_are_for_their_owner_to_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwords");
        fs::write(&path, "me:a long password\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(read_passwords(&path).unwrap_err().contains("chmod 600"));
        mode(0o600);
        assert!(read_passwords(&path).is_ok());
        fs::write(&path, "me:short\n").unwrap();
        assert!(read_passwords(&path).unwrap_err().contains("line 1"));
        assert!(read_passwords(&folder.path().join("none")).is_err());
    }
}
