//! Owner and mode of a new file in a directory of another user: root changes the files of a gateway that runs
//! as a service's user, which must be able to read them afterwards.
use std::{fs::File, io, path::Path};

/// Gives a new file, which still has a temporary name, the owner and mode of the file that it will replace.
/// If there is no such file, the owner is that of the directory.
///
/// A file of root in another user's directory was left there by mistake: the owner of the directory gets it.
///
/// # Errors
/// The file cannot be given to its owner.
#[cfg(unix)]
pub(super) fn adopt(file: &File, replaced: &Path, directory: &Path) -> io::Result<()> {
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown},
    };

    const ROOT: u32 = 0;
    let own = file.metadata()?;
    let directory = fs::metadata(directory)?;
    // A symbolic link is replaced, not followed: its target may be a file of any user.
    let replaced = fs::symlink_metadata(replaced)
        .ok()
        .filter(|found| found.is_file());
    let owner = match &replaced {
        Some(found) if found.uid() != ROOT => found,
        Some(_) | None => &directory,
    };
    if own.uid() != owner.uid() {
        fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    } else if own.gid() != owner.gid() {
        // The group gives no access that the owner needs: a user who is not in the group keeps their own.
        let _own_group = fchown(file, None, Some(owner.gid()));
    }
    if let Some(found) = replaced {
        file.set_permissions(fs::Permissions::from_mode(found.mode() & 0o777))?;
    }
    Ok(())
}

/// Other systems have no owners that this program could set.
#[cfg(not(unix))]
pub(super) fn adopt(_file: &File, _replaced: &Path, _directory: &Path) -> io::Result<()> {
    Ok(())
}
