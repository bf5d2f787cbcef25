//! Memory of a gateway with 1,000 clients without an agent, each from an address of its own: idle after a page, with HTTP/1.1
//! and with HTTP/2 inside TLS, and reading nothing of a large body. `cargo bench -p longhaul-gateway`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
mod secure;

use std::{
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener as StdListener},
    path::Path,
    process::{Child, Command, Stdio},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
};

const CLIENTS: u16 = 1_000;
/// Length of the page that each client loads before it is idle, in bytes.
const PAGE: usize = 20_000;
/// Length of the body of which a client reads only the beginning, in bytes.
const LARGE: usize = 8 * 1024 * 1024;
/// What a slow client has read: the header section and the first bytes.
const READ: usize = 1_024;
/// Receive buffer of a slow client in bytes, as small as the kernel permits.
const BUFFER: u32 = 4_096;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // `cargo test --all-targets` also runs this program, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let origin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = origin.local_addr().unwrap().port();
    tokio::spawn(serve(origin));
    idle_inside_tls(port).await;
    for (state, path, read) in [
        ("idle after a page of 20 kB", "page", usize::MAX),
        ("reads nothing of 8 MiB, in the cache", "cached", READ),
        ("reads nothing of 8 MiB, not in the cache", "large", READ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (mut gateway, proxy) = start(folder.path(), Port::Plain);
        // What is loaded once, such as the cache's pages, belongs to no client.
        let first = load(proxy, port, path, 0, usize::MAX).await;
        let before = resident_kib(&gateway);
        let mut clients = Vec::new();
        for number in 1..=CLIENTS {
            clients.push(load(proxy, port, path, number, read).await);
        }
        print(state, before, resident_kib(&gateway));
        drop((first, clients));
        gateway.kill().unwrap();
        gateway.wait().unwrap();
    }
}

/// The same for clients of the proxy inside TLS.
async fn idle_inside_tls(port: u16) {
    let folder = tempfile::tempdir().unwrap();
    secure::certify(folder.path());
    let connector = secure::connector(folder.path());
    let (mut gateway, proxy) = start(folder.path(), Port::Tls);
    let page = format!("http://127.0.0.1:{port}/page");
    let load = |number| secure::load(&connector, proxy, (&page, PAGE), number);
    let mut clients = vec![load(0).await];
    let before = resident_kib(&gateway);
    for number in 1..=CLIENTS {
        clients.push(load(number).await);
    }
    print(
        "idle after a page of 20 kB, HTTP/2 inside TLS",
        before,
        resident_kib(&gateway),
    );
    drop(clients);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

/// Prints the memory of a gateway without and with the clients, in KiB.
fn print(state: &str, before: u32, after: u32) {
    let each = f64::from(after.saturating_sub(before)) / f64::from(CLIENTS);
    println!(
        "{state}: gateway {before} KiB before, {after} KiB with {CLIENTS} clients, {each:.1} KiB a client"
    );
}

/// The port of the proxy that clients use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Plain,
    Tls,
}

fn start(folder: &Path, port: Port) -> (Child, SocketAddr) {
    // The program does not print this address; the port stays free for the moment.
    let free = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = free.local_addr().unwrap();
    drop(free);
    let setting = match port {
        Port::Plain => "--clientless-listen",
        Port::Tls => "--clientless-tls",
    };
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_longhaul-gateway"))
        .args(["run", "--listen", "127.0.0.1:0", "--allow", "127.0.0.0/8"])
        .args(["--clientless-allow", "127.0.0.0/8", setting])
        .arg(proxy.to_string())
        .env("LONGHAUL_CLIENTLESS_CERTIFICATE", folder.join("cert.pem"))
        .env("LONGHAUL_CLIENTLESS_KEY", folder.join("key.pem"))
        .arg("--state-dir")
        .arg(folder.join("state"))
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(gateway.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    assert!(ready.starts_with("ready"), "{ready}");
    (gateway, proxy)
}

/// Requests a body from an address of its own, and reads at most `read` bytes of the response, or all. A client that does
/// not read all has the smallest receive buffer.
async fn load(proxy: SocketAddr, port: u16, path: &str, client: u16, read: usize) -> TcpStream {
    let socket = socket_of(client);
    if read < usize::MAX {
        socket.set_recv_buffer_size(BUFFER).unwrap();
    }
    let mut stream = socket.connect(proxy).await.unwrap();
    let request = format!("GET http://127.0.0.1:{port}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let body = if path == "page" { PAGE } else { LARGE };
    let (mut seen, mut head) = (Vec::new(), None);
    while seen.len() < read && head.is_none_or(|head: usize| seen.len() < head + body) {
        let mut buffer = vec![0; READ.max(64 * 1_024 * usize::from(read == usize::MAX))];
        let count = stream.read(&mut buffer).await.unwrap();
        let text = String::from_utf8_lossy(&seen);
        assert!(count > 0, "the gateway ended the connection: {text}");
        seen.extend_from_slice(buffer.get(..count).unwrap());
        if head.is_none() {
            let end = seen.windows(4).position(|bytes| bytes == b"\r\n\r\n");
            head = end.map(|end| end + 4);
        }
    }
    stream
}

/// A socket of the address of a client: each has limits, and a governor of its link, by its address.
fn socket_of(client: u16) -> TcpSocket {
    let [high, low] = client.to_be_bytes();
    let socket = TcpSocket::new_v4().unwrap();
    socket
        .bind((Ipv4Addr::new(127, 1 + high, low, 1), 0).into())
        .unwrap();
    socket
}

/// Memory of the process in KiB (proc(5), `VmRSS`).
fn resident_kib(process: &Child) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An origin with a page, and with two large bodies, of which one may be stored.
async fn serve(listener: TcpListener) {
    let mut body = vec![0; LARGE];
    blake3::Hasher::new().finalize_xof().fill(&mut body);
    let body = bytes::Bytes::from(body);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, body.clone()));
    }
}

async fn answer(mut stream: TcpStream, body: bytes::Bytes) {
    let mut buffer = vec![0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        let request = String::from_utf8_lossy(buffer.get(..count).unwrap_or_default()).into_owned();
        let length = if request.contains("/page") { PAGE } else { LARGE };
        let control = if request.contains("/large") {
            "no-store"
        } else {
            "public, max-age=3600"
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: {control}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        if stream.write_all(head.as_bytes()).await.is_err()
            || stream.write_all(&body.slice(..length)).await.is_err()
        {
            return;
        }
    }
}
