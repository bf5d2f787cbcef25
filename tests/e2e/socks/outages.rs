//! ssh, an IMAP client and git through SOCKS 5 while the hop is away in the midst of what they do. `make socks-long`
//! takes the hop away for 40 s.
use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Request, Response};
use hyper::body::Incoming;
use longhaul_tests::{
    origin::{AnswerBody, Origin},
    relay::{Direction, Passage},
};
use longhaul_types::BitRate;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    time::{Instant, timeout},
};

use super::servers::{
    MAIL_LOGIN, SshServer, are_installed, git, git_repository, output, start_dovecot, succeed,
};
use crate::{
    content::{noise, ok, whole},
    pair::{COMMAND_LIMIT, LIMIT, Link, Pair, Setup, folder},
};

/// Bytes that each program transfers: incompressible, about seven seconds on the hop.
const SIZE: usize = 2_000_000;
/// Bytes towards the program after which the hop goes away.
const BYTES_BEFORE: u64 = 600_000;
const FILE: &str = "file";

/// Time for which the hop is away: longer than the retransmission timeouts of the programs' own connections reach when
/// nothing answers for some packets.
fn outage() -> Duration {
    let seconds = std::env::var("LONGHAUL_SOCKS_OUTAGE_SECONDS").unwrap_or_default();
    Duration::from_secs(seconds.parse().unwrap_or(8))
}

/// Longest time of a program that is interrupted.
fn limit() -> Duration {
    outage() + 2 * LIMIT
}

/// A pair over a hop on which a transfer takes some seconds.
async fn slow_pair(name: &str, server: std::net::SocketAddr) -> Result<Pair> {
    let setup = Setup::resolving(&[(name, server)]);
    Pair::start(setup.over(Link::Paced(BitRate::kbps(2500)))).await
}

fn set(pair: &Pair, passage: Passage) {
    pair.relay().set(Direction::Down, passage);
    pair.relay().set(Direction::Up, passage);
}

