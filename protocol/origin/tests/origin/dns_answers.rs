//! Odd names, and odd answers of name servers from which browsers load pages.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hickory_resolver::proto::{
    op::{Message, ResponseCode},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME},
    },
};
use longhaul_origin::{DnsServers, FetchError, OriginClient, OriginConfig};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, UdpSocket},
    task::JoinSet,
};

use crate::rig::{LOCAL, Origin, get, guard, text};

const CLOSING: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

/// A question: name in lower case without the final dot, type, and whether it came over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    name: String,
    kind: RecordType,
    over_tcp: bool,
}

/// Fills the answer of a question; `None`: no answer.
type Script = dyn Fn(&Question, Message) -> Option<Message> + Send + Sync;

/// Name server on UDP and TCP that answers as a script says.
struct ScriptedServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
    _tasks: JoinSet<()>,
}

impl ScriptedServer {
    async fn start(script: impl Fn(&Question, Message) -> Option<Message> + Send + Sync + 'static) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let udp = UdpSocket::bind(address).await.unwrap();
        let asked = Arc::<Mutex<Vec<Question>>>::default();
        let script: Arc<Script> = Arc::new(script);
        let mut tasks = JoinSet::new();
        let (told, by) = (Arc::clone(&asked), Arc::clone(&script));
        tasks.spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut packet).await {
                if let Some(reply) = reply(&packet[..length], false, &told, &*by) {
                    let _ = udp.send_to(&reply, from).await;
                }
            }
        });
        let told = Arc::clone(&asked);
        tasks.spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let mut packet = vec![0; stream.read_u16().await.unwrap().into()];
                stream.read_exact(&mut packet).await.unwrap();
                if let Some(reply) = reply(&packet, true, &told, &*script) {
                    stream.write_u16(reply.len().try_into().unwrap()).await.unwrap();
                    stream.write_all(&reply).await.unwrap();
                }
            }
        });
        Self {
            address,
            asked,
            _tasks: tasks,
        }
    }

    fn client(&self) -> OriginClient {
        client_of(&[self])
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.asked.lock().iter().map(|asked| asked.name.clone()).collect();
        names.dedup();
        names
    }
}

fn client_of(servers: &[&ScriptedServer]) -> OriginClient {
    OriginClient::new(OriginConfig {
        dns: DnsServers::Explicit(servers.iter().map(|server| server.address).collect()),
        guard: guard(&["127.0.0.0/8"]),
        ..OriginConfig::default()
    })
    .unwrap()
}

fn reply(packet: &[u8], over_tcp: bool, asked: &Mutex<Vec<Question>>, script: &Script) -> Option<Vec<u8>> {
    let query = Message::from_vec(packet).unwrap();
    let first = query.queries.first().unwrap();
    let question = Question {
        name: written(first.name()),
        kind: first.query_type(),
        over_tcp,
    };
    asked.lock().push(question.clone());
    let mut message = Message::response(query.id, query.op_code);
    message.add_query(first.clone());
    message.metadata.recursion_available = true;
    script(&question, message).map(|message| message.to_vec().unwrap())
}

/// A name as it is, in lower case: the library would escape some of its characters.
fn written(name: &Name) -> String {
    let labels = name
        .iter()
        .map(|label| String::from_utf8_lossy(label).to_lowercase());
    labels.collect::<Vec<_>>().join(".")
}

fn name(text: &str) -> Name {
    Name::from_labels(text.split('.').map(str::as_bytes)).unwrap()
}

fn address(owner: &str, address: &str) -> Record {
    let data = match address.parse().unwrap() {
        IpAddr::V4(v4) => RData::A(A(v4)),
        IpAddr::V6(v6) => RData::AAAA(AAAA(v6)),
    };
    Record::from_rdata(name(owner), 60, data)
}

fn alias(owner: &str, target: &str) -> Record {
    Record::from_rdata(name(owner), 60, RData::CNAME(CNAME(name(target))))
}

fn with(mut message: Message, records: impl IntoIterator<Item = Record>) -> Option<Message> {
    message.add_answers(records);
    Some(message)
}

fn code(mut message: Message, code: ResponseCode) -> Option<Message> {
    message.metadata.response_code = code;
    Some(message)
}

