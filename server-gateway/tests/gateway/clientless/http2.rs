//! HTTP/2 inside TLS: requests, bodies and tunnels.
use bytes::Bytes;
use h2::{Reason, RecvStream, client::SendRequest};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_gateway_core::config::settings;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::JoinSet,
};

use super::{
    LOCAL,
    secure::{Secure, start, start_in},
};
use crate::{
    origin::{full, serve, serve_raw, serve_tcp, text},
    store::{Log, numbered, reply},
};

/// A client of the proxy that accepts everything.
pub(crate) async fn client(secure: &Secure) -> SendRequest<Bytes> {
    client_with(secure, h2::client::Builder::new()).await
}

/// A client with other settings.
pub(crate) async fn client_with(secure: &Secure, builder: h2::client::Builder) -> SendRequest<Bytes> {
    let stream = secure.connect(&[b"h2"]).await;
    let (client, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// A GET request for a URL.
pub(crate) fn get(url: &str) -> Request<()> {
    Request::get(url).body(()).unwrap()
}

/// Sends a request without a body.
pub(crate) async fn send(
    client: &SendRequest<Bytes>,
    request: Request<()>,
) -> Result<Response<RecvStream>, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, _) = client.send_request(request, true)?;
    response.await
}

/// Reads a body to its end.
pub(crate) async fn body(response: Response<RecvStream>) -> Result<Vec<u8>, h2::Error> {
    let mut stream = response.into_body();
    let mut body = Vec::new();
    while let Some(bytes) = stream.data().await {
        let bytes = bytes?;
        body.extend_from_slice(&bytes);
        stream.flow_control().release_capacity(bytes.len())?;
    }
    Ok(body)
}

#[tokio::test]
async fn requests_of_one_connection_are_answered_at_the_same_time() {
    let secure = start().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let _number = counted.add(request.headers());
        let length = request.uri().path()[1..].parse().unwrap();
        async move { reply(200, &[("content-type", "image/x")], full(text(length))) }
    })
    .await;
    let client = client(&secure).await;
    let mut requests = JoinSet::new();
    for length in (0..40_usize).map(|number| number * 5000) {
        let client = client.clone();
        requests.spawn(async move {
            let response = send(&client, get(&format!("http://a.test:{port}/{length}")))
                .await
                .unwrap();
            assert_eq!(response.status(), 200);
            assert_eq!(response.headers()["via"], "1.1 longhaul");
            assert_eq!(response.headers()["content-length"], length.to_string());
            assert!(body(response).await.unwrap() == text(length), "{length}");
        });
    }
    requests.join_all().await;
    assert_eq!(log.count(), 40);
    assert!(!log.last().contains_key("proxy-connection"));
}

#[tokio::test]
async fn pages_are_compressed_and_cookies_joined() {
    let secure = start().await;
    let log = Log::default();
    let counted = log.clone();
    let port = serve(move |request: Request<Incoming>| {
        let _number = counted.add(request.headers());
        async move { reply(200, &[("content-type", "text/html")], full(text(50_000))) }
    })
    .await;
    let request = Request::get(format!("http://a.test:{port}/"))
        .header(header::ACCEPT_ENCODING, "gzip, deflate")
        .header(header::COOKIE, "a=1")
        .header(header::COOKIE, "b=2")
        .header("proxy-made-up", "1")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let response = send(&client(&secure).await, request).await.unwrap();
    assert_eq!(response.headers()["content-encoding"], "gzip");
    assert!(!response.headers().contains_key("content-length"));
    let coded = body(response).await.unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&coded[..]), &mut plain).unwrap();
    assert!(plain == text(50_000));
    let seen = log.last();
    assert_eq!(seen["cookie"], "a=1; b=2");
    for name in ["proxy-made-up", "te", "connection"] {
        assert!(!seen.contains_key(name), "{name}");
    }
}

