//! Responses that RFC 9112 forbids and browsers load.
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use longhaul_origin::{BodyError, OriginClient, OriginConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use crate::rig::{
    LOCAL, Origin, client_of, config_of, get, read_head, text,
    tls::{Authority, Validity},
};

#[tokio::test]
async fn odd_responses_load() {
    for (answer, status, body) in [
        (
            "HTTP/1.1 200 OK\r\n<!DOCTYPE html>\r\nContent-Length: 5\r\n\r\nhello",
            200,
            "hello",
        ),
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", 200, "hello"),
        ("HTTP/1.1 999 No robots\r\nContent-Length: 2\r\n\r\nno", 999, "no"),
        ("HTTP 404 Not Found\r\nX Y: 1\r\n\r\nlost", 404, "lost"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
            200,
            "hello",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", 200, "hello"),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nhello",
            200,
            "hello",
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \nhello\n0\n\n",
            200,
            "hello",
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            200,
            "hello",
        ),
        (
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=\u{1}\r\nX: \u{7f}\r\n\r\nhello",
            200,
            "hello",
        ),
        ("HTTP/1.1 302 Moved\r\nLocation: /x", 302, ""),
        ("<html>hello</html>", 200, "<html>hello</html>"),
    ] {
        let origin = Origin::answering(answer).await;
        let client = client_of(origin.address);
        let response = client.fetch(get_with("Mozilla/5.0"), LOCAL).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{answer}");
        assert_eq!(text(response).await.unwrap(), body, "{answer}");
    }
}

fn get_with(user_agent: &str) -> Request<Empty<Bytes>> {
    let request = Request::get("http://site.test/").header("user-agent", user_agent);
    request.body(Empty::new()).unwrap()
}

#[tokio::test]
async fn chunks_in_http_1_0_are_decoded_for_programs() {
    let answer = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for (user_agent, expected) in [
        ("curl/8.5.0", "hello"),
        ("Mozilla/5.0", "5\r\nhello\r\n0\r\n\r\n"),
    ] {
        let origin = Origin::answering(answer).await;
        let client = client_of(origin.address);
        let response = client.fetch(get_with(user_agent), LOCAL).await.unwrap();
        assert_eq!(text(response).await.unwrap(), expected, "{user_agent}");
    }
}

#[tokio::test]
async fn a_response_that_was_not_strict_ends_its_connection() {
    let origin = Origin::start(|_, mut stream| async move {
        while read_head(&mut stream).await.is_some() {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    })
    .await;
    let client = client_of(origin.address);
    for connections in 1..=3 {
        let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
        assert_eq!(text(response).await.unwrap(), "ok");
        assert_eq!(origin.connections(), connections);
    }
}

#[tokio::test]
async fn bytes_behind_a_response_never_answer_the_next_request() {
    for behind in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", "junk", "\r\n"] {
        let origin = Origin::start(move |number, mut stream| async move {
            while read_head(&mut stream).await.is_some() {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}{behind}");
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
        .await;
        let client = client_of(origin.address);
        for number in 0..3 {
            let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
            assert_eq!(text(response).await.unwrap(), number.to_string(), "{behind:?}");
        }
    }
}

#[tokio::test]
async fn head_responses_and_statuses_without_body_keep_the_connection() {
    let origin = Origin::start(|_, mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let answer = match head.split(' ').nth(1) {
                Some("/304") => "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
                Some("/204") => "HTTP/1.1 204 No Content\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let client = client_of(origin.address);
    for path in ["/304", "/204", "/head"] {
        let method = if path == "/head" { "HEAD" } else { "GET" };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://site.test{path}"));
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = client.fetch(request, LOCAL).await.unwrap();
        assert_eq!(text(response).await.unwrap(), "");
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_early_answer_to_an_upload_is_complete() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let _ = stream
            .write_all(b"HTTP/1.1 413 Too Large\nContent-Length: 3\n\nbig")
            .await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    })
    .await;
    let request = Request::post("http://site.test/")
        .body(Full::new(Bytes::from(vec![0; 5000])))
        .unwrap();
    let response = client_of(origin.address).fetch(request, LOCAL).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(text(response).await.unwrap(), "big");
}

#[tokio::test]
async fn trailers_that_are_well_formed_arrive() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum : 7\r\nno colon\r\nContent-Length: 1\r\n\r\n",
    )
    .await;
    let response = client_of(origin.address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().unwrap();
    assert_eq!(
        (trailers.len(), &trailers["x-sum"]),
        (1, &http::HeaderValue::from_static("7"))
    );
    assert_eq!(body.to_bytes(), "ok");
}

#[tokio::test]
async fn a_body_that_is_cut_is_not_complete() {
    for answer in [
        "HTTP/1.1 200 OK\nContent-Length: 10\n\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\n0\n",
    ] {
        let origin = Origin::answering(answer).await;
        let response = client_of(origin.address)
            .fetch(get("http://site.test/"), LOCAL)
            .await
            .unwrap();
        assert_eq!(text(response).await, Err(BodyError::Truncated), "{answer}");
    }
}

/// Many servers end TCP without ending TLS before it.
#[tokio::test]
async fn the_end_of_tcp_ends_a_body_without_length_over_tls() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\nhello", Ok("hello")),
        ("HTTP/1.1 302 Moved\r\nLocation: /x\r\n\r\n", Ok("")),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            Err(BodyError::Truncated),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            Err(BodyError::Truncated),
        ),
    ] {
        let authority = Authority::new();
        let server = authority.server("site.test", Validity::Now, &["http/1.1"]);
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let origin = Origin::start(move |_, stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await.unwrap();
                let _read = stream.read(&mut [0; 1000]).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                stream.get_mut().0.shutdown().await.unwrap();
            }
        })
        .await;
        let client = OriginClient::new(OriginConfig {
            extra_ca: vec![authority.pem()],
            ..config_of(origin.address)
        });
        let response = client
            .unwrap()
            .fetch(get("https://site.test/"), LOCAL)
            .await
            .unwrap();
        assert_eq!(text(response).await, expected.map(str::to_owned), "{answer}");
    }
}