/// Loads a page, and connects as a tunnel and as datagrams do.
async fn loads(client: &OriginClient, host: &str, origin: &Origin) -> Result<(), FetchError> {
    let port = origin.address.port();
    let response = client
        .fetch(get(&format!("http://{host}:{port}/")), LOCAL)
        .await?;
    assert_eq!(text(response).await.unwrap(), "ok", "{host}");
    client.connect_tcp(host, port, LOCAL).await?;
    client.datagram_addresses(host, port, LOCAL).await?;
    Ok(())
}

#[tokio::test]
async fn names_that_browsers_look_up_are_looked_up() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(|question, message| {
        let found = (question.kind == RecordType::A).then(|| address(&question.name, "127.0.0.1"));
        with(message, found)
    })
    .await;
    let client = server.client();
    let long = format!("{0}.{0}.{0}.{1}.test", "x".repeat(60), "y".repeat(62));
    let names = [
        "my_bucket.store.test",
        "_dmarc.x.test",
        "-a.test",
        "a-.test",
        "a_.test",
        "xn--a.test",
        "xn--.test",
        "xn--zn7c.test",
        "xn--bcher-kva.test",
        "r3---sn-x.test",
        "1.2.3.test",
        "a_b",
        &format!("{}.test", "x".repeat(63)),
        &long,
    ];
    for host in names {
        loads(&client, host, &origin)
            .await
            .unwrap_or_else(|error| panic!("{host}: {error}"));
    }
    assert_eq!(server.names(), names);
    loads(&client, "UPPER.My_Bucket.TEST.", &origin).await.unwrap();
    assert_eq!(server.names().last().unwrap(), "upper.my_bucket.test");
    // What browsers do not ask for.
    let asked = server.asked.lock().len();
    for host in ["a!b.test", "a~b.test", "a$b.test", "*.test", "a,b.test"] {
        assert_eq!(
            loads(&client, host, &origin).await,
            Err(FetchError::DnsNotFound),
            "{host}"
        );
    }
    for host in ["a..b.test", ".a.test", "a.test.."] {
        let error = loads(&client, host, &origin).await.unwrap_err();
        assert!(matches!(error, FetchError::BadUrl(_)), "{host}: {error}");
    }
    assert_eq!(server.asked.lock().len(), asked);
}

#[tokio::test]
async fn chains_of_aliases_are_followed() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(
        |question, message| match (question.name.as_str(), question.kind) {
            ("whole.test", RecordType::A) => with(
                message,
                [
                    alias("whole.test", "b_b.test"),
                    alias("b_b.test", "-c.cdn.test"),
                    address("-c.cdn.test", "127.0.0.1"),
                ],
            ),
            // The records in another order.
            ("mixed.test", RecordType::A) => with(
                message,
                [
                    address("c.test", "127.0.0.1"),
                    alias("b.test", "c.test"),
                    alias("mixed.test", "b.test"),
                ],
            ),
            // Only the first alias: the resolver asks on.
            ("part.test", _) => with(message, [alias("part.test", "next.test")]),
            ("next.test", _) => with(message, [alias("next.test", "end.test")]),
            ("b.test", RecordType::A) => with(
                message,
                [alias("b.test", "c.test"), address("c.test", "127.0.0.1")],
            ),
            ("end.test" | "c.test", RecordType::A) => {
                let name = question.name.clone();
                with(message, [address(&name, "127.0.0.1")])
            }
            // Servers of load balancers say that the name does not exist if they know no IPv6 address.
            (_, RecordType::AAAA) => code(message, ResponseCode::NXDomain),
            ("nowhere.test", _) => {
                let message = with(message, [alias("nowhere.test", "gone.test")]).unwrap();
                code(message, ResponseCode::NXDomain)
            }
            ("circle.test", _) => with(message, [alias("circle.test", "circle.test")]),
            _ => code(message, ResponseCode::NXDomain),
        },
    )
    .await;
    let client = server.client();
    for host in ["whole.test", "mixed.test", "part.test"] {
        loads(&client, host, &origin)
            .await
            .unwrap_or_else(|error| panic!("{host}: {error}"));
    }
    for host in ["nowhere.test", "circle.test"] {
        assert_eq!(
            loads(&client, host, &origin).await,
            Err(FetchError::DnsNotFound),
            "{host}"
        );
    }
}

