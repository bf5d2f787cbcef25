//! Clients without a name that have many networks of IPv6: a /48 or /56 has the limits of some clients.
use std::{
    net::{Ipv6Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};

use super::network::{HOST_V4, INTERFACE, Net, RouterGateway, ip};
use crate::{
    operator::operate,
    pair::{LIMIT, folder},
};

const CONFIG: &str = r#"
[clientless]
listen = "[fd92::1]:3128"
allow = ["fd92::/48", "fd93::/48"]
[limits]
streams-per-device = 1
[fetch.resolve]
"site.test" = "11.92.0.2"
"#;
const PROXY: &str = "[fd92::1]:3128";
/// Shares of a /56, and tries of a password that a /64 has.
const SHARES: u16 = 16;
const TRIES: u16 = 5;

/// A host that answers only when it is told to.
struct Site {
    /// Requests that have arrived.
    arrived: watch::Receiver<usize>,
    answers: Arc<Semaphore>,
}

impl Site {
    async fn start(net: &Net) -> Result<Self> {
        let address = SocketAddr::new(HOST_V4.parse()?, 80);
        let (count, arrived) = watch::channel(0);
        let answers = Arc::new(Semaphore::new(0));
        let permits = Arc::clone(&answers);
        net.web
            .run(move || async move {
                let listener = TcpListener::bind(address).await?;
                tokio::spawn(async move {
                    while let Ok((stream, _)) = listener.accept().await {
                        tokio::spawn(answer(stream, count.clone(), Arc::clone(&permits)));
                    }
                });
                Ok::<_, std::io::Error>(())
            })
            .await?;
        Ok(Self { arrived, answers })
    }

    /// Waits until so many requests have arrived.
    async fn arrived(&mut self, count: usize) -> Result<()> {
        let arrived = timeout(LIMIT, self.arrived.wait_for(|arrived| *arrived >= count));
        let arrived = *arrived.await.with_context(|| format!("{count} requests"))??;
        ensure!(arrived == count, "{arrived} requests instead of {count}");
        Ok(())
    }
}

async fn answer(mut stream: TcpStream, count: watch::Sender<usize>, permits: Arc<Semaphore>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(stream.read_buf(&mut head).await? > 0, "a request is incomplete");
    }
    count.send_modify(|count| *count += 1);
    permits.acquire().await?.forget();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        .await?;
    Ok(())
}

/// An address of the visitor in a /64 of a /48.
fn visitor(first: u16, number: u16) -> Ipv6Addr {
    Ipv6Addr::from([first, 0, 0, number, 0, 0, 0, 2])
}

struct Setup {
    net: Arc<Net>,
    site: Site,
    /// Name and password of a client.
    anna: String,
    _gateway: RouterGateway,
}

/// A visitor that has these addresses, and the gateway; `None`, with a message, without privileges.
async fn start(addresses: Vec<Ipv6Addr>) -> Result<Option<Setup>> {
    let Some(net) = Net::build()? else { return Ok(None) };
    net.router.run_blocking(|| {
        ip(&format!("-6 route add fd92::/48 dev {INTERFACE}"))?;
        ip(&format!("-6 route add fd93::/48 dev {INTERFACE}"))
    })?;
    net.visitor.run_blocking(move || -> Result<()> {
        for address in addresses {
            // The visitor has one of them already.
            ip(&format!("address replace {address}/64 dev wlan0 nodad"))?;
        }
        Ok(())
    })?;
    let site = Site::start(&net).await?;
    let folder = folder()?;
    let password = operate(folder.path(), &["client", "add", "anna"]).await?;
    let gateway = RouterGateway::start_in(&net, folder, CONFIG).await?;
    Ok(Some(Setup {
        net,
        site,
        anna: format!("anna:{password}"),
        _gateway: gateway,
    }))
}

/// The answer to a request of the visitor from this address; empty if there is none.
async fn load(net: Arc<Net>, from: Ipv6Addr, who: Option<String>) -> Result<String> {
    let who = who.map_or_else(String::new, |who| {
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(who))
    });
    let request =
        format!("GET http://site.test/ HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n{who}\r\n");
    let load = move || async move {
        let socket = TcpSocket::new_v6()?;
        socket.bind(SocketAddr::new(from.into(), 0))?;
        let mut stream = socket.connect(PROXY.parse()?).await?;
        let mut answer = Vec::new();
        // A connection that gets no answer may end with a reset.
        let _sent = stream.write_all(request.as_bytes()).await;
        let _reset = stream.read_to_end(&mut answer).await;
        Ok(String::from_utf8(answer)?)
    };
    timeout(LIMIT, net.visitor.run(load)).await.context("an answer")?
}

fn is_status(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

#[tokio::test]
async fn the_networks_of_a_56_have_the_streams_of_16_clients() -> Result<()> {
    let in_one_56 = (0..SHARES + 2).map(|number| visitor(0xfd92, number));
    let others = [visitor(0xfd92, 0x100), visitor(0xfd93, 0)];
    let Some(setup) = start(in_one_56.clone().chain(others).collect()).await? else {
        return Ok(());
    };
    let (net, mut site) = (setup.net, setup.site);
    let load = |from| -> JoinHandle<Result<String>> { tokio::spawn(load(Arc::clone(&net), from, None)) };
    let mut loads = Vec::new();
    for from in in_one_56.clone().take(SHARES.into()) {
        loads.push(load(from));
        site.arrived(loads.len()).await?;
    }
    // These wait for the streams of the first two.
    loads.extend(in_one_56.skip(SHARES.into()).map(load));
    for other in others {
        loads.push(load(other));
    }
    site.arrived(usize::from(SHARES) + 2).await?;
    for waiting in 0..2 {
        site.answers.add_permits(1);
        site.arrived(usize::from(SHARES) + 3 + waiting).await?;
    }
    site.answers.add_permits(loads.len());
    for load in loads {
        let answer = load.await??;
        ensure!(is_status(&answer, 200), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn the_networks_of_a_56_have_the_tries_of_passwords_of_16_clients() -> Result<()> {
    let in_one_56: Vec<_> = (0..=SHARES).map(|number| visitor(0xfd92, number)).collect();
    let (known, other) = (visitor(0xfd92, 0x80), visitor(0xfd92, 0x100));
    let addresses = in_one_56.iter().copied().chain([known, other]).collect();
    let Some(setup) = start(addresses).await? else {
        return Ok(());
    };
    setup.site.answers.add_permits(100);
    let load = |from, who: &Option<String>| load(Arc::clone(&setup.net), from, who.clone());
    let anna = Some(setup.anna.clone());
    let answer = load(known, &anna).await?;
    ensure!(is_status(&answer, 200), "{answer}");
    let wrong = Some("anna:wrong".to_owned());
    let (last, tried) = in_one_56.split_last().context("networks")?;
    for network in tried {
        for _ in 0..TRIES {
            let answer = load(*network, &wrong).await?;
            ensure!(is_status(&answer, 407), "{network}: {answer}");
        }
    }
    ensure!(
        load(*last, &anna).await?.is_empty(),
        "further passwords are looked at"
    );
    for (from, who) in [(*last, &None), (known, &anna), (other, &anna)] {
        let answer = load(from, who).await?;
        ensure!(is_status(&answer, 200), "{from}: {answer}");
    }
    Ok(())
}
