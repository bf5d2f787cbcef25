//! Sharing of connections between owners, with real origins.

use std::time::Duration;

use crate::rig::{Origin, client_of, config_of, get, read_head, text};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use longhaul_origin::{ConnectionOwner, FetchError, Limits, OriginClient, OriginConfig};
use longhaul_types::PublicKey;
use tokio::{io::AsyncWriteExt as _, time::timeout};

const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

/// Starts an origin that never reads a body, and answers with the connection's number and the request's path.
/// The origin parses a body as the next request.
async fn careless() -> Origin {
    Origin::start(|number, mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let path = head.split(' ').nth(1).unwrap_or_default();
            let answer = format!("{number} {path}");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            if stream.write_all((head + &answer).as_bytes()).await.is_err() {
                return;
            }
        }
    })
    .await
}

fn request(method: Method, path: &str, fields: &[(&str, &str)], body: &str) -> Request<Full<Bytes>> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://site.test{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Full::from(body.to_owned())).unwrap()
}

async fn ask(client: &OriginClient, owner: ConnectionOwner, request: Request<Full<Bytes>>) -> String {
    text(client.fetch(request, owner).await.unwrap()).await.unwrap()
}

async fn plain(client: &OriginClient, owner: ConnectionOwner, path: &str) -> String {
    ask(client, owner, request(Method::GET, path, &[], "")).await
}

#[tokio::test]
async fn a_smuggled_response_never_reaches_another_device() {
    const SMUGGLED: &str = "GET /evil HTTP/1.1\r\nHost: site.test\r\n\r\n";
    for (method, fields) in [
        (Method::POST, &[][..]),
        (Method::GET, &[]),
        (Method::PUT, &[("cookie", "a=1")]),
        (
            Method::POST,
            &[
                ("origin", "http://evil.test"),
                ("cookie", "b=2"),
                ("referer", "http://evil.test/"),
            ],
        ),
    ] {
        let origin = careless().await;
        let client = client_of(origin.address);
        let victim = [("cookie", "b=2"), ("referer", "http://site.test/")];
        for round in 0..5 {
            let first = ask(&client, ANNA, request(method.clone(), "/first", fields, SMUGGLED)).await;
            assert!(first.ends_with("/first"), "{method} {round}: {first}");
            // Requests of the other device, with and without credentials, and of the same device: from the
            // site's own page, and from the page that sent the body.
            let follower = [("cookie", "b=2"), ("referer", "http://evil.test/")];
            for (owner, fields) in [
                (BERT, &[][..]),
                (BERT, &victim),
                (ANNA, &victim),
                (ANNA, &follower),
            ] {
                let seen = ask(&client, owner, request(Method::GET, "/mine", fields, "")).await;
                assert!(seen.ends_with("/mine"), "{method} {round}: {seen}");
            }
        }
    }
}

#[tokio::test]
async fn a_claimed_connection_is_never_shared_with_another_device() {
    for field in [
        ("cookie", "a=1"),
        ("authorization", "Basic eA=="),
        ("x-device", "1"),
    ] {
        let origin = careless().await;
        let client = client_of(origin.address);
        let own = ask(&client, ANNA, request(Method::GET, "/", &[field], "")).await;
        assert_eq!(own, "0 /");
        assert_eq!(plain(&client, BERT, "/").await, "1 /", "{field:?}");
        // Without credentials the device also uses its own connection.
        assert_eq!(plain(&client, ANNA, "/").await, "0 /");
        // Bert's unclaimed connection serves any owner, and then belongs to the owner of the private request.
        let client_of_both = ask(&client, BERT, request(Method::GET, "/", &[field], "")).await;
        assert_eq!(client_of_both, "1 /");
        assert_eq!(origin.connections(), 2);
    }
}

#[tokio::test]
async fn a_connection_of_http1_serves_one_device() {
    let origin = careless().await;
    let client = client_of(origin.address);
    for owner in [ANNA, BERT, ANNA, BERT] {
        let fields = [("user-agent", "Browser/1.0"), ("accept-language", "de")];
        ask(&client, owner, request(Method::GET, "/", &fields, "")).await;
    }
    assert_eq!(origin.connections(), 2);
}

/// First visit of a page: requests without cookies and then with cookies use one connection in sequence.
#[tokio::test]
async fn a_device_needs_no_more_connections_than_before() {
    let origin = careless().await;
    let client = client_of(origin.address);
    plain(&client, ANNA, "/").await;
    for _ in 0..3 {
        ask(
            &client,
            ANNA,
            request(Method::GET, "/a", &[("cookie", "a=1")], ""),
        )
        .await;
        plain(&client, ANNA, "/b").await;
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_event_stream_takes_no_slot_of_its_host() {
    let origin = Origin::start(|_, mut stream| async move {
        while let Some(head) = read_head(&mut stream).await {
            let answer = if head.contains("/events") {
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\ndata: 1\n\n"
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let limits = Limits {
        connections_per_host: 1,
        reserved_per_host: 1,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.fetch(get("http://site.test/events"), ANNA).await.unwrap());
    }
    for owner in [ANNA, BERT] {
        assert_eq!(plain(&client, owner, "/").await, "ok");
    }
}

/// Idle connections of one device do not prevent others from connecting, and the number of a device's
/// connections is bounded.
#[tokio::test]
async fn idle_connections_are_closed_for_new_ones() {
    let first = careless().await;
    let limits = Limits {
        connections: 4,
        connections_per_device: 3,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(first.address)
    })
    .unwrap();
    for host in 0..8 {
        let url = format!("http://h{host}.test/");
        for owner in [ANNA, BERT] {
            let request = Request::get(&url).header("cookie", "a=1");
            let response = client.fetch(request.body(Full::<Bytes>::default()).unwrap(), owner);
            text(response.await.unwrap()).await.unwrap();
        }
    }
    assert_eq!(first.connections(), 16);
}

/// A client that changes its address inside its network gets no more connections.
#[tokio::test]
async fn the_clients_of_a_network_share_its_number_of_connections() {
    let origin = careless().await;
    let limits = Limits {
        connections_per_device: 3,
        ..Limits::default()
    };
    let client = OriginClient::new(OriginConfig {
        limits,
        ..config_of(origin.address)
    })
    .unwrap();
    let member = |client: u8, network: u8| ConnectionOwner::OfNetwork {
        client: PublicKey::from_bytes([client; 32]),
        network: PublicKey::from_bytes([network; 32]),
    };
    let tunnel = |owner| timeout(Duration::from_secs(1), client.connect_tcp("site.test", 80, owner));
    let mut open = Vec::new();
    for number in 0..3 {
        open.push(tunnel(member(number, 9)).await.unwrap().unwrap());
    }
    assert!(
        tunnel(member(3, 9)).await.is_err(),
        "the fourth of the network waits"
    );
    assert!(tunnel(member(4, 8)).await.is_ok(), "another network");
    open.clear();
    assert!(tunnel(member(3, 9)).await.is_ok());
}

#[tokio::test]
async fn unsupported_content_codings_are_refused() {
    for coding in ["gzip, chunked", "chunked, chunked", "gzip"] {
        let answer = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        let origin = Origin::answering(answer).await;
        let refused = client_of(origin.address)
            .fetch(get("http://site.test/"), ANNA)
            .await;
        assert_eq!(refused.unwrap_err(), FetchError::Protocol, "{coding}");
    }
}
