//! The name server for clients without an agent, which leads names to the gateway.
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use longhaul_chromium::{Browser, BrowserOptions, LoadOptions, Names};
use longhaul_hosting::{HostAddresses, NameServer};
use longhaul_tests::{authority::TestAuthority, origin::Origin};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    network::{Net, RouterGateway, ip, visit},
    transparent::origin_at,
};
use crate::pair::LIMIT;

const CONFIG: &str = r#"
[clientless]
transparent = ["[::]:3130"]
allow = ["10.92.0.0/24", "fd92::/64"]
[dns]
listen = "10.92.0.1:53"
names = ["site.test", "*.boosted.test"]
[fetch]
dns = ["11.92.0.2:53"]
[guard]
allow = ["10.79.0.0/16"]
"#;
const SERVER: &str = "10.92.0.1:53";
/// Addresses that the name server of the web has for its hosts, in the order of their names.
const OTHER: &str = "10.79.0.1";
const SITE: &str = "10.79.0.2";
const A: u16 = 1;
const MX: u16 = 15;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;
const ANY: u16 = 255;

struct Setup {
    net: Arc<Net>,
    gateway: RouterGateway,
    authority: TestAuthority,
    site: Origin,
    secure: Origin,
    other: Origin,
    _names: NameServer,
}

impl Setup {
    async fn start() -> Result<Option<Self>> {
        let Some(net) = Net::build()? else { return Ok(None) };
        net.web.run_blocking(|| -> Result<()> {
            ip(&format!("address add {OTHER}/16 dev hosts"))?;
            ip(&format!("address add {SITE}/16 dev hosts"))
        })?;
        net.router
            .run_blocking(|| ip("route add 10.79.0.0/16 via 11.92.0.2"))?;
        let hosts = HostAddresses::assign(["site.test", "other.test"])?;
        let names = net.web.run(move || async move {
            NameServer::start(([11, 92, 0, 2], 53).into(), &hosts, Duration::from_secs(60)).await
        });
        let names = names.await?;
        let authority = TestAuthority::new()?;
        let tls = authority.server(&["site.test"])?;
        let site = origin_at(&net, SITE, 80, None, "site").await?;
        let secure = origin_at(&net, SITE, 443, Some(tls), "site").await?;
        let other = origin_at(&net, OTHER, 80, None, "other").await?;
        let gateway = RouterGateway::start(&net, CONFIG).await?;
        std::fs::write(gateway.folder.path().join("ca.pem"), authority.pem())?;
        std::fs::write(
            gateway.folder.path().join("resolv.conf"),
            "nameserver 10.92.0.1\n",
        )?;
        let rules = gateway.redirect(&net).await?;
        ensure!(
            rules.contains("ip daddr 10.92.0.1 tcp dport { 80, 443 } redirect to :3130"),
            "{rules}"
        );
        Ok(Some(Self {
            net,
            gateway,
            authority,
            site,
            secure,
            other,
            _names: names,
        }))
    }

    fn folder(&self) -> &Path {
        self.gateway.folder.path()
    }

    /// Runs curl on the visitor's computer, whose system asks the gateway for names.
    async fn curl(&self, url: &str) -> Result<String> {
        const WITH_RESOLVER: &str = "mount --bind \"$0\" /etc/resolv.conf && exec curl \"$@\"";
        let [resolver, authority] =
            ["resolv.conf", "ca.pem"].map(|name| self.folder().join(name).display().to_string());
        let arguments = [
            "--mount",
            "sh",
            "-c",
            WITH_RESOLVER,
            &resolver,
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "60",
            "--cacert",
            &authority,
            url,
        ];
        let done = visit(&self.net, "unshare", &arguments).await?;
        ensure!(
            done.status.success(),
            "{url}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        Ok(String::from_utf8(done.stdout)?)
    }

    /// A socket of the visitor.
    fn socket(&self, address: &'static str) -> Result<Arc<UdpSocket>> {
        let made = self.net.visitor.run_blocking(move || -> io::Result<_> {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(LIMIT))?;
            socket.connect(SERVER)?;
            Ok(socket)
        });
        Ok(Arc::new(made?))
    }
}

/// A question of DNS.
fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    // Recursion is desired; one question.
    let mut message = [&id.to_be_bytes()[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).expect("a label"));
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    message
}

/// What the tests look at in an answer.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    code: u8,
    is_cut: bool,
    answers: u16,
    /// The bytes behind the question.
    rest: Vec<u8>,
}

fn answer(question: &[u8], message: &[u8]) -> Result<Answer> {
    ensure!(message.len() >= question.len(), "{message:?}");
    ensure!(
        message[..2] == question[..2] && message[2] & 0x80 != 0,
        "{message:?}"
    );
    Ok(Answer {
        code: message[3] & 15,
        is_cut: message[2] & 2 != 0,
        answers: u16::from_be_bytes([message[6], message[7]]),
        rest: message[question.len()..].to_vec(),
    })
}

/// Asks over UDP; an answer is at most twice as long as its question.
fn ask(socket: &UdpSocket, name: &str, kind: u16) -> Result<Answer> {
    let question = question(7, name, kind);
    socket.send(&question)?;
    let mut message = [0; 2000];
    let length = socket.recv(&mut message)?;
    ensure!(
        length <= 2 * question.len(),
        "{length} bytes for {}",
        question.len()
    );
    answer(&question, &message[..length])
}

