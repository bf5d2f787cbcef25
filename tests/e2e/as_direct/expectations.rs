//! `Expect: 100-continue`: the client's body is asked for when the origin asks, or when it takes its time, and not if the
//! origin answers at once.
use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

use super::*;
use crate::pair::LIMIT;

/// Bytes of a body.
const BODY: usize = 300_000;

/// Starts an origin that answers by the path, and tells how many bytes of each body it got.
async fn origin() -> Result<(SocketAddr, mpsc::UnboundedReceiver<usize>)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let (sender, bodies) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, sender.clone()));
        }
    });
    Ok((address, bodies))
}

async fn serve(mut stream: TcpStream, bodies: mpsc::UnboundedSender<usize>) -> Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let early = head.len() - (text.find("\r\n\r\n").unwrap_or_default() + 4);
    if text.contains("/ready") {
        let answer = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
        return Ok(stream.write_all(answer).await?);
    }
    let expects = text.contains("\r\nexpect: 100-continue\r\n");
    if let Some(path) = ["/401", "/413", "/417"]
        .into_iter()
        .find(|path| text.contains(path))
    {
        let refusal = "r".repeat(2000);
        let answer = format!(
            "HTTP/1.1 {} No\r\nX-Own: {expects}\r\nContent-Length: 2000\r\n\r\n{refusal}",
            &path[1..]
        );
        stream.write_all(answer.as_bytes()).await?;
        let mut rest = Vec::new();
        // Ends when the exchange is given up.
        let _reset = stream.read_to_end(&mut rest).await;
        let _test_is_over = bodies.send(early + rest.len());
        return Ok(());
    }
    if text.contains("/asks") {
        stream
            .write_all(b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n")
            .await?;
    }
    let mut read = early;
    let mut buffer = vec![0; 65536];
    while read < BODY {
        read += match stream.read(&mut buffer).await? {
            0 => break,
            count => count,
        };
    }
    let _test_is_over = bodies.send(read);
    let answer =
        format!("HTTP/1.1 200 OK\r\nX-Own: {expects}\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone");
    stream.write_all(answer.as_bytes()).await?;
    Ok(())
}

fn post(site: &str, path: &str) -> String {
    let length = BODY.to_string();
    let fields = [("Expect", "100-continue"), ("Content-Length", length.as_str())];
    request("POST", &format!("http://{site}{path}"), &fields)
}

async fn refused_and_asked(
    proxy: SocketAddr,
    site: &str,
    bodies: &mut mpsc::UnboundedReceiver<usize>,
) -> Result<()> {
    for status in [401, 413, 417] {
        let mut client = RawClient::connect(proxy).await?;
        client.send(post(site, &format!("/{status}"))).await?;
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.ending),
            (status, Ending::Whole),
            "{response:?}"
        );
        assert_eq!(
            (response.field("x-own"), response.body.len()),
            (Some("true"), 2000)
        );
        assert_eq!(
            tokio::time::timeout(LIMIT, bodies.recv()).await?,
            Some(0),
            "{status}"
        );
    }
    for path in ["/asks", "/silent"] {
        let start = Instant::now();
        let mut client = RawClient::connect(proxy).await?;
        client.send(post(site, path)).await?;
        assert_eq!(client.response().await?.status, 100, "{path}");
        if path == "/silent" {
            assert!(start.elapsed() >= Duration::from_millis(900), "asked too early");
        }
        client.send(vec![b'b'; BODY]).await?;
        let response = client.response().await?;
        assert_eq!(
            (response.status, response.text().as_str()),
            (200, "done"),
            "{path}"
        );
        assert_eq!(bodies.recv().await, Some(BODY), "{path}");
    }
    // A client need not wait.
    let mut client = RawClient::connect(proxy).await?;
    client.send(post(site, "/asks")).await?;
    client.send(vec![b'b'; BODY]).await?;
    let mut response = client.response().await?;
    if response.status == 100 {
        response = client.response().await?;
    }
    assert_eq!(response.status, 200);
    assert_eq!(bodies.recv().await, Some(BODY));
    Ok(())
}

#[tokio::test]
async fn bodies_wait_until_the_origin_asks_for_them() -> Result<()> {
    let (address, mut bodies) = origin().await?;
    let (pair, clientless) = pair_with_clientless(address).await?;
    refused_and_asked(pair.proxy(), "site.test", &mut bodies).await?;
    refused_and_asked(clientless, "site.test", &mut bodies).await
}

#[tokio::test]
async fn bodies_of_direct_requests_wait_until_the_origin_asks_for_them() -> Result<()> {
    let (address, mut bodies) = origin().await?;
    let mut setup = Setup::resolving(&[]);
    setup.agent_arguments = ["--fallback-after", "100ms", "--direct-allow", "127.0.0.1"]
        .map(str::to_owned)
        .to_vec();
    let mut pair = Pair::start(setup).await?;
    pair.kill_gateway().await?;
    // Once the agent knows that the gateway is silent, requests go directly at once.
    let known = ask(
        pair.proxy(),
        request("GET", &format!("http://{address}/ready"), &[]),
    )
    .await?;
    assert_eq!(known.status, 204);
    refused_and_asked(pair.proxy(), &address.to_string(), &mut bodies).await
}
