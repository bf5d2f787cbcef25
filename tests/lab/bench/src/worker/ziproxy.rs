//! Ziproxy instead of the gateway.
use std::{fs, io, net::SocketAddr, path::Path, process::Stdio};

use tokio::process::Command;

use super::{
    programs::{self, ProgramError},
    service::{Service, ServiceError},
};

/// Errors of starting Ziproxy.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZiproxyError {
    /// It is not installed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Its configuration cannot be written.
    #[error("cannot set up ziproxy: {0}")]
    Set(#[from] io::Error),
    /// It does not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Starts Ziproxy on `address`. Call it on the thread of the gateway's namespace.
///
/// # Errors
/// It is not installed, or does not start.
pub(super) async fn start(address: SocketAddr, temporary: &Path) -> Result<Service, ZiproxyError> {
    let program = programs::installed("ziproxy")?;
    let folder = temporary.join("ziproxy");
    fs::create_dir(&folder)?;
    let config = folder.join("ziproxy.conf");
    fs::write(&config, configuration(address, &folder))?;
    // It detaches itself and has a process for each connection. In a process namespace of their own, all end with the
    // first process.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--", "sh", "-c"]);
    command.arg("\"$0\" -d -c \"$1\" && exec sleep infinity");
    command.arg(&program).arg(&config).stdout(Stdio::null());
    let mut service = Service::spawn("ziproxy", command, folder.join("stderr"))?;
    service.wait_for_port(address).await?;
    Ok(service)
}

/// Returns Debian's defaults, with the options for smaller text, except `ProcessHTML`: together with `Gzip` it makes empty
/// bodies of some pages (3.3.2). The image quality is Debian's, too.
fn configuration(address: SocketAddr, folder: &Path) -> String {
    format!(
        "Port = {}\n\
         Address = \"{}\"\n\
         PIDFile = \"{}\"\n\
         UseContentLength = false\n\
         Gzip = true\n\
         ProcessHTML = false\n\
         ProcessCSS = true\n\
         ProcessJS = true\n\
         ImageQuality = {{30,25,25,20}}\n",
        address.port(),
        address.ip(),
        folder.join("pid").display(),
    )
}
