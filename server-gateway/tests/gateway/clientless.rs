//! The proxy for browsers without an agent.
mod access;
mod browsers;
mod forwarding;
mod http2;
mod http2_abuse;
mod http2_requests;
mod logins;
mod never_open;
mod pictures;
mod pipelining;
mod prefetch;
mod secure;
mod shared_port;
mod smuggling;
mod timeouts;

use std::net::SocketAddr;

use longhaul_gateway_core::config::{SettingArgs, settings};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::gateway::Gateway;

/// This machine, from which all clients of these tests come.
pub(crate) const LOCAL: &str = "127.0.0.0/8";
/// A network without any client.
pub(crate) const ELSEWHERE: &str = "192.0.2.0/24";

/// A gateway whose proxy serves this machine.
pub(crate) async fn start() -> (Gateway, SocketAddr) {
    start_with(|_| {}).await
}

/// A gateway whose proxy serves this machine, with changed flags.
pub(crate) async fn start_with(change: impl FnOnce(&mut SettingArgs)) -> (Gateway, SocketAddr) {
    start_in(tempfile::tempdir().unwrap(), LOCAL, change).await
}

/// A gateway whose proxy serves the clients of a network.
pub(crate) async fn start_in(
    home: tempfile::TempDir,
    allow: &str,
    change: impl FnOnce(&mut SettingArgs),
) -> (Gateway, SocketAddr) {
    let gateway = Gateway::start_in(home, |flags| {
        *flags = std::mem::take(flags)
            .with(&settings::CLIENTLESS_LISTEN, "127.0.0.1:0")
            .with(&settings::CLIENTLESS_ALLOW, allow)
            .with(&settings::CLIENTLESS_LEVEL, "original");
        change(flags);
    })
    .await;
    let address = gateway.clientless.unwrap();
    (gateway, address)
}

/// Sends bytes on a new connection, and returns all bytes until its end.
pub(crate) async fn exchange(proxy: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut connection = TcpStream::connect(proxy).await.unwrap();
    // The proxy may end the connection before it has read everything.
    let _reset = connection.write_all(request).await;
    let mut answer = Vec::new();
    let _reset = connection.read_to_end(&mut answer).await;
    answer
}

/// The same for texts.
pub(crate) async fn exchange_text(proxy: SocketAddr, request: &str) -> String {
    String::from_utf8_lossy(&exchange(proxy, request.as_bytes()).await).into_owned()
}

/// A GET request, after which the connection ends. `fields` end with CR LF each.
pub(crate) fn get(url: &str, fields: &str) -> String {
    let host = url.split('/').nth(2).unwrap();
    format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n")
}

/// Status of a response.
pub(crate) fn status(response: &[u8]) -> u16 {
    let line = String::from_utf8_lossy(&response[..response.len().min(12)]).into_owned();
    line.strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}

/// Head and body of a response.
pub(crate) fn parts(response: &[u8]) -> (String, &[u8]) {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    (
        String::from_utf8_lossy(&response[..end]).to_ascii_lowercase(),
        &response[end..],
    )
}

/// Removes the chunked coding.
pub(crate) fn unchunked(mut wire: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = wire.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&wire[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            assert_eq!(&wire[end..], b"\r\n\r\n");
            return body;
        }
        body.extend_from_slice(&wire[end + 2..end + 2 + size]);
        wire = &wire[end + 2 + size + 2..];
    }
}
