//! The check that nobody else can replace a program's keys, as OpenSSH makes it for its own files (`StrictModes`).
use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use rustix::process::{getegid, geteuid};

use crate::NotPrivate;

/// Checks that only this user and root can replace files of a directory. Root also works in the directory of a service's user.
///
/// A group may write if this process is in it, as in the volumes of containers, and in the directories above, such as Debian's
/// `/var/local`.
///
/// # Errors
/// Others could replace its files.
pub fn check_private_directory(path: &Path) -> Result<(), NotPrivate> {
    const ROOT: u32 = 0;
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let unreadable = |source| NotPrivate::Unreadable {
        path: path.to_owned(),
        source,
    };
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let real = fs::canonicalize(path).map_err(unreadable)?;
    let own = fs::metadata(&real).map_err(unreadable)?;
    for directory in real.ancestors() {
        let found = fs::metadata(directory).map_err(unreadable)?;
        let (path, owner, mode) = (directory.to_owned(), found.uid(), found.mode() & 0o7777);
        let is_leaf = directory == real;
        let is_trusted = [ROOT, user].contains(&owner) || user == ROOT && owner == own.uid();
        if !is_trusted {
            return Err(NotPrivate::Owner { path, owner });
        }
        let by_group = is_leaf && mode & GROUP_WRITES != 0 && found.gid() != group;
        // Where the sticky bit is set, only its owner replaces a file.
        let by_others = mode & OTHERS_WRITE != 0 && (is_leaf || mode & STICKY == 0);
        if by_group || by_others {
            return Err(NotPrivate::Writable { path, mode });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn directories_in_which_others_may_write_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let (above, state) = (home.path().join("above"), home.path().join("above/state"));
        fs::create_dir_all(&state).unwrap();
        let check = |mode_above, mode| {
            fs::set_permissions(&above, fs::Permissions::from_mode(mode_above)).unwrap();
            fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
            check_private_directory(&state)
        };
        for (mode_above, mode) in [(0o755, 0o700), (0o755, 0o750), (0o1777, 0o700), (0o775, 0o755)] {
            check(mode_above, mode).unwrap();
        }
        for (mode_above, mode, wrong) in [
            (0o755, 0o777, &state),
            (0o755, 0o1777, &state),
            (0o777, 0o700, &above),
        ] {
            match check(mode_above, mode) {
                Err(NotPrivate::Writable { path, .. }) => assert_eq!(path, fs::canonicalize(wrong).unwrap()),
                other => panic!("{mode_above:o} {mode:o}: {other:?}"),
            }
        }
        assert!(matches!(
            check_private_directory(&home.path().join("missing")),
            Err(NotPrivate::Unreadable { .. })
        ));
    }

    #[test]
    fn directories_of_other_users_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        fs::create_dir(&state).unwrap();
        // Only root may give files away, and root may use those of a service's user.
        if std::os::unix::fs::chown(&state, Some(12_345), None).is_err() {
            return;
        }
        check_private_directory(&state).unwrap();
        std::os::unix::fs::chown(home.path(), Some(54_321), None).unwrap();
        let refused = check_private_directory(&state);
        assert!(
            matches!(refused, Err(NotPrivate::Owner { owner: 54_321, .. })),
            "{refused:?}"
        );
        std::os::unix::fs::chown(home.path(), Some(0), None).unwrap();
    }
}