async fn ask_over_tcp(name: &'static str, kind: u16) -> Result<Answer> {
    let mut stream = TcpStream::connect(SERVER).await?;
    let question = question(9, name, kind);
    stream.write_u16(u16::try_from(question.len())?).await?;
    stream.write_all(&question).await?;
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    answer(&question, &message)
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_know_of_nothing_load_boosted_names_through_the_gateway() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    for _ in 0..2 {
        assert_eq!(setup.curl("http://site.test/a").await?, "/a at site");
    }
    let seen = setup.site.seen();
    assert_eq!(seen.len(), 1, "the second comes from the cache");
    assert!(seen[0].headers.contains_key("via"));
    assert_eq!(setup.curl("https://site.test/a").await?, "/a at site");
    assert_eq!(setup.secure.seen().len(), 1);
    // Other names do not lead to the gateway.
    assert_eq!(setup.curl("http://other.test/a").await?, "/a at other");
    assert!(!setup.other.seen()[0].headers.contains_key("via"));

    let mut options = BrowserOptions::direct(Names::fixed([("site.test", "10.92.0.1")]));
    options.trust_spki = vec![setup.authority.pin().to_owned()];
    let texts = setup.net.visitor.run(move || async move {
        let mut browser = Browser::start(&options).await?;
        let mut texts = Vec::new();
        for url in ["http://site.test/", "https://site.test/"] {
            texts.push(browser.load(url, &LoadOptions::within(LIMIT)).await?.text);
        }
        anyhow::Ok(texts)
    });
    for text in texts.await? {
        assert!(text.contains("said by the script"), "{text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_server_answers_its_clients_and_amplifies_nothing() -> Result<()> {
    let Some(setup) = Setup::start().await? else {
        return Ok(());
    };
    let socket = setup.socket("10.92.0.2:0")?;
    let inside = Arc::clone(&socket);
    tokio::task::spawn_blocking(move || -> Result<()> {
        for name in ["site.test", "SITE.test", "x.boosted.test"] {
            let found = ask(&inside, name, A)?;
            assert_eq!((found.code, found.answers), (0, 1), "{name}");
            // The time to live, the length, and the address.
            assert!(
                found.rest.ends_with(&[0, 0, 0, 60, 0, 4, 10, 92, 0, 1]),
                "{found:?}"
            );
        }
        for kind in [AAAA, HTTPS] {
            let found = ask(&inside, "site.test", kind)?;
            assert_eq!((found.code, found.answers), (0, 0), "{kind}");
        }
        let found = ask(&inside, "other.test", A)?;
        assert!(
            found.answers == 1 && found.rest.ends_with(&[10, 79, 0, 1]),
            "{found:?}"
        );
        for (name, kind, code) in [
            ("site.test", MX, 0),
            ("boosted.test", A, 3),
            ("no-such-name.test", A, 3),
            ("site.test", ANY, 5),
            ("other.test", ANY, 5),
        ] {
            let found = ask(&inside, name, kind)?;
            assert_eq!((found.code, found.answers), (code, 0), "{name} {kind}");
        }
        Ok(())
    })
    .await??;
    let found = setup.net.visitor.run(|| ask_over_tcp("site.test", A)).await?;
    assert_eq!((found.code, found.is_cut, found.answers), (0, false, 1));
    // Long answers come over TCP alone.
    let found = setup
        .net
        .visitor
        .run(|| ask_over_tcp("no-such-name.test", MX))
        .await?;
    assert_eq!(found.code, 3);

    // Senders outside of the networks, also with a forged address, get nothing.
    setup
        .net
        .visitor
        .run_blocking(|| ip("address add 10.93.0.2/24 dev wlan0"))?;
    setup
        .net
        .router
        .run_blocking(|| ip("address add 10.93.0.1/24 dev lan0"))?;
    let outside = setup.socket("10.93.0.2:0")?;
    let asked = Arc::clone(&outside);
    tokio::task::spawn_blocking(move || -> Result<()> {
        for id in 0..100 {
            asked.send(&question(id, "site.test", A))?;
            asked.send(&question(id, "site.test", ANY))?;
        }
        Ok(())
    })
    .await??;
    let connected = setup.net.visitor.run(|| async {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind("10.93.0.2:0".parse::<SocketAddr>().context("an address")?)?;
        let mut stream = socket.connect(SERVER.parse()?).await?;
        let _reset = stream.write_all(&[0, 0]).await;
        anyhow::Ok(stream.read_u16().await)
    });
    assert!(connected.await?.is_err(), "a client from outside got an answer");
    flood(&socket).await?;
    outside.set_nonblocking(true)?;
    let error = outside.recv(&mut [0; 2000]).expect_err("nothing comes");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    Ok(())
}

/// A flood of one client gets 64 answers and some a second, none longer than twice its question.
async fn flood(socket: &Arc<UdpSocket>) -> Result<()> {
    let socket = Arc::clone(socket);
    let flooding = move || -> Result<(usize, usize, usize)> {
        let (mut asked, mut answers, mut bytes) = (0, 0, 0);
        for id in 0..2000 {
            let question = question(id, "site.test", ANY);
            asked += question.len();
            socket.send(&question)?;
        }
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut message = [0; 2000];
        while let Ok(length) = socket.recv(&mut message) {
            answers += 1;
            bytes += length;
        }
        Ok((asked, answers, bytes))
    };
    let (asked, answers, bytes) = tokio::task::spawn_blocking(flooding).await??;
    println!("a flood of {asked} bytes got {answers} answers with {bytes} bytes");
    ensure!(
        answers < 1000 && bytes < asked,
        "{answers} answers, {bytes} bytes"
    );
    Ok(())
}
