//! The proxy is never open: it asks itself as a stranger would, and what a client may transfer is limited.
use std::net::SocketAddr;

use http::Request;
use hyper::body::Incoming;
use longhaul_clientless::ClientlessError;
use longhaul_gateway::{Server, ServerError};
use longhaul_gateway_core::config::{Environment, SettingArgs, resolve, settings};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpSocket, TcpStream, UdpSocket},
};

use super::{ELSEWHERE, LOCAL, exchange, exchange_text, get, start_in, start_with, status};
use crate::{
    origin::{full, serve, serve_tcp, text},
    store::reply,
};

/// A gateway's flags, with a proxy for one address that is not the one from which this machine asks.
fn flags(home: &tempfile::TempDir, allow: &str) -> SettingArgs {
    SettingArgs::default()
        .with(&settings::LISTEN, "127.0.0.1:0")
        .with(&settings::STATE_DIR, home.path().join("state").to_str().unwrap())
        .with(&settings::CLIENTLESS_ALLOW, allow)
}

async fn bind(flags: &SettingArgs) -> Result<Server, ServerError> {
    let (config, _) = resolve(flags, &Environment::new()).unwrap();
    Server::bind(&config).await
}

/// A port that nobody uses, at all addresses of this machine. The gateways take it at an address at which no connection of
/// another test begins.
async fn free_port() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

/// What stands before some gateways: it passes connections on from an address of its own.
async fn forward(from: SocketAddr, to: SocketAddr, own: &'static str) {
    let listener = TcpListener::bind(from).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(own.parse().unwrap()).unwrap();
            let Ok(mut server) = socket.connect(to).await else {
                continue;
            };
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
}

