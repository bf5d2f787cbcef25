use std::{net::Ipv4Addr, time::Duration};

use anyhow::Result;
use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RData, RecordType},
};
use longhaul_hosting::{HostAddresses, NameServer, QuestionCounts};
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use crate::client::{PATIENCE, loopback};

const TTL: Duration = Duration::from_secs(300);

async fn name_server() -> Result<NameServer> {
    let hosts = HostAddresses::assign(["b.example", "a.example", "under_score.example", "192.0.2.1"])?;
    Ok(NameServer::start(loopback(), &hosts, TTL).await?)
}

fn question(name: &str, kind: RecordType) -> Result<Message> {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name)?, kind));
    Ok(message)
}

struct Resolver(UdpSocket);

impl Resolver {
    async fn of(server: &NameServer) -> Result<Self> {
        let socket = UdpSocket::bind(loopback()).await?;
        socket.connect(server.address()).await?;
        Ok(Self(socket))
    }

    async fn ask(&self, question: &[u8]) -> Result<Message> {
        self.0.send(question).await?;
        let mut reply = vec![0; 4096];
        let length = timeout(PATIENCE, self.0.recv(&mut reply)).await??;
        Ok(Message::from_vec(&reply[..length])?)
    }
}

#[tokio::test]
async fn a_known_name_has_only_an_a_record() -> Result<()> {
    let server = name_server().await?;
    let resolver = Resolver::of(&server).await?;
    // Resolvers vary the case and require the same case in the answer.
    let asked = question("B.exaMPle.", RecordType::A)?;
    let reply = resolver.ask(&asked.to_vec()?).await?;
    assert_eq!(reply.metadata.id, 4711);
    assert!(reply.metadata.recursion_available && reply.metadata.recursion_desired);
    assert_eq!(reply.queries[0].name().to_ascii(), "B.exaMPle.");
    let [answer] = reply.answers.as_slice() else {
        panic!("{reply:?}")
    };
    assert_eq!(answer.data, RData::A(Ipv4Addr::new(10, 79, 0, 2).into()));
    assert_eq!(answer.ttl, 300);
    assert_eq!(reply.edns, None);
    let under_score = question("under_score.example.", RecordType::A)?;
    assert_eq!(resolver.ask(&under_score.to_vec()?).await?.answers.len(), 1);

    for kind in [
        RecordType::AAAA,
        RecordType::HTTPS,
        RecordType::SVCB,
        RecordType::TXT,
    ] {
        let reply = resolver.ask(&question("a.example.", kind)?.to_vec()?).await?;
        assert_eq!(reply.metadata.response_code, ResponseCode::NoError, "{kind}");
        assert!(reply.answers.is_empty(), "{kind}");
        assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
    }
    let expected = QuestionCounts {
        a: 2,
        aaaa: 1,
        service: 2,
        other: 1,
        ..QuestionCounts::default()
    };
    assert_eq!(server.questions(), expected);
    assert_eq!(server.questions().total(), 6);
    Ok(())
}

#[tokio::test]
async fn unknown_names_get_nxdomain() -> Result<()> {
    let server = name_server().await?;
    let resolver = Resolver::of(&server).await?;
    for name in ["update.example.", "192.0.2.1.", "example.", "."] {
        let mut asked = question(name, RecordType::A)?;
        asked.set_edns(Edns::new());
        let reply = resolver.ask(&asked.to_vec()?).await?;
        assert_eq!(reply.metadata.response_code, ResponseCode::NXDomain, "{name}");
        assert_eq!(reply.authorities[0].record_type(), RecordType::SOA);
        assert!(reply.edns.is_some(), "{name}");
    }
    assert_eq!(server.questions().unknown_names, 4);
    Ok(())
}

#[tokio::test]
async fn invalid_queries_get_an_error_code() -> Result<()> {
    let server = name_server().await?;
    let resolver = Resolver::of(&server).await?;
    let garbled = [
        &question("a.example.", RecordType::A)?.to_vec()?[..12],
        &[0xFF; 9],
    ]
    .concat();
    let reply = resolver.ask(&garbled).await?;
    assert_eq!(reply.metadata.response_code, ResponseCode::FormErr);
    let mut update = question("a.example.", RecordType::A)?;
    update.metadata.op_code = OpCode::Notify;
    let reply = resolver.ask(&update.to_vec()?).await?;
    assert_eq!(reply.metadata.response_code, ResponseCode::NotImp);
    let mut chaos = question("version.bind.", RecordType::TXT)?;
    chaos.queries[0].set_query_class(DNSClass::CH);
    let reply = resolver.ask(&chaos.to_vec()?).await?;
    assert_eq!(reply.metadata.response_code, ResponseCode::Refused);
    let mut two = question("a.example.", RecordType::A)?;
    two.add_query(two.queries[0].clone());
    let reply = resolver.ask(&two.to_vec()?).await?;
    assert_eq!(reply.metadata.response_code, ResponseCode::FormErr);
    // A response is not answered: the next answer is to the query after it.
    let mut response = question("a.example.", RecordType::A)?;
    response.metadata.message_type = MessageType::Response;
    resolver.0.send(&response.to_vec()?).await?;
    let reply = resolver
        .ask(&question("a.example.", RecordType::A)?.to_vec()?)
        .await?;
    assert_eq!(reply.answers.len(), 1);
    assert_eq!(server.questions().malformed, 5);
    Ok(())
}

#[tokio::test]
async fn several_queries_are_answered_on_one_tcp_connection() -> Result<()> {
    let server = name_server().await?;
    let mut stream = TcpStream::connect(server.address()).await?;
    let asked = question("a.example.", RecordType::A)?.to_vec()?;
    let framed = [&u16::try_from(asked.len())?.to_be_bytes(), asked.as_slice()].concat();
    stream.write_all(&framed.repeat(2)).await?;
    for _ in 0..2 {
        let length = timeout(PATIENCE, stream.read_u16()).await??;
        let mut reply = vec![0; usize::from(length)];
        stream.read_exact(&mut reply).await?;
        assert_eq!(Message::from_vec(&reply)?.answers.len(), 1);
    }
    assert_eq!(server.questions().tcp, 2);
    // A message that is too long for a query ends the connection.
    stream.write_all(&[0xFF; 2]).await?;
    let mut rest = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut rest)).await??;
    assert_eq!(rest, []);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_datagrams_do_not_stop_the_server(junk in proptest::collection::vec(any::<Vec<u8>>(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = name_server().await.unwrap();
            let resolver = Resolver::of(&server).await.unwrap();
            for datagram in &junk {
                resolver.0.send(datagram).await.unwrap();
            }
            let asked = question("a.example.", RecordType::A).unwrap().to_vec().unwrap();
            let mut reply = resolver.ask(&asked).await;
            // Replies to the random messages come first.
            for _ in &junk {
                if reply.as_ref().is_ok_and(|reply| !reply.answers.is_empty()) {
                    break;
                }
                let mut space = vec![0; 4096];
                let length = timeout(PATIENCE, resolver.0.recv(&mut space)).await.unwrap().unwrap();
                reply = Message::from_vec(&space[..length]).map_err(Into::into);
            }
            assert!(!reply.unwrap().answers.is_empty());
        });
    }
}
