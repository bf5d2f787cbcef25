//! Names, addresses and the guard, with a real name server on loopback.

use std::time::Duration;

use crate::rig::{DnsAnswer, LOCAL, NameServer, Origin, get, guard, read_head, text};
use longhaul_origin::{
    AddressClass, AddressReader, DnsFailure, DnsServers, Fault, FetchError, GuardRefusal, OriginClient,
    OriginConfig, ResolveMap, Timeouts,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CLOSING: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn asking(server: &NameServer, allow: &[&str]) -> OriginClient {
    OriginClient::new(OriginConfig {
        dns: DnsServers::Explicit(vec![server.address]),
        guard: guard(allow),
        ..OriginConfig::default()
    })
    .unwrap()
}

fn refused(address: &str, class: AddressClass) -> FetchError {
    FetchError::GuardRefused(GuardRefusal {
        address: address.parse().unwrap(),
        class,
    })
}

#[tokio::test]
async fn dns_answers_are_cached() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::of(300, &["127.0.0.1"])).await;
    let client = asking(&server, &["127.0.0.0/8"]);
    let url = format!("http://Site.TEST.:{}/", origin.address.port());
    for _ in 0..3 {
        assert_eq!(
            text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
            "ok"
        );
    }
    assert_eq!(server.questions("site.test"), 1);
    assert_eq!(client.stats().snapshot().dns_lookups, 3);
    assert_eq!(client.stats().snapshot().connections, 3);
}