#[tokio::test]
async fn bodies_of_requests_reach_the_origin() {
    let secure = start().await;
    let port = serve(|request: Request<Incoming>| async move {
        let length = request.headers().get("content-length").cloned();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let kind = if length.is_some() { "known" } else { "unknown" };
        reply(200, &[("x-length", kind)], full(body))
    })
    .await;
    let client = client(&secure).await;
    for (length, announced) in [(0, true), (1, true), (3_000_000, true), (70_000, false)] {
        let sent = text(length);
        let mut request = Request::post(format!("http://a.test:{port}/"));
        if announced {
            request = request.header("content-length", length);
        }
        let mut client = client.clone().ready().await.unwrap();
        let (response, mut stream) = client.send_request(request.body(()).unwrap(), false).unwrap();
        // The library waits for the windows.
        stream.send_data(Bytes::from(sent.clone()), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(
            response.headers()["x-length"],
            if announced { "known" } else { "unknown" }
        );
        assert!(body(response).await.unwrap() == sent, "{length}");
    }
}

#[tokio::test]
async fn a_body_that_the_origin_cuts_does_not_end_cleanly() {
    let secure = start().await;
    let client = client(&secure).await;
    for head in ["Content-Length: 100000\r\n", "Transfer-Encoding: chunked\r\n"] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: image/x\r\n{head}\r\n1000\r\nabc");
        let port = serve_raw(answer.into_bytes()).await;
        let response = send(&client, get(&format!("http://a.test:{port}/"))).await;
        let ended = match response {
            Ok(response) => body(response).await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(
            ended.unwrap_err().reason(),
            Some(Reason::INTERNAL_ERROR),
            "{head}"
        );
    }
    // The connection goes on.
    let (url, _) = numbered(&[]).await;
    assert_eq!(send(&client, get(&url)).await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_upload_that_the_client_cuts_never_looks_complete() {
    let secure = start().await;
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let port = serve(move |request: Request<Incoming>| {
        let told = told.clone();
        async move {
            let mut body = request.into_body();
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            told.send(Some(first.len())).unwrap();
            let rest = body.collect().await;
            told.send(rest.is_ok().then_some(0)).unwrap();
            reply(200, &[], full(""))
        }
    })
    .await;
    for how in [Reason::CANCEL, Reason::INTERNAL_ERROR] {
        let mut client = client(&secure).await;
        let request = Request::post(format!("http://a.test:{port}/")).body(()).unwrap();
        let (_response, mut stream) = client.send_request(request, false).unwrap();
        stream.send_data(Bytes::from_static(b"half"), false).unwrap();
        assert_eq!(ends.recv().await, Some(Some(4)));
        stream.send_reset(how);
        assert_eq!(
            ends.recv().await,
            Some(None),
            "the origin took a part for the whole"
        );
    }
}

#[tokio::test]
async fn many_tunnels_share_one_connection() {
    let port = serve_tcp(|mut connection| async move {
        let (mut read, mut write) = connection.split();
        let _gone = tokio::io::copy(&mut read, &mut write).await;
    })
    .await;
    let secure = start_in(tempfile::tempdir().unwrap(), LOCAL, |flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PORTS, &port.to_string());
    })
    .await;
    let client = client(&secure).await;
    let mut tunnels = Vec::new();
    for number in 0..200 {
        let request = Request::builder()
            .method(Method::CONNECT)
            .uri(format!("a.test:{port}"))
            .body(())
            .unwrap();
        let mut client = client.clone().ready().await.unwrap();
        let (response, up) = client.send_request(request, false).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200, "{number}");
        tunnels.push((up, response.into_body()));
    }
    // All of them are idle; then one after the other is used.
    for (number, (up, down)) in tunnels.iter_mut().enumerate() {
        up.send_data(Bytes::from(format!("hello {number}")), false)
            .unwrap();
        let expected = format!("hello {number}");
        let mut got = Vec::new();
        while got.len() < expected.len() {
            got.extend_from_slice(&down.data().await.unwrap().unwrap());
        }
        assert_eq!(got, expected.as_bytes());
        // The end of one direction leaves the other one open.
        up.send_data(Bytes::new(), true).unwrap();
        while let Some(last) = down.data().await {
            assert!(last.unwrap().is_empty(), "a clean end");
        }
    }
}

#[tokio::test]
async fn tunnels_end_as_their_hosts_do_and_reach_only_what_they_may() {
    let cut = serve_tcp(|mut connection| async move {
        let mut first = [0; 1];
        connection.read_exact(&mut first).await.unwrap();
        connection.write_all(&[b'x'; 100_000]).await.unwrap();
        connection.set_zero_linger().unwrap();
    })
    .await;
    let secure = start_in(tempfile::tempdir().unwrap(), LOCAL, |flags| {
        *flags = std::mem::take(flags).with(&settings::CLIENTLESS_PORTS, &cut.to_string());
    })
    .await;
    let client = client(&secure).await;
    let connect = |to: String| {
        Request::builder()
            .method(Method::CONNECT)
            .uri(to)
            .body(())
            .unwrap()
    };
    let mut sending = client.clone().ready().await.unwrap();
    let (response, mut up) = sending
        .send_request(connect(format!("a.test:{cut}")), false)
        .unwrap();
    let response = response.await.unwrap();
    up.send_data(Bytes::from_static(b"x"), false).unwrap();
    let ended = body(response).await;
    assert_eq!(ended.unwrap_err().reason(), Some(Reason::CONNECT_ERROR));
    let own = secure.address.port();
    for (to, expected) in [
        ("a.test:25".to_owned(), StatusCode::FORBIDDEN),
        (format!("a.test:{own}"), StatusCode::FORBIDDEN),
        ("a.test:443".to_owned(), StatusCode::FORBIDDEN),
    ] {
        let response = send(&client, connect(to.clone())).await.unwrap();
        assert_eq!(response.status(), expected, "{to}");
    }
}
