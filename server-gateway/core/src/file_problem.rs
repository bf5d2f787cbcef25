//! Why a file that a setting names cannot be read, in words for the operator.
use std::io;

/// What is wrong with the file, as the end of a sentence that begins with its path.
pub fn file_problem(error: &io::Error) -> String {
    let kind = error.kind();
    if kind == io::ErrorKind::NotFound {
        "does not exist".to_owned()
    } else if kind == io::ErrorKind::PermissionDenied {
        let user = own_user();
        format!(
            "cannot be read by {user}, who runs the gateway: permit it for the file and for the folders above it"
        )
    } else if kind == io::ErrorKind::IsADirectory {
        "is a folder, not a file".to_owned()
    } else {
        format!("cannot be read: {error}")
    }
}

/// The user of this process, as the system names it.
fn own_user() -> String {
    #[cfg(target_os = "linux")]
    if let Ok(Some(user)) = nix::unistd::User::from_uid(nix::unistd::geteuid()) {
        return format!("user `{}`", user.name);
    }
    "the user".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_apart() {
        let problem = |kind: io::ErrorKind| file_problem(&kind.into());
        assert_eq!(problem(io::ErrorKind::NotFound), "does not exist");
        let denied = problem(io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("cannot be read by "), "{denied}");
        assert_eq!(problem(io::ErrorKind::IsADirectory), "is a folder, not a file");
        assert!(problem(io::ErrorKind::TimedOut).starts_with("cannot be read: "));
    }
}
