//! Debian's Squid as the HTTP proxy of a network.
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{interval, timeout},
};

use crate::pair::{LIMIT, folder, free_tcp_port};

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Name and password that [`Login::Basic`] accepts: the password is `a secret@word`.
const PASSWORDS: &str = "anna:$apr1$abcdefgh$m/VKQ66Xyp7TTY.pIub201\n";

/// What Squid asks of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// Nothing.
    None,
    /// Name and password.
    Basic,
}

/// A running Squid; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Squid {
    address: SocketAddr,
    folder: TempDir,
    _process: Child,
}

impl Squid {
    /// Starts Squid at a free port. It knows these names besides those of DNS; `rules` come first in its configuration.
    pub(super) async fn start(login: Login, names: &[&str], rules: &str) -> Result<Self> {
        Self::start_at(free_tcp_port().await?, login, names, rules).await
    }

    /// [`Self::start`] with its address.
    pub(crate) async fn start_at(
        address: SocketAddr,
        login: Login,
        names: &[&str],
        rules: &str,
    ) -> Result<Self> {
        let folder = folder()?;
        // Started by root, Squid continues as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
        let file = |name: &str| folder.path().join(name).display().to_string();
        let hosts: String = names.iter().map(|name| format!("127.0.0.1 {name}\n")).collect();
        fs::write(file("hosts"), hosts)?;
        fs::write(file("passwords"), PASSWORDS)?;
        let access = match login {
            Login::None => "http_access allow all\n".to_owned(),
            Login::Basic => format!(
                "auth_param basic program /usr/lib/squid/basic_ncsa_auth {}\n\
                 auth_param basic realm test\n\
                 acl known proxy_auth REQUIRED\n\
                 http_access allow known\n",
                file("passwords")
            ),
        };
        let text = format!(
            "http_port {address}\nhosts_file {}\n{rules}\n{access}cache deny all\npid_filename none\n\
             logformat short %rm %ru %>Hs\naccess_log stdio:{} logformat=short\ncache_log {}\ncache_store_log none\n\
             netdb_filename none\npinger_enable off\nshutdown_lifetime 0 seconds\nvisible_hostname squid.test\n\
             coredump_dir {}\nmax_filedescriptors 4096\n",
            file("hosts"),
            file("access.log"),
            file("cache.log"),
            folder.path().display(),
        );
        fs::write(file("squid.conf"), text)?;
        let process = Command::new("/usr/sbin/squid")
            .args(["-N", "-f", &file("squid.conf")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("squid: run scripts/install-tools.sh test")?;
        let squid = Self {
            address,
            folder,
            _process: process,
        };
        squid
            .until("Squid listens", || TcpStream::connect(address), |_| true)
            .await?;
        Ok(squid)
    }

    /// Its address as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("access.log")
    }

    /// Waits until a finished request is in the log, as `METHOD TARGET STATUS`.
    pub(super) async fn has_served(&self, request: &str) -> Result<()> {
        self.has_served_times(1, request).await
    }

    /// Waits until so many of these finished requests are in the log.
    pub(crate) async fn has_served_times(&self, times: usize, request: &str) -> Result<()> {
        let read = || async { fs::read_to_string(self.log()) };
        self.until(request, read, |text| text.matches(request).count() >= times)
            .await
    }

    async fn until<T, F: Future<Output = std::io::Result<T>>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
        is_enough: impl Fn(&T) -> bool,
    ) -> Result<()> {
        let mut looks = interval(POLL_INTERVAL);
        let wait = async {
            loop {
                looks.tick().await;
                if look().await.as_ref().is_ok_and(&is_enough) {
                    return;
                }
            }
        };
        timeout(LIMIT, wait).await.with_context(|| {
            let logs =
                ["access.log", "cache.log"].map(|name| fs::read_to_string(self.folder.path().join(name)));
            format!("not seen: {what}; {logs:?}")
        })
    }
}
