//! UDP ASSOCIATE end to end: dig, a UDP echo over a hop that loses datagrams and over TLS, outages, another user.
use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
    os::unix::process::CommandExt as _,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use longhaul_hosting::{HostAddresses, NameServer};
use longhaul_tests::{
    client::RawClient,
    relay::{Direction, Passage},
};
use tokio::{
    net::{TcpListener, UdpSocket},
    process::Command,
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use super::servers::{are_installed, output};
use crate::pair::{COMMAND_LIMIT, LIMIT, Link, Pair, Setup};

/// Datagrams of an exchange.
const COUNT: u64 = 1000;
/// Interval at which they are sent.
const INTERVAL: Duration = Duration::from_millis(5);
/// Time after the last one in which answers are received.
const REST: Duration = Duration::from_secs(3);

/// A client of UDP ASSOCIATE. Dropping it ends the association.
struct UdpClient {
    _connection: RawClient,
    socket: UdpSocket,
    relay: SocketAddr,
}

impl UdpClient {
    async fn associate(proxy: SocketAddr) -> Result<Self> {
        let mut connection = RawClient::connect(proxy).await?;
        connection.send([5, 1, 0]).await?;
        ensure!(connection.read_exact(2).await? == [5, 0]);
        connection.send([5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        let reply = connection.read_exact(10).await?;
        ensure!(reply[..4] == [5, 0, 0, 1], "{reply:?}");
        let port = u16::from_be_bytes([reply[8], reply[9]]);
        let relay = SocketAddr::new(
            Ipv4Addr::from([reply[4], reply[5], reply[6], reply[7]]).into(),
            port,
        );
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            _connection: connection,
            socket,
            relay,
        })
    }

    async fn send(&self, host: &str, port: u16, payload: &[u8]) -> Result<()> {
        let datagram = named(host, port, payload)?;
        self.socket.send_to(&datagram, self.relay).await?;
        Ok(())
    }

    /// The next answer without its header; all hosts have addresses of IPv4.
    async fn receive(&self) -> Result<Vec<u8>> {
        let mut buffer = vec![0; 65_535];
        let (length, from) = self.socket.recv_from(&mut buffer).await?;
        ensure!(from == self.relay && buffer[..4] == [0, 0, 0, 1]);
        Ok(buffer[10..length].to_vec())
    }
}

fn named(host: &str, port: u16, payload: &[u8]) -> Result<Vec<u8>> {
    let head = [0, 0, 0, 3, u8::try_from(host.len())?];
    Ok([&head[..], host.as_bytes(), &port.to_be_bytes(), payload].concat())
}

/// A server that returns what it gets.
async fn echo_server() -> Result<SocketAddr> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let _lost = socket.send_to(&buffer[..length], from).await;
        }
    });
    Ok(address)
}

/// Bytes of the datagram with this number: from 8 to 1,400, so that some need two packets.
fn payload(number: u64) -> Vec<u8> {
    let mut bytes = number.to_be_bytes().to_vec();
    let length = usize::try_from(8 + number * 37 % 1393).unwrap_or(8);
    bytes.resize(length, number.to_be_bytes()[7]);
    bytes
}

/// Sends the datagrams; returns the numbers of those that returned, in the order of their arrival.
async fn exchange(client: &UdpClient, port: u16) -> Result<Vec<u64>> {
    let send = async {
        let mut ticks = interval(INTERVAL);
        for number in 0..COUNT {
            ticks.tick().await;
            client.send("echo.test", port, &payload(number)).await?;
        }
        // Only the end of this time ends the wait.
        let _end = timeout(REST, std::future::pending::<()>()).await;
        Ok::<(), anyhow::Error>(())
    };
    let mut returned = Vec::new();
    let receive = async {
        loop {
            let bytes = client.receive().await?;
            let number = u64::from_be_bytes(*bytes.first_chunk().context("a number")?);
            ensure!(bytes == payload(number), "the contents of {number} differ");
            returned.push(number);
        }
    };
    tokio::select! {
        sent = send => sent?,
        failed = receive => failed.map(|never: std::convert::Infallible| match never {})?,
    }
    Ok(returned)
}

