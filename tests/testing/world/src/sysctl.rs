//! Kernel settings of the calling thread's network namespace.
//!
//! The kernel resolves `/proc/sys/net` by the namespace of the thread that opens the file, not by that of the
//! process.
use std::{fs, io, path::PathBuf};

/// A setting that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {name} to `{value}`: {source}; in a container, /proc/sys must be writable")]
pub struct SysctlError {
    /// Its name below `/proc/sys`.
    name: String,
    value: String,
    source: io::Error,
}

/// Requirement for a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// The setting belongs to an optional part of the kernel; without that part it is not set.
    Optional,
}

/// Sets `name` (a path below `/proc/sys/net`, such as `ipv4/ip_forward`) to `value`.
pub(crate) fn set(name: &str, value: &str, presence: Presence) -> Result<(), SysctlError> {
    match fs::write(path(name), value) {
        Err(error) if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|source| SysctlError {
            name: format!("net/{name}"),
            value: value.to_owned(),
            source,
        }),
    }
}

/// Returns the value of `name` without its line end.
pub(crate) fn get(name: &str) -> io::Result<String> {
    fs::read_to_string(path(name)).map(|text| text.trim().to_owned())
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}
