//! What the name server answers, and whom.
use longhaul_gateway_core::config::settings;

use std::net::Ipv4Addr;

use super::{
    super::tests::{LOCAL, Proxy},
    *,
};

fn server() -> (Proxy, NameServer) {
    let proxy = Proxy::new(|flags| {
        flags
            .with(&settings::DNS_LISTEN, "127.0.0.1:0")
            .with(&settings::DNS_NAMES, "site.test,*.boosted.test")
            .with(&settings::DNS_ADDRESSES, "192.0.2.1,192.0.2.2,2001:db8::1")
    });
    let server = NameServer {
        shared: Arc::clone(&proxy.shared),
        questions: Connections::of_questions(),
        connections: Connections::of_name_server(),
    };
    (proxy, server)
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

#[tokio::test]
async fn names_lead_to_the_addresses_of_the_gateway_and_not_around_it() {
    let (_proxy, server) = server();
    let addresses = |kind| {
        let reply = server.boosted(&name("site.test."), kind)?;
        assert_eq!(reply.code, ResponseCode::NoError);
        // Without addresses, the client learns for how long there are none.
        assert_eq!(reply.authority.is_some(), reply.answers.is_empty());
        Some(
            reply
                .answers
                .iter()
                .map(|record| record.data.to_string())
                .collect::<Vec<_>>(),
        )
    };
    let found = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    assert_eq!(addresses(RecordType::A), found(&["192.0.2.1", "192.0.2.2"]));
    assert_eq!(addresses(RecordType::AAAA), found(&["2001:db8::1"]));
    assert_eq!(addresses(RecordType::HTTPS), found(&[]));
    assert_eq!(addresses(RecordType::SVCB), found(&[]));
    // Types of records that browsers do not ask for.
    for kind in [RecordType::MX, RecordType::TXT, RecordType::NS] {
        assert_eq!(addresses(kind), None, "{kind}");
    }
}

#[tokio::test]
async fn a_question_for_a_boosted_name_is_answered_without_asking_anybody() {
    let (_proxy, server) = server();
    for (host, count) in [("site.test", 2), ("a.boosted.test", 2), ("A.Boosted.TEST", 2)] {
        let question = DnsQuestion::parse(&question_for(host).unwrap()).unwrap();
        let reply = server.answer(LOCAL, &question).await;
        assert_eq!(reply.answers.len(), count, "{host}");
    }
}

#[tokio::test]
async fn only_clients_that_ask_for_few_names_are_answered() {
    let (_proxy, server) = server();
    assert!(!server.admits([192, 0, 2, 7].into()), "in no allowed network");
    // On a busy machine these questions take some time, in which the client may ask further ones.
    let asked = (0..100_000).take_while(|_| server.admits(LOCAL)).count();
    assert!((64..100_000).contains(&asked), "{asked}");
    assert!(server.admits(Ipv4Addr::new(127, 0, 0, 2).into()));
}

#[tokio::test]
async fn a_port_that_one_transport_has_not_is_not_opened() {
    let free = DnsPorts::open("127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert_eq!(free.udp.local_addr().unwrap(), free.local_addr());
    assert_eq!(free.tcp.local_addr().unwrap(), free.local_addr());
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let used = DnsPorts::open(other.local_addr().unwrap()).await;
    assert_eq!(used.unwrap_err().kind(), ErrorKind::AddrInUse);
    // An address of another machine.
    let elsewhere = DnsPorts::open("192.0.2.1:0".parse().unwrap()).await;
    assert_eq!(elsewhere.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
}