#[tokio::test]
async fn dns_rebinding_does_not_pass_the_guard() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::of(0, &["127.0.0.1"])).await;
    // Only this address represents the public Internet here.
    let client = asking(&server, &["127.0.0.1/32"]);
    let url = format!("http://rebind.test:{}/", origin.address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
    for (address, class) in [
        ("127.0.0.2", AddressClass::Loopback),
        ("169.254.169.254", AddressClass::Metadata),
        ("10.0.0.1", AddressClass::Private),
        ("::1", AddressClass::Loopback),
        ("::ffff:169.254.169.254", AddressClass::Metadata),
        ("fd00:ec2::254", AddressClass::Metadata),
    ] {
        server.set(DnsAnswer::of(0, &[address]));
        let error = client.fetch(get(&url), LOCAL).await.unwrap_err();
        assert_eq!(error, refused(address, class));
        assert_eq!(error.fault(), Fault::Policy);
        let error = client
            .connect_tcp("rebind.test", origin.address.port(), LOCAL)
            .await
            .unwrap_err();
        assert_eq!(error, refused(address, class));
    }
    assert_eq!(origin.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_this_machine_got_later_is_refused_as_its_own() {
    // No address of a documentation range is reached, whatever the guard says.
    let own = "192.0.2.1";
    let client = OriginClient::new(OriginConfig {
        own_addresses: Some(AddressReader::new(move || Some(vec![own.parse().unwrap()]))),
        ..OriginConfig::default()
    })
    .unwrap();
    let error = client.connect_tcp(own, 80, LOCAL).await.unwrap_err();
    assert_eq!(error, refused(own, AddressClass::Documentation));
    tokio::time::advance(Duration::from_secs(2)).await;
    let error = client.connect_tcp(own, 80, LOCAL).await.unwrap_err();
    assert_eq!(error, refused(own, AddressClass::Own));
}

#[tokio::test]
async fn a_private_address_behind_a_nat64_prefix_of_the_network_is_refused() {
    // The name server of a network with NAT64 answers for `ipv4only.arpa`, and for every other name.
    let server = NameServer::start(DnsAnswer::of(60, &["2a00:1:2::192.0.0.170"])).await;
    let client = OriginClient::new(OriginConfig {
        dns: DnsServers::Explicit(vec![server.address]),
        looks_through_nat64: true,
        ..OriginConfig::default()
    })
    .unwrap();
    for (address, class) in [
        ("2a00:1:2::10.0.0.1", AddressClass::Private),
        ("2a00:1:2::169.254.169.254", AddressClass::Metadata),
        ("2a00:1:2::127.0.0.1", AddressClass::Loopback),
    ] {
        let url = format!("http://[{address}]/");
        let error = client.fetch(get(&url), LOCAL).await.unwrap_err();
        assert_eq!(error, refused(address, class));
        let error = client.connect_tcp(address, 80, LOCAL).await.unwrap_err();
        assert_eq!(error, refused(address, class));
    }
    // One question for all of them.
    assert_eq!(server.all_questions(), 1);
    // A name that leads there, such as one that the network made of a private IPv4 address.
    server.set(DnsAnswer::of(60, &["2a00:1:2::10.0.0.1"]));
    let error = client.fetch(get("http://inside.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, refused("2a00:1:2::10.0.0.1", AddressClass::Private));
}

#[tokio::test]
async fn only_the_permitted_addresses_of_a_name_are_tried() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::of(60, &["10.0.0.1", "::1", "127.0.0.1"])).await;
    let client = asking(&server, &["127.0.0.1/32"]);
    let url = format!("http://mixed.test:{}/", origin.address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_refuses() {
    let origin = Origin::answering(CLOSING).await;
    // Nothing listens on 127.0.0.9 at this port: the origin is bound to 127.0.0.1.
    let server = NameServer::start(DnsAnswer::of(60, &["127.0.0.9", "127.0.0.1"])).await;
    let client = asking(&server, &["127.0.0.0/8"]);
    let url = format!("http://two.test:{}/", origin.address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_is_silent() {
    let hole = tokio::net::TcpSocket::new_v4().unwrap();
    hole.bind("127.0.0.8:0".parse().unwrap()).unwrap();
    let hole = hole.listen(0).unwrap();
    let address = hole.local_addr().unwrap();
    let _filler = std::net::TcpStream::connect(address).unwrap();
    let good = tokio::net::TcpListener::bind(("127.0.0.1", address.port()))
        .await
        .unwrap();
    let task = tokio::spawn(async move {
        let (mut stream, _) = good.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(CLOSING.as_bytes()).await.unwrap();
    });
    let server = NameServer::start(DnsAnswer::of(60, &["127.0.0.8", "127.0.0.1"])).await;
    // The server determines the order of the records, and the resolver may change it: the fetch works in
    // either order.
    let client = asking(&server, &["127.0.0.0/8"]);
    let url = format!("http://two.test:{}/", address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
    task.await.unwrap();
}

#[tokio::test]
async fn failures_of_dns_are_distinguished() {
    let server = NameServer::start(DnsAnswer::Code(3)).await;
    let timeouts = Timeouts {
        dns: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let config = OriginConfig {
        dns: DnsServers::Explicit(vec![server.address]),
        timeouts,
        ..OriginConfig::default()
    };
    let client = OriginClient::new(config).unwrap();
    let error = client.fetch(get("http://none.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error.fault(), Fault::Origin);
    assert_eq!(error, FetchError::DnsNotFound);
    server.set(DnsAnswer::of(60, &[]));
    assert_eq!(
        client.fetch(get("http://empty.test/"), LOCAL).await.unwrap_err(),
        FetchError::DnsNotFound
    );
    server.set(DnsAnswer::Silence);
    let error = client.fetch(get("http://silent.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::DnsFailed(DnsFailure::Timeout));
    server.set(DnsAnswer::Code(2));
    let error = client.fetch(get("http://broken.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::DnsFailed(DnsFailure::Server));
}

#[tokio::test]
async fn a_burst_of_requests_makes_one_dns_lookup() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::of(0, &["127.0.0.1"])).await;
    let client = asking(&server, &["127.0.0.0/8"]);
    let url = format!("http://site.test:{}/", origin.address.port());
    let fetches: Vec<_> = (0..10)
        .map(|_| {
            let (client, url) = (client.clone(), url.clone());
            tokio::spawn(async move { text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap() })
        })
        .collect();
    for fetch in fetches {
        assert_eq!(fetch.await.unwrap(), "ok");
    }
    assert_eq!(server.questions("site.test"), 1);
}

#[tokio::test]
async fn every_spelling_of_a_forbidden_address_is_refused() {
    let server = NameServer::start(DnsAnswer::of(60, &["127.0.0.1"])).await;
    let client = asking(&server, &[]);
    for host in [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "025177524776",
        "0xa9.0xfe.43518",
        "169.254.169.254.",
        "0251.254.0xa9fe",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[fd00:ec2::254]",
    ] {
        let error = client
            .fetch(get(&format!("http://{host}/latest/meta-data/")), LOCAL)
            .await
            .unwrap_err();
        let FetchError::GuardRefused(refusal) = error else {
            panic!("{host}: {error}")
        };
        assert_eq!(refusal.class, AddressClass::Metadata, "{host}");
        let error = client.connect_tcp(host, 80, LOCAL).await.unwrap_err();
        assert!(matches!(error, FetchError::GuardRefused(_)), "{host}: {error}");
    }
    for host in [
        "127.1",
        "0",
        "[::]",
        "[::1]",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "0x7f000001",
        "100.64.1",
    ] {
        let error = client
            .fetch(get(&format!("https://{host}/")), LOCAL)
            .await
            .unwrap_err();
        assert!(matches!(error, FetchError::GuardRefused(_)), "{host}: {error}");
    }
    assert_eq!(server.all_questions(), 0);
}

#[tokio::test]
async fn localhost_is_loopback_without_dns() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::Code(3)).await;
    let client = asking(&server, &["127.0.0.0/8", "::1"]);
    let url = format!("http://app.localhost:{}/", origin.address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
    assert_eq!(server.all_questions(), 0);
}

#[tokio::test]
async fn configured_addresses_pass_the_guard() {
    let origin = Origin::answering(CLOSING).await;
    let client = OriginClient::new(OriginConfig {
        resolve: ResolveMap::parse([
            ("*.test", "127.0.0.1"),
            ("port.test:81", &origin.address.to_string()),
        ])
        .unwrap(),
        ..OriginConfig::default()
    })
    .unwrap();
    let url = format!("http://any.test:{}/", origin.address.port());
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
    assert_eq!(
        text(client.fetch(get("http://port.test:81/"), LOCAL).await.unwrap())
            .await
            .unwrap(),
        "ok"
    );
    let error = client.fetch(get("http://127.0.0.1/"), LOCAL).await.unwrap_err();
    assert_eq!(error, refused("127.0.0.1", AddressClass::Loopback));
}

#[tokio::test]
async fn tunnels_connect() {
    let origin = Origin::start(|_, mut stream| async move {
        stream.write_all(b"hello").await.unwrap();
    })
    .await;
    let client = crate::rig::client_of(origin.address);
    let mut stream = client.connect_tcp("site.test", 22, LOCAL).await.unwrap().stream;
    assert!(stream.nodelay().unwrap());
    let mut greeting = String::new();
    stream.read_to_string(&mut greeting).await.unwrap();
    assert_eq!(greeting, "hello");
    assert_eq!(client.stats().snapshot().connections, 1);
    assert!(matches!(
        client.connect_tcp("site.test", 0, LOCAL).await,
        Err(FetchError::BadUrl(_))
    ));
}

#[tokio::test]
async fn a_missing_name_server_is_reported() {
    // No server listens at this address: the query cannot be answered, which is a local failure.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let timeouts = Timeouts {
        dns: Duration::from_millis(300),
        ..Timeouts::default()
    };
    let config = OriginConfig {
        dns: DnsServers::Explicit(vec![address]),
        timeouts,
        ..OriginConfig::default()
    };
    let error = OriginClient::new(config)
        .unwrap()
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap_err();
    assert!(matches!(error, FetchError::DnsFailed(_)), "{error}");
    assert_eq!(error.fault(), Fault::Local);
}

#[tokio::test]
async fn an_abandoned_lookup_does_not_block_the_next() {
    let origin = Origin::answering(CLOSING).await;
    let server = NameServer::start(DnsAnswer::Silence).await;
    let client = asking(&server, &["127.0.0.0/8"]);
    let url = format!("http://site.test:{}/", origin.address.port());
    tokio::time::timeout(Duration::from_millis(100), client.fetch(get(&url), LOCAL))
        .await
        .unwrap_err();
    server.set(DnsAnswer::of(60, &["127.0.0.1"]));
    assert_eq!(
        text(client.fetch(get(&url), LOCAL).await.unwrap()).await.unwrap(),
        "ok"
    );
}
