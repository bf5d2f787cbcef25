//! Servers of programs that speak SOCKS: Debian's OpenSSH and Dovecot, each on a free port of loopback with its files in
//! a folder of the test.
use std::{
    net::SocketAddr,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{interval, timeout},
};

use crate::pair::{COMMAND_LIMIT, LIMIT, folder, free_tcp_port};

const SSHD: &str = "/usr/sbin/sshd";
const DOVECOT: &str = "/usr/sbin/dovecot";
/// Interval of the attempts to connect to a server that starts.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// User of the mailbox: Dovecot serves no mail as root.
const NOBODY: u32 = 65_534;
/// Name and password of the mailbox.
pub(super) const MAIL_LOGIN: &str = "reader:a-password";

/// A running server; it is asked to end when dropped, so that it ends its other processes.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = self.child.id() {
            let _gone = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
    }
}

impl Server {
    /// Starts a server that listens at `address`, and waits until it accepts connections.
    async fn start(mut command: Command, address: SocketAddr, folder: TempDir) -> Result<Self> {
        let log = folder.path().join("log");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        let mut attempts = interval(POLL_INTERVAL);
        let accepts = async {
            while TcpStream::connect(address).await.is_err() {
                attempts.tick().await;
            }
        };
        let ended = tokio::select! {
            accepts = timeout(LIMIT, accepts) => accepts.is_err(),
            _ = child.wait() => true,
        };
        ensure!(!ended, "{command:?}: {}", std::fs::read_to_string(&log)?);
        Ok(Self {
            child,
            address,
            folder,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Returns false, with a message, if a program is missing.
pub(super) fn are_installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = |program: &str| {
        let folders = std::env::split_paths(&path);
        folders
            .map(|folder| folder.join(program))
            .any(|path| path.exists())
    };
    // An absolute path replaces the folder.
    let missing: Vec<_> = programs.iter().filter(|program| !is_found(program)).collect();
    if !missing.is_empty() {
        println!("SKIPPED: {missing:?} are not installed (scripts/install-tools.sh test)");
    }
    missing.is_empty()
}

/// Runs a command to its end.
pub(super) async fn output(command: &mut Command, limit: Duration) -> Result<Output> {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    timeout(limit, output)
        .await
        .with_context(|| format!("{command:?} takes longer than {limit:?}"))?
        .with_context(|| format!("{command:?} cannot be run"))
}

/// Runs a command that must succeed.
pub(super) async fn succeed(command: &mut Command, limit: Duration) -> Result<Vec<u8>> {
    let output = output(command, limit).await?;
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// An OpenSSH server for the user of the test.
#[derive(Debug)]
pub(super) struct SshServer {
    pub(super) server: Server,
    pub(super) user: String,
}

impl SshServer {
    /// Starts the server; `None`, with a message, if it or its client is missing.
    pub(super) async fn start() -> Result<Option<Self>> {
        if !are_installed(&[SSHD, "ssh", "ssh-keygen", "nc.openbsd"]) {
            return Ok(None);
        }
        let user = succeed(Command::new("id").arg("-un"), COMMAND_LIMIT).await?;
        let user = String::from_utf8(user)?.trim().to_owned();
        if user == "root" {
            // The empty root of the server's unprivileged processes, which the package's service makes.
            std::fs::create_dir_all("/run/sshd")?;
        }
        let folder = folder()?;
        for key in ["host", "user"] {
            let path = folder.path().join(key);
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
                .arg(path);
            succeed(&mut keygen, COMMAND_LIMIT).await?;
        }
        let address = free_tcp_port().await?;
        let at = folder.path().display();
        let config = format!(
            "ListenAddress {address}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nPidFile none\nUsePAM no\n\
             StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        );
        let file = folder.path().join("sshd.conf");
        std::fs::write(&file, config)?;
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f"]).arg(file);
        let server = Server::start(sshd, address, folder).await?;
        Ok(Some(Self { server, user }))
    }

    /// The client, which reaches the server through SOCKS: OpenSSH leaves that to another program. Words of a shell.
    pub(super) fn client(&self, proxy: SocketAddr) -> String {
        let key = self.server.folder().join("user");
        format!(
            "ssh -F none -o BatchMode=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR \
             -o IdentitiesOnly=yes -i {} -o 'ProxyCommand=nc.openbsd -X 5 -x {proxy} %h %p'",
            key.display()
        )
    }
}

/// Starts a Dovecot with one mailbox that contains `message`; `None`, with a message of the test, if it cannot run here.
pub(super) async fn start_dovecot(message: &[u8]) -> Result<Option<Server>> {
    if !are_installed(&[DOVECOT, "/usr/lib/dovecot/imap", "curl"]) {
        return Ok(None);
    }
    let folder = folder()?;
    let mail = folder.path().join("mail");
    for part in ["cur", "new", "tmp"] {
        std::fs::create_dir_all(mail.join(part))?;
    }
    std::fs::write(mail.join("new/1.message"), message)?;
    let mut chown = Command::new("chown");
    chown.args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(&mail);
    if !output(&mut chown, COMMAND_LIMIT).await?.status.success() {
        println!("SKIPPED: Dovecot needs root");
        return Ok(None);
    }
    // Its processes have users of their own.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711))?;
    let address = free_tcp_port().await?;
    let file = folder.path().join("dovecot.conf");
    std::fs::write(&file, dovecot_config(folder.path(), address))?;
    let mut dovecot = Command::new(DOVECOT);
    dovecot.arg("-F").arg("-c").arg(file);
    Server::start(dovecot, address, folder).await.map(Some)
}

fn dovecot_config(folder: &Path, address: SocketAddr) -> String {
    let (at, ip, port) = (folder.display(), address.ip(), address.port());
    let (_, password) = MAIL_LOGIN.split_once(':').expect("a name and a password");
    format!(
        "base_dir = {at}/run
state_dir = {at}/state
instance_name = longhaul-test-{port}
log_path = /dev/stderr
protocols = imap
listen = {ip}
ssl = no
disable_plaintext_auth = no
first_valid_uid = 0
mail_location = maildir:{at}/mail
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service anvil {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={NOBODY} gid={NOBODY} home={at}/mail
}}
"
    )
}

/// A bare Git repository with one file; `None`, with a message of the test, without Git.
pub(super) async fn git_repository(at: &Path, file: &str, contents: &[u8]) -> Result<Option<PathBuf>> {
    if !are_installed(&["git"]) {
        return Ok(None);
    }
    let (tree, bare) = (at.join("tree"), at.join("repository.git"));
    std::fs::create_dir(&tree)?;
    std::fs::write(tree.join(file), contents)?;
    let in_tree = |arguments: &[&str]| {
        let mut command = git();
        command.arg("-C").arg(&tree).args(arguments);
        command
    };
    succeed(&mut in_tree(&["init", "-q", "-b", "main"]), COMMAND_LIMIT).await?;
    succeed(&mut in_tree(&["add", file]), COMMAND_LIMIT).await?;
    let commit = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "commit",
        "-q",
        "-m",
        "one",
    ];
    succeed(&mut in_tree(&commit), COMMAND_LIMIT).await?;
    succeed(
        git().args(["clone", "-q", "--bare"]).arg(&tree).arg(&bare),
        COMMAND_LIMIT,
    )
    .await?;
    succeed(
        git().arg("-C").arg(&bare).args(["repack", "-a", "-d", "-q"]),
        COMMAND_LIMIT,
    )
    .await?;
    // The files by which Git clones from a server that knows nothing of Git.
    succeed(
        git().arg("-C").arg(&bare).arg("update-server-info"),
        COMMAND_LIMIT,
    )
    .await?;
    Ok(Some(bare))
}

/// Git without the settings of the machine and of the tester.
pub(super) fn git() -> Command {
    let mut git = Command::new("git");
    git.envs([
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ]);
    git
}