fn are_unique(numbers: &[u64]) -> bool {
    numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_datagrams_under_loss() -> Result<()> {
    let server = echo_server().await?;
    let setup = Setup::resolving(&[("echo.test:4000", server)]);
    let pair = Pair::start(setup.over(Link::Relayed)).await?;
    let client = UdpClient::associate(pair.proxy()).await?;
    for direction in [Direction::Up, Direction::Down] {
        pair.relay().set(direction, Passage::LosesOneIn(20));
    }
    let returned = exchange(&client, 4000).await?;
    println!(
        "{} of {COUNT} datagrams returned over a hop that loses 5 % in each direction",
        returned.len()
    );
    assert!(are_unique(&returned), "a datagram arrived twice");
    // 90 % of the small ones and 81 % of those with two parts, less what a busy machine loses.
    assert!(returned.len() > 750 && returned.len() < 980, "{}", returned.len());
    let status = pair.status().await?;
    assert_eq!((&status["sessions"], &status["tunnels"]), (&1.into(), &1.into()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_datagrams_over_tls() -> Result<()> {
    let server = echo_server().await?;
    let tls = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?;
    let mut setup = Setup::resolving(&[("echo.test:4000", server)]).over(Link::Relayed);
    setup
        .gateway_config
        .push_str(&format!("[carriers]\ntls = \"{tls}\"\n"));
    let port = tls.port().to_string();
    let arguments = ["--carrier", "tls", "--carrier-tls-port", &port];
    setup.agent_arguments.extend(arguments.map(str::to_owned));
    let pair = Pair::start(setup).await?;
    let client = UdpClient::associate(pair.proxy()).await?;
    let returned = exchange(&client, 4000).await?;
    println!("{} of {COUNT} datagrams returned over TLS", returned.len());
    assert!(are_unique(&returned));
    assert!(returned.len() > 980, "TCP loses none: {}", returned.len());
    assert!(returned.is_sorted(), "and keeps their order");
    assert_eq!(pair.relay().passed(Direction::Up), 0, "nothing passed over UDP");
    Ok(())
}

/// Sends a datagram every tenth of a second until its own answer returns.
async fn until_answered(client: &UdpClient, first: u64) -> Result<u64> {
    let mut ticks = interval(Duration::from_millis(100));
    let mut number = first;
    let answered = async {
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    client.send("echo.test", 4000, &number.to_be_bytes()).await?;
                    number += 1;
                }
                answer = client.receive() => {
                    let answer = u64::from_be_bytes(*answer?.first_chunk().context("a number")?);
                    if answer >= first {
                        return Ok(answer);
                    }
                }
            }
        }
    };
    timeout(LIMIT, answered).await.context("no answer")?
}

#[tokio::test(flavor = "multi_thread")]
async fn an_association_survives_an_outage_and_a_restart_of_the_gateway() -> Result<()> {
    let server = echo_server().await?;
    let setup = Setup::resolving(&[("echo.test:4000", server)]);
    let mut pair = Pair::start(setup.over(Link::Relayed)).await?;
    let client = UdpClient::associate(pair.proxy()).await?;
    until_answered(&client, 0).await?;
    for direction in [Direction::Up, Direction::Down] {
        pair.relay().set(direction, Passage::Blocked);
    }
    client.send("echo.test", 4000, &999_u64.to_be_bytes()).await?;
    let began = Instant::now();
    pair.status_until(|status| status["state"] == "stalled").await?;
    let rest = Duration::from_secs(4).saturating_sub(began.elapsed());
    ensure!(timeout(rest, std::future::pending::<()>()).await.is_err());
    for direction in [Direction::Up, Direction::Down] {
        pair.relay().set(direction, Passage::Open);
    }
    until_answered(&client, 1000).await?;
    assert_eq!(pair.status().await?["sessions"], 1);
    pair.kill_gateway().await?;
    pair.start_gateway().await?;
    until_answered(&client, 2000).await?;
    assert_eq!(pair.status().await?["sessions"], 2);
    Ok(())
}

/// Serves programs that do not speak SOCKS: each datagram goes to one host through the association of its sender.
async fn forward(socket: Arc<UdpSocket>, proxy: SocketAddr) -> Result<()> {
    let mut tasks = JoinSet::new();
    let mut buffer = vec![0; 65_535];
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await?;
        let (question, socket) = (buffer[..length].to_vec(), Arc::clone(&socket));
        tasks.spawn(async move {
            let client = UdpClient::associate(proxy).await?;
            client.send("dns.test", 53, &question).await?;
            socket.send_to(&client.receive().await?, from).await?;
            Ok::<(), anyhow::Error>(())
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dig_gets_its_answers() -> Result<()> {
    if !are_installed(&["dig"]) {
        return Ok(());
    }
    let hosts = HostAddresses::assign(["www.site.test"])?;
    let server = NameServer::start((Ipv4Addr::LOCALHOST, 0).into(), &hosts, Duration::from_secs(60)).await?;
    let pair = Pair::start(Setup::resolving(&[("dns.test:53", server.address())])).await?;
    let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
    let port = socket.local_addr()?.port().to_string();
    let forwarder = tokio::spawn(forward(socket, pair.proxy()));
    let mut dig = Command::new("dig");
    dig.args([
        "@127.0.0.1",
        "-p",
        &port,
        "+short",
        "+tries=3",
        "www.site.test",
        "A",
    ]);
    let answer = output(&mut dig, COMMAND_LIMIT).await?;
    forwarder.abort();
    let expected = hosts.address("www.site.test").context("a host")?.to_string();
    assert_eq!(String::from_utf8(answer.stdout)?.trim(), expected);
    assert_eq!((server.questions().a, server.questions().tcp), (1, 0));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn another_users_datagrams_are_dropped() -> Result<()> {
    const NOBODY: u32 = 65_534;
    if !are_installed(&["nc.openbsd"]) {
        return Ok(());
    }
    let server = echo_server().await?;
    let pair = Pair::start(Setup::resolving(&[("echo.test:4000", server)])).await?;
    let client = UdpClient::associate(pair.proxy()).await?;
    // Before the client has sent anything, so that its port is not known yet.
    let injected = named("echo.test", 4000, &7_u64.to_be_bytes())?;
    let octal: String = injected.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let script = format!(
        "printf '{octal}' | nc.openbsd -u -w 1 127.0.0.1 {}",
        client.relay.port()
    );
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(script).uid(NOBODY).gid(NOBODY);
    match Command::from(command).output().await {
        Ok(done) => assert!(done.stdout.is_empty(), "{done:?}"),
        Err(error) => {
            println!("SKIPPED: acting as another user needs root: {error}");
            return Ok(());
        }
    }
    client.send("echo.test", 4000, &8_u64.to_be_bytes()).await?;
    let answer = timeout(LIMIT, client.receive()).await??;
    assert_eq!(answer, 8_u64.to_be_bytes(), "the first datagram that was relayed");
    Ok(())
}