/// Takes the hop away once `before` bytes have arrived; `then` runs while it is away.
async fn away(pair: &Pair, before: u64, then: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    pair.relay().has_passed(Direction::Down, before, LIMIT).await?;
    set(pair, Passage::Blocked);
    let began = Instant::now();
    pair.status_until(|status| status["state"] == "stalled").await?;
    then().await?;
    // Only the end of this time ends the wait.
    let rest = outage().saturating_sub(began.elapsed());
    ensure!(timeout(rest, std::future::pending::<()>()).await.is_err());
    set(pair, Passage::Open);
    println!("the hop was away for {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// The program's connections survived: there is one session, and no tunnel was opened a second time.
async fn survived(pair: &Pair, tunnels: u64) -> Result<()> {
    let status = pair.status_until(|status| status["state"] == "open").await?;
    println!("sessions {}, tunnels {}", status["sessions"], status["tunnels"]);
    ensure!(
        status["sessions"] == 1 && status["tunnels"] == tunnels && status["failures"] == 0,
        "{status:#}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ssh_survives_an_outage() -> Result<()> {
    let Some(ssh) = SshServer::start().await? else {
        return Ok(());
    };
    let file = ssh.server.folder().join(FILE);
    std::fs::write(&file, noise(SIZE, 44))?;
    let pair = slow_pair("shell.test:22", ssh.server.address).await?;
    let client = format!("exec {} {}@shell.test", ssh.client(pair.proxy()), ssh.user);

    // A shell in which somebody types, and a copy of a file, each in a connection of its own.
    let mut typing = Command::new("sh");
    typing.arg("-c").arg(format!("{client} sh")).kill_on_drop(true);
    let mut typing = typing.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut keys = typing.stdin.take().context("stdin")?;
    let mut lines = BufReader::new(typing.stdout.take().context("stdout")?).lines();
    keys.write_all(b"echo before the outage\n").await?;
    let line = timeout(LIMIT, lines.next_line()).await??;
    assert_eq!(line.as_deref(), Some("before the outage"));

    let mut copy = Command::new("sh");
    copy.arg("-c").arg(format!("{client} cat {}", file.display()));
    let interrupted = away(&pair, BYTES_BEFORE, async || {
        Ok(keys.write_all(b"echo during the outage\n").await?)
    });
    let (copied, ()) = tokio::try_join!(succeed(&mut copy, limit()), interrupted)?;
    assert!(copied == noise(SIZE, 44), "{} other bytes", copied.len());
    let line = timeout(LIMIT, lines.next_line()).await??;
    assert_eq!(line.as_deref(), Some("during the outage"));
    keys.write_all(b"exit 7\n").await?;
    let ended = timeout(LIMIT, typing.wait()).await??;
    assert_eq!(ended.code(), Some(7), "the status of the remote shell");
    survived(&pair, 2).await
}

#[tokio::test(flavor = "multi_thread")]
async fn git_over_ssh_survives_an_outage() -> Result<()> {
    let Some(ssh) = SshServer::start().await? else {
        return Ok(());
    };
    let Some(repository) = git_repository(ssh.server.folder(), FILE, &noise(SIZE, 45)).await? else {
        return Ok(());
    };
    let pair = slow_pair("git.test:22", ssh.server.address).await?;
    let copies = folder()?;
    let mut clone = git();
    clone
        .env("GIT_SSH_COMMAND", ssh.client(pair.proxy()))
        .args(["clone", "-q"])
        .arg(format!("{}@git.test:{}", ssh.user, repository.display()))
        .arg(copies.path().join("copy"));
    let interrupted = away(&pair, BYTES_BEFORE, async || Ok(()));
    tokio::try_join!(succeed(&mut clone, limit()), interrupted)?;
    is_the_repository(&copies.path().join("copy"), 45).await?;
    survived(&pair, 1).await
}

/// Git has verified the objects that it received, and the file is the one in the repository.
async fn is_the_repository(copy: &Path, seed: u64) -> Result<()> {
    succeed(git().arg("-C").arg(copy).args(["fsck", "--full"]), COMMAND_LIMIT).await?;
    ensure!(std::fs::read(copy.join(FILE))? == noise(SIZE, seed));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn git_over_http_survives_an_outage() -> Result<()> {
    let served = folder()?;
    if git_repository(served.path(), FILE, &noise(SIZE, 46))
        .await?
        .is_none()
    {
        return Ok(());
    }
    let root = served.path().to_owned();
    let answer = move |request: Request<Incoming>| {
        let file = std::fs::read(root.join(request.uri().path().trim_start_matches('/')));
        async move {
            match file {
                Ok(bytes) => ok("application/octet-stream", bytes),
                Err(_) => not_found(),
            }
        }
    };
    let origin = Origin::start(None, |_| {}, answer).await?;
    let pair = slow_pair("git.test:80", origin.address()).await?;
    let copies = folder()?;
    let mut clone = git();
    clone
        .arg("-c")
        .arg(format!("http.proxy=socks5h://{}", pair.proxy()))
        .args(["clone", "-q", "http://git.test/repository.git"])
        .arg(copies.path().join("copy"));
    let interrupted = away(&pair, BYTES_BEFORE, async || Ok(()));
    tokio::try_join!(succeed(&mut clone, limit()), interrupted)?;
    is_the_repository(&copies.path().join("copy"), 46).await?;
    let seen = origin.seen();
    let packs = seen.iter().filter(|seen| seen.path.ends_with(".pack")).count();
    assert_eq!(packs, 1, "requests for the pack: {seen:?}");
    let status = pair.status().await?;
    assert_eq!((&status["sessions"], &status["failures"]), (&1.into(), &0.into()));
    Ok(())
}

fn not_found() -> Response<AnswerBody> {
    Response::builder()
        .status(404)
        .body(whole(""))
        .expect("a valid response")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imap_client_survives_an_outage() -> Result<()> {
    // Lines as in a mail with an attachment.
    let attached = STANDARD.encode(noise(SIZE * 3 / 4, 47));
    let lines = attached.as_bytes().chunks(76);
    let body: Vec<u8> = lines.flat_map(|line| [line, b"\r\n"].concat()).collect();
    let head = b"From: a@example.org\r\nSubject: a large file\r\nContent-Transfer-Encoding: base64\r\n\r\n";
    let message = [&head[..], &body].concat();
    let Some(dovecot) = start_dovecot(&message).await? else {
        return Ok(());
    };
    if !are_installed(&["curl"]) {
        return Ok(());
    }
    let pair = slow_pair("mail.test:143", dovecot.address).await?;
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--user",
        MAIL_LOGIN,
        "--socks5-hostname",
    ])
    .arg(pair.proxy().to_string())
    .arg("imap://mail.test/INBOX;UID=1");
    let interrupted = away(&pair, BYTES_BEFORE, async || Ok(()));
    let (read, ()) = tokio::try_join!(output(&mut curl, limit()), interrupted)?;
    ensure!(read.status.success(), "{read:?}");
    assert!(read.stdout == message, "{} other bytes", read.stdout.len());
    survived(&pair, 1).await
}