#[tokio::test]
async fn one_family_that_fails_does_not_hide_the_other() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(|question, message| {
        let (how, kind) = (question.name.as_str(), question.kind);
        let good = match how {
            "a-silent.test" => RecordType::AAAA,
            _ => RecordType::A,
        };
        if kind == good {
            let found = if kind == RecordType::A {
                "127.0.0.1"
            } else {
                "::ffff:127.0.0.1"
            };
            return with(message, [address(how, found)]);
        }
        match how {
            "servfail.test" => code(message, ResponseCode::ServFail),
            "refused.test" => code(message, ResponseCode::Refused),
            "formerr.test" => code(message, ResponseCode::FormErr),
            "notimp.test" => code(message, ResponseCode::NotImp),
            "nxdomain.test" => code(message, ResponseCode::NXDomain),
            "empty.test" => Some(message),
            _ => None,
        }
    })
    .await;
    let client = server.client();
    for host in [
        "servfail.test",
        "refused.test",
        "formerr.test",
        "notimp.test",
        "nxdomain.test",
        "empty.test",
        "aaaa-silent.test",
        "a-silent.test",
    ] {
        loads(&client, host, &origin)
            .await
            .unwrap_or_else(|error| panic!("{host}: {error}"));
    }
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_over_tcp() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(|question, mut message| {
        message.metadata.truncation = !question.over_tcp;
        let found = (question.kind == RecordType::A && question.over_tcp)
            .then(|| address(&question.name, "127.0.0.1"));
        with(message, found)
    })
    .await;
    loads(&server.client(), "large.test", &origin).await.unwrap();
}

#[tokio::test]
async fn records_of_other_names_and_other_spellings_do_no_harm() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(|question, mut message| {
        if question.kind != RecordType::A {
            return Some(message);
        }
        if question.name == "spelled.test" {
            message.queries.clear();
            let spelled = Name::from_ascii("sPeLLed.TEST.").unwrap();
            message.add_query(hickory_resolver::proto::op::Query::query(spelled, RecordType::A));
            return with(message, [address("SPELLED.test", "127.0.0.1")]);
        }
        // An address of another name, which nothing listens to.
        with(
            message,
            [
                address("other.test", "127.0.0.99"),
                address(&question.name, "127.0.0.1"),
            ],
        )
    })
    .await;
    let client = server.client();
    loads(&client, "spelled.test", &origin).await.unwrap();
    loads(&client, "mine.test", &origin).await.unwrap();
    let found = client.addresses("mine.test", 80, LOCAL).await.unwrap();
    assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
}

#[tokio::test]
async fn another_server_answers_for_a_lame_one() {
    let origin = Origin::answering(CLOSING).await;
    for lame in [
        ResponseCode::ServFail,
        ResponseCode::Refused,
        ResponseCode::NotImp,
    ] {
        let first = ScriptedServer::start(move |_, message| code(message, lame)).await;
        let second = ScriptedServer::start(|question, message| {
            let found = (question.kind == RecordType::A).then(|| address(&question.name, "127.0.0.1"));
            with(message, found)
        })
        .await;
        let client = client_of(&[&first, &second]);
        loads(&client, "site.test", &origin)
            .await
            .unwrap_or_else(|error| panic!("{lame}: {error}"));
    }
}

#[tokio::test]
async fn the_last_of_many_addresses_is_tried() {
    let origin = Origin::answering(CLOSING).await;
    let server = ScriptedServer::start(|question, message| {
        if question.kind != RecordType::A {
            return Some(message);
        }
        // The origin listens on 127.0.0.1 alone.
        let hosts = (2..26).chain([1]);
        let found: Vec<Record> = hosts
            .map(|last| address(&question.name, &format!("127.0.0.{last}")))
            .collect();
        with(message, found)
    })
    .await;
    let client = server.client();
    let loaded = loads(&client, "many.test", &origin);
    tokio::time::timeout(Duration::from_secs(10), loaded)
        .await
        .unwrap()
        .unwrap();
}
