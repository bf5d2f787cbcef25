//! Upgrades that are requested of the proxy itself, as some programs do for `ws` URLs; most send CONNECT.
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use super::*;

/// An origin that switches protocols at `/ws` and echoes then, refuses to at `/never` without an end of its body, and
/// answers others. It tells the heads of the requests.
async fn switching_origin() -> Result<(SocketAddr, mpsc::UnboundedReceiver<String>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let (heads, seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, heads.clone()));
        }
    });
    Ok((address, seen))
}

async fn serve(mut stream: TcpStream, heads: mpsc::UnboundedSender<String>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let _test_is_over = heads.send(head);
    match path.as_str() {
        "/ws" => {
            let switched = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(switched.as_bytes()).await?;
            let (mut from, mut to) = stream.split();
            tokio::io::copy(&mut from, &mut to).await?;
        }
        "/never" => {
            stream.write_all(b"HTTP/1.1 410 Gone\r\n\r\nno").await?;
            stream.read_to_end(&mut Vec::new()).await?;
        }
        _ => {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                .await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_of_requests_to_the_proxy_are_opened() -> Result<()> {
    let (address, mut heads) = switching_origin().await?;
    let pair = Pair::start(Setup::resolving(&[("site.test", address)])).await?;
    let fields = [
        ("Connection", "keep-alive, Upgrade"),
        ("Upgrade", "WebSocket"),
        ("Proxy-Connection", "keep-alive"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(request("GET", "http://u:p@site.test/ws", &fields))
        .await?;
    assert_eq!(client.head().await?.status, 101);
    client.send("a frame").await?;
    assert_eq!(client.read_exact(7).await?, b"a frame");
    let head = heads.recv().await.context("a request")?.to_ascii_lowercase();
    for line in [
        "get /ws http/1.1",
        "host: site.test",
        "connection: upgrade",
        "upgrade: websocket",
        "authorization: basic dtpw",
        "sec-websocket-key: dghlihnhbxbszsbub25jzq==",
    ] {
        assert!(head.lines().any(|seen| seen == line), "no `{line}` in {head}");
    }
    assert!(!head.contains("proxy-"), "{head}");

    // A refusal is heard at once, also if its body does not end.
    let mut client = RawClient::connect(pair.proxy()).await?;
    client
        .send(request("GET", "http://site.test/never", &fields))
        .await?;
    assert_eq!(client.head().await?.status, 410);
    assert!(client.read().await?.ends_with(b"no\r\n"));

    // Programs offer HTTP/2 with each request; it is not taken, and the response comes.
    let fields = [
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", ""),
    ];
    let response = ask(pair.proxy(), request("GET", "http://site.test/", &fields)).await?;
    assert_eq!((response.status, response.text().as_str()), (200, "hi"));
    Ok(())
}
