//! `longhaul enroll`: stores the operator's invite where the agent finds it.
use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use longhaul_types::Invite;

/// Name of the file in the state directory, as the agent expects it.
const FILE: &str = "invite";

/// Permission to replace an enrolment with another gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Keep the existing enrolment.
    Refuse,
    /// Replace the existing enrolment.
    Allow,
}

/// Errors of storing an invite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrollError {
    /// The device is enrolled with another gateway.
    #[error(
        "this device is enrolled with {address} already ({}); to give that enrolment up, run `longhaul enroll --replace \
         LINE`", path.display()
    )]
    Enrolled {
        /// Address of the other gateway.
        address: String,
        /// Path of the existing invite.
        path: PathBuf,
    },
    /// The file exists but is not an invite.
    #[error("{} exists but is damaged; to overwrite it, run `longhaul enroll --replace LINE`", .0.display())]
    Damaged(PathBuf),
    /// The file cannot be read or written.
    #[error("{} cannot be {done}: {source}; check its owner, or choose another place with --state-dir", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// `read` or `written`.
        done: &'static str,
        /// Cause reported by the system.
        source: io::Error,
    },
}

/// Writes the invite to the state directory, which is created if necessary, and returns the file's path.
///
/// A new invite of the same gateway replaces the old one.
///
/// # Errors
/// Another gateway's invite exists and may not be replaced, or a file cannot be read or written.
pub fn enroll(invite: &Invite, state_dir: &Path, replace: Replace) -> Result<PathBuf, EnrollError> {
    let path = state_dir.join(FILE);
    if replace == Replace::Refuse {
        check_present(invite, &path)?;
    }
    let fail = |source| EnrollError::File {
        path: path.clone(),
        done: "written",
        source,
    };
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(state_dir).map_err(fail)?;
    // Temporary files have mode 0600, and renaming is atomic.
    let mut file = tempfile::NamedTempFile::new_in(state_dir).map_err(fail)?;
    let line = invite.to_line();
    let written = writeln!(file, "{line}").and_then(|()| file.as_file().sync_all());
    written.map_err(fail)?;
    file.persist(&path).map_err(|error| fail(error.error))?;
    Ok(path)
}

/// Checks that the invite could be stored without giving up another enrolment.
///
/// # Errors
/// Another gateway's invite exists, or a file cannot be read.
pub fn check(invite: &Invite, state_dir: &Path) -> Result<(), EnrollError> {
    check_present(invite, &state_dir.join(FILE))
}

fn check_present(invite: &Invite, path: &Path) -> Result<(), EnrollError> {
    match fs::read_to_string(path) {
        Ok(line) => match line.parse::<Invite>() {
            Ok(present) if present.gateway() == invite.gateway() => Ok(()),
            Ok(present) => Err(EnrollError::Enrolled {
                address: present.address().to_owned(),
                path: path.to_owned(),
            }),
            Err(_) => Err(EnrollError::Damaged(path.to_owned())),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(EnrollError::File {
            path: path.to_owned(),
            done: "read",
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    fn invite(gateway: u8, device: u8) -> Invite {
        let gateway = SecretKey::from_bytes([gateway; 32]).public();
        Invite::new(
            "gw.test:4433".to_owned(),
            gateway,
            SecretKey::from_bytes([device; 32]),
            [3; 32],
        )
        .unwrap()
    }

    #[test]
    fn another_gateway_is_replaced_only_on_demand() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("deep/state");
        let path = enroll(&invite(1, 1), &state, Replace::Refuse).unwrap();
        enroll(&invite(1, 2), &state, Replace::Refuse).unwrap();
        let kept: Invite = fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!(kept.to_line(), invite(1, 2).to_line());
        assert!(matches!(
            enroll(&invite(9, 2), &state, Replace::Refuse),
            Err(EnrollError::Enrolled { .. })
        ));
        enroll(&invite(9, 2), &state, Replace::Allow).unwrap();
        fs::write(&path, "longhaul1:xx").unwrap();
        assert!(matches!(
            enroll(&invite(9, 2), &state, Replace::Refuse),
            Err(EnrollError::Damaged(_))
        ));
        assert_eq!(
            fs::read_dir(&state).unwrap().count(),
            1,
            "no temporary file stays"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            enroll(&invite(9, 2), &state, Replace::Allow).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&state)), (0o600, 0o700));
        }
    }
}
