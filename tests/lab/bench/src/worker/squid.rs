//! Squid instead of the gateway.
use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use super::{
    programs::{self, ProgramError},
    service::{Service, ServiceError},
};

/// Use of Squid's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    /// No cache.
    Off,
    /// Cache in memory.
    Memory,
}

/// Errors of starting Squid.
#[derive(Debug, thiserror::Error)]
pub(super) enum SquidError {
    /// It is not installed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its configuration cannot be written.
    #[error("cannot set up squid: {0}")]
    Set(#[from] io::Error),
    /// It does not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Starts Squid on `address`. Call it on the thread of the gateway's namespace.
///
/// # Errors
/// It is not installed, or does not start.
pub(super) async fn start(
    address: SocketAddr,
    caching: Caching,
    temporary: &Path,
) -> Result<Service, SquidError> {
    let program = programs::installed("squid")?;
    let folder = temporary.join("squid");
    fs::create_dir(&folder)?;
    // Squid drops the privileges of root and then writes its log as another user.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    let config = folder.join("squid.conf");
    fs::write(&config, configuration(address, caching, &folder))?;
    let mut command = as_no_root(&program);
    command.arg("-N").arg("-f").arg(&config);
    command.stdout(std::process::Stdio::null());
    let mut service = Service::spawn("squid", command, folder.join("stderr"))?;
    service.wait_for_port(address).await?;
    Ok(service)
}

/// Returns Debian's defaults as far as they are relevant; persistent connections in both directions are
/// Squid's own default.
fn configuration(address: SocketAddr, caching: Caching, folder: &Path) -> String {
    let cache = match caching {
        Caching::Off => "cache deny all",
        Caching::Memory => "cache_mem 256 MB\nmaximum_object_size_in_memory 16 MB",
    };
    let log: PathBuf = folder.join("cache.log");
    format!(
        "http_port {address}\n\
         {cache}\n\
         acl SSL_ports port 1-65535\n\
         http_access allow all\n\
         pid_filename none\n\
         access_log none\n\
         cache_log {}\n\
         cache_store_log none\n\
         netdb_filename none\n\
         pinger_enable off\n\
         shutdown_lifetime 0 seconds\n\
         visible_hostname squid.test\n\
         coredump_dir {}\n\
         # The tables that hold connections are sized by this; the default takes gigabytes where the limit is high.\n\
         max_filedescriptors 4096\n",
        log.display(),
        folder.display(),
    )
}

/// Returns a command that runs Squid as a user other than root. Squid changes to another user, and does not
/// run if it cannot. A user namespace that maps only root has no other user: there it runs in a nested one,
/// in which it is `nobody` from the beginning.
fn as_no_root(program: &Path) -> Command {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let length = map.split_whitespace().nth(2);
    if length != Some("1") {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-user=65534", "--map-group=65534"])
        .arg(program);
    command
}
