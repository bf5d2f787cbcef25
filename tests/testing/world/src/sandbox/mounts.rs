//! Mounts that replace parts of the file system for the worker.
use std::{
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    mount::{MsFlags, mount},
};

use crate::DNS_SERVER;

/// Maximum size of the temporary files. A browser's profile and a corpus' objects are much smaller, and the
/// bound protects the machine's memory from a faulty program.
const SCRATCH_OPTIONS: &str = "size=4g,mode=0755";

/// Folders that the file system hierarchy standard requires on every system and that programs do not need.
const CANDIDATES: &[&str] = &["/mnt", "/media", "/srv"];

/// Errors of the mounts.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel rejected a mount.
    #[error("cannot mount over {}: {source}", path.display())]
    Refused {
        /// Path of the mount.
        path: PathBuf,
        /// Error of the kernel.
        source: Errno,
    },
    /// There is no folder for the temporary files.
    #[error(
        "none of {} is a folder that the sandbox may cover with its temporary files: make an empty folder `/mnt`",
        CANDIDATES.join(", ")
    )]
    NoPlace,
    /// A file that must be covered does not exist.
    #[error("{} does not exist or is a broken link; create an empty file there", path.display())]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file of the sandbox could not be written.
    #[error("cannot write {} in the sandbox: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Private folders of the worker, in memory.
pub(super) struct Scratch {
    pub(super) root: PathBuf,
    pub(super) temporary: PathBuf,
    pub(super) home: PathBuf,
}

/// Makes the mounts. `unshare` has already made the mount namespace private.
pub(super) fn set_up(keep: &[PathBuf]) -> Result<Scratch, MountError> {
    let root = place(keep).ok_or(MountError::NoPlace)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), &root, Some("tmpfs"), flags, Some(SCRATCH_OPTIONS)).map_err(|source| {
        MountError::Refused {
            path: root.clone(),
            source,
        }
    })?;
    let scratch = Scratch {
        temporary: root.join("tmp"),
        home: root.join("home"),
        root,
    };
    let settings = scratch.root.join("etc");
    for folder in [&scratch.temporary, &scratch.home, &settings] {
        fs::create_dir(folder).map_err(|source| MountError::Write {
            path: folder.clone(),
            source,
        })?;
    }
    name_service(&settings)?;
    shared_memory(&scratch.root)?;
    Ok(scratch)
}

/// Mounts a private folder of named shared memory: names in it are the same for all instances of a program
/// (Squid's are), and a killed program leaves its segments behind.
fn shared_memory(root: &Path) -> Result<(), MountError> {
    let path = Path::new("/dev/shm");
    if !path.is_dir() {
        return Ok(());
    }
    let ours = root.join("shm");
    let created = fs::create_dir(&ours).and_then(|()| {
        // Writable for all users, as in the system's own folder.
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o1777))
    });
    created.map_err(|source| MountError::Write {
        path: ours.clone(),
        source,
    })?;
    bind(&ours, path)
}

/// Directs name resolution to the world's DNS server only.
fn name_service(settings: &Path) -> Result<(), MountError> {
    // `search .` prevents glibc from deriving a search domain from the host's name.
    let resolver = format!("nameserver {DNS_SERVER}\nsearch .\n");
    if !Path::new("/etc/resolv.conf").exists() {
        return Err(MountError::Missing {
            path: "/etc/resolv.conf".into(),
        });
    }
    cover("/etc/resolv.conf", settings, &resolver)?;
    // The host's own name must not become a query, and names that its file of hosts contains must not be
    // answered from it.
    let own_name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hosts = format!("127.0.0.1 localhost {}\n", own_name.trim());
    cover("/etc/hosts", settings, &hosts)?;
    // Modules such as `resolve` and `mdns` query daemons outside of the world.
    if let Ok(switch) = fs::read_to_string("/etc/nsswitch.conf") {
        cover("/etc/nsswitch.conf", settings, &with_plain_hosts(&switch))?;
    }
    // The C library does the same if a name service cache daemon has its socket here.
    let cache_daemon = Path::new("/run/nscd");
    if cache_daemon.is_dir() {
        bind(settings, cache_daemon)?;
    }
    Ok(())
}

fn with_plain_hosts(switch: &str) -> String {
    let others = switch
        .lines()
        .filter(|line| !line.trim_start().starts_with("hosts:"));
    others
        .chain(["hosts: files dns", ""])
        .collect::<Vec<_>>()
        .join("\n")
}

/// Mounts a file with this text over `path`, if that file exists.
fn cover(path: &str, settings: &Path, text: &str) -> Result<(), MountError> {
    let path = Path::new(path);
    let (true, Some(name)) = (path.exists(), path.file_name()) else {
        return Ok(());
    };
    let ours = settings.join(name);
    fs::write(&ours, text).map_err(|source| MountError::Write {
        path: ours.clone(),
        source,
    })?;
    bind(&ours, path)
}

fn bind(ours: &Path, path: &Path) -> Result<(), MountError> {
    let nothing = None::<&str>;
    mount(Some(ours), path, nothing, MsFlags::MS_BIND, nothing).map_err(|source| MountError::Refused {
        path: path.to_owned(),
        source,
    })
}

/// Selects the folder to cover: an empty one, or else one that contains nothing that the worker needs.
fn place(keep: &[PathBuf]) -> Option<PathBuf> {
    let search_path = env::var_os("PATH").unwrap_or_default();
    let needed: Vec<PathBuf> = keep
        .iter()
        .cloned()
        .chain(env::current_exe())
        .chain(env::current_dir())
        .chain(env::split_paths(&search_path))
        // A path with a symbolic link needs the link's target; relative paths start at the working folder.
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    let free = |folder: &&PathBuf| needed.iter().all(|path| !path.starts_with(folder));
    let folders: Vec<PathBuf> = CANDIDATES
        .iter()
        .map(PathBuf::from)
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()))
        .collect();
    let is_empty = |folder: &&PathBuf| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    let empty = folders.iter().filter(free).find(is_empty);
    empty.or_else(|| folders.iter().find(free)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hosts_line_of_nsswitch_is_replaced() {
        let switch = "passwd: files\nhosts: files mdns4_minimal [NOTFOUND=return] dns\nshadow: files\n";
        assert_eq!(
            with_plain_hosts(switch),
            "passwd: files\nshadow: files\nhosts: files dns\n"
        );
    }
}