#[tokio::test]
async fn a_gateway_that_serves_strangers_does_not_start() {
    for (setting, is_tls, is_shared) in [
        (&settings::CLIENTLESS_LISTEN, false, false),
        (&settings::CLIENTLESS_TLS, true, false),
        // The carrier `tls` has the same port.
        (&settings::CLIENTLESS_TLS, true, true),
    ] {
        // The one before may still close its cache.
        let home = tempfile::tempdir().unwrap();
        let port = free_port().await;
        let to = SocketAddr::from(([127, 0, 0, 7], port));
        forward(([127, 0, 0, 5], port).into(), to, "127.0.0.9:0").await;
        let mut flags = flags(&home, "127.0.0.9")
            .with(setting, &to.to_string())
            .with(&settings::PUBLIC_ADDRESS, "127.0.0.5:4433");
        if is_shared {
            flags = flags.with(&settings::CARRIERS_TLS, &to.to_string());
        }
        if is_tls {
            super::secure::certify(home.path());
            for (setting, file) in [
                (&settings::CLIENTLESS_CERTIFICATE, "cert.pem"),
                (&settings::CLIENTLESS_KEY, "key.pem"),
            ] {
                flags = flags.with(setting, home.path().join(file).to_str().unwrap());
            }
        }
        match bind(&flags).await {
            Err(ServerError::Clientless(ClientlessError::Open(error))) => {
                assert!(error.to_string().contains("open to everybody"), "{error}");
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("an open proxy; TLS: {is_tls}"),
        }
    }
}

#[tokio::test]
async fn a_gateway_that_refuses_strangers_or_does_not_reach_itself_starts() {
    for (allow, public) in [
        (ELSEWHERE, "127.0.0.1:4433"),
        (ELSEWHERE, "127.0.0.7:4433"),
        (ELSEWHERE, "no-such-name.invalid:4433"),
        // The gateway's own address is one of the clients', which proves nothing.
        (LOCAL, "127.0.0.1:4433"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let flags = flags(&home, allow)
            .with(&settings::CLIENTLESS_LISTEN, "127.0.0.1:0")
            .with(&settings::CLIENTLESS_TRANSPARENT, "127.0.0.1:0")
            .with(&settings::DNS_LISTEN, "127.0.0.1:0")
            .with(&settings::DNS_NAMES, "a.test")
            .with(&settings::PUBLIC_ADDRESS, public);
        bind(&flags).await.unwrap();
    }
}

#[tokio::test]
async fn the_ports_for_redirected_connections_and_names_serve_no_stranger() {
    for (allow, is_client) in [(ELSEWHERE, false), (LOCAL, true)] {
        let (gateway, _) = start_in(tempfile::tempdir().unwrap(), allow, |flags| {
            *flags = std::mem::take(flags)
                .with(&settings::CLIENTLESS_TRANSPARENT, "127.0.0.1:0")
                .with(&settings::DNS_LISTEN, "127.0.0.1:0")
                .with(&settings::DNS_NAMES, "a.test");
        })
        .await;
        // A client is served only names of the name server.
        for request in [
            "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.test:25\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n",
            "CONNECT a.test:25 HTTP/1.1\r\nHost: a.test:25\r\n\r\n",
            "SSH-2.0-x\r\n",
            "\x05\x01\0",
            "\x16\x03\x01\0\x04\x02\0\0\0",
        ] {
            let answer = exchange(gateway.transparent[0], request.as_bytes()).await;
            let expected: &[u16] = if is_client { &[0, 404] } else { &[0] };
            assert!(
                expected.contains(&status(&answer)),
                "{request}: {}",
                answer.escape_ascii()
            );
        }
        let name_server = gateway.dns.unwrap();
        let question = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(question, name_server).await.unwrap();
        let mut stream = TcpStream::connect(name_server).await.unwrap();
        let mut over_tcp = vec![0, 24];
        over_tcp.extend_from_slice(question);
        let _reset = stream.write_all(&over_tcp).await;
        let mut answer = [0; 2];
        // The answer over TCP, or the end, comes after the one over UDP was sent.
        assert_eq!(stream.read_exact(&mut answer).await.is_ok(), is_client);
        let mut answer = [0; 512];
        let received = socket.try_recv_from(&mut answer);
        if is_client {
            let length = match received {
                Ok((length, _)) => length,
                Err(_) => socket.recv(&mut answer).await.unwrap(),
            };
            assert!(length <= 2 * question.len() && answer[..length].ends_with(&[127, 0, 0, 1]));
        } else {
            assert!(received.is_err(), "a stranger got an answer");
        }
    }
}

#[tokio::test]
async fn a_client_that_has_used_up_its_day_gets_nothing_more() {
    let (_gateway, proxy) = start_with(|flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_DAY_SIZE, "1MiB");
    })
    .await;
    let (small, large) = (text(10_000), text(3_000_000));
    let (served, served_large) = (small.clone(), large.clone());
    let port = serve(move |request: Request<Incoming>| {
        let body = match request.uri().path() {
            "/large" => served_large.clone(),
            _ => served.clone(),
        };
        async move { reply(200, &[], full(body)) }
    })
    .await;
    let url = |path: &str| format!("http://a.test:{port}{path}");
    let answer = exchange(proxy, get(&url("/"), "").as_bytes()).await;
    assert!(answer.ends_with(&small));
    let answer = exchange(proxy, get(&url("/large"), "").as_bytes()).await;
    assert_eq!(status(&answer), 200);
    assert!(answer.len() < 1024 * 1024 + 200_000, "{} bytes", answer.len());
    let answer = exchange_text(proxy, &get(&url("/"), "")).await;
    assert_eq!(status(answer.as_bytes()), 403);
    assert!(answer.contains("midnight (UTC)"), "{answer}");
}

#[tokio::test]
async fn what_is_sent_with_the_request_for_a_tunnel_counts() {
    const SENT: usize = 12_000;
    let host = serve_tcp(|mut stream| async move {
        let mut received = vec![0; SENT];
        stream.read_exact(&mut received).await.unwrap();
    })
    .await;
    let (_gateway, proxy) = start_with(|flags| {
        *flags = std::mem::take(flags)
            .with(&settings::CLIENTLESS_PORTS, &host.to_string())
            .with(&settings::CLIENTLESS_DAY_SIZE, "1MiB");
    })
    .await;
    let connect = format!("CONNECT a.test:{host} HTTP/1.1\r\nHost: a.test:{host}\r\n\r\n");
    let request = [connect.as_bytes(), &[b'x'; SENT]].concat();
    for _ in 0..1024 * 1024 / SENT {
        assert_eq!(status(&exchange(proxy, &request).await), 200);
    }
    let counted = exchange(proxy, &request).await;
    assert!([0, 200].contains(&status(&counted)), "the last bytes of the day");
    assert_eq!(status(&exchange(proxy, &request).await), 403);
}
