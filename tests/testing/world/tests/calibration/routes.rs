//! Reachability between the namespaces.
use std::net::{Ipv4Addr, SocketAddr};

use longhaul_netem::AddressChanges;
use longhaul_types::{BitRate, ByteCount, Timestamp};
use longhaul_world::{DNS_SERVER, Namespace, World, WorldError};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, UdpSocket},
};

use crate::traffic::{PATIENCE, Way, both, config, link, machine, ms, profile, transfer, wait, world};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 79, 3, 4);

/// Answers each connection to port 80 with `name` and the address to which it was opened.
async fn serve(namespace: &Namespace, name: &'static str) {
    namespace
        .run(move || async move {
            let listener = TcpListener::bind("0.0.0.0:80").await.unwrap();
            tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    let text = format!("{name} {}", stream.local_addr().unwrap());
                    stream.write_all(text.as_bytes()).await.unwrap();
                }
            });
        })
        .await;
}

async fn dial(from: &Namespace, to: Ipv4Addr) -> String {
    from.run(move || async move {
        let mut stream = TcpStream::connect((to, 80)).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    })
    .await
}

/// Sends a datagram to the host from `from` and returns the sender's address as seen by the origins.
async fn datagram(world: &World, from: &Namespace, to: SocketAddr) -> SocketAddr {
    let socket = world
        .origins()
        .run_blocking(move || std::net::UdpSocket::bind(to).unwrap());
    socket.set_nonblocking(true).unwrap();
    from.run_blocking(move || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"hello", to).unwrap();
    });
    world
        .origins()
        .run(move || async move {
            let socket = UdpSocket::from_std(socket).unwrap();
            socket.recv_from(&mut [0; 100]).await.unwrap().1
        })
        .await
}

#[test]
fn every_host_is_reached_at_the_origins() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    wait(async {
        serve(world.origins(), "origins").await;
        for host in [HOST, Ipv4Addr::new(10, 79, 255, 255), Ipv4Addr::new(10, 79, 0, 0)] {
            for from in [world.client(), world.gateway(), world.origins()] {
                assert_eq!(
                    dial(from, host).await,
                    format!("origins {host}:80"),
                    "from {}",
                    from.name()
                );
            }
        }
        let from = datagram(&world, world.client(), (DNS_SERVER, 53).into()).await;
        assert_eq!(
            from.ip(),
            longhaul_world::CLIENT,
            "no address is translated on the way"
        );
    });
}

#[test]
fn tcp_can_be_diverted_to_the_gateway() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    wait(async {
        serve(world.origins(), "origins").await;
        serve(world.gateway(), "gateway").await;
        assert_eq!(dial(world.client(), HOST).await, format!("origins {HOST}:80"));
        world.divert_tcp_to_gateway().unwrap();
        assert_eq!(dial(world.client(), HOST).await, format!("gateway {HOST}:80"));
        assert_eq!(dial(world.gateway(), HOST).await, format!("origins {HOST}:80"));
        let from = datagram(&world, world.client(), (HOST, 5000).into()).await;
        assert_eq!(from.ip(), longhaul_world::CLIENT, "UDP goes on to the origins");
        let from = datagram(&world, world.gateway(), (HOST, 5001).into()).await;
        assert_eq!(from.ip(), longhaul_world::GATEWAY_ON_INTERNET);
    });
}

#[test]
fn devices_have_the_mtu_of_the_model() {
    let _machine = machine();
    let mut small = link(BitRate::kbps(10_000), ms(1), ByteCount::kb(100));
    small.mtu = Some(ByteCount::new(576));
    let Some(world) = world(both(small)) else { return };
    wait(transfer(&world, Way::Down, 50_000));
    let stats = world.hop().snapshot().down;
    assert_eq!(stats.dropped_total().packets, 0);
    assert!(stats.offered.bytes.bytes() / stats.offered.packets <= 576);
    assert!(stats.offered.packets > 50_000 / 576);
}

#[test]
fn unsupported_world_configurations_are_rejected() {
    let _machine = machine();
    let changes = |count: u64| AddressChanges::at((0..count).map(|index| Timestamp::ZERO + ms(index)));
    let mut moving = profile("lan-fast");
    moving.address_changes = changes(253);
    let refused = World::build(config(moving));
    assert!(
        matches!(refused, Err(WorldError::TooManyAddressChanges(253))),
        "{refused:?}"
    );
    let mut config_of_internet = config(profile("lan-fast"));
    config_of_internet.internet.address_changes = changes(1);
    let refused = World::build(config_of_internet);
    assert!(
        matches!(refused, Err(WorldError::AddressChangeOnInternet)),
        "{refused:?}"
    );
    let mut tiny = profile("lan-fast");
    tiny.up.mtu = Some(ByteCount::new(67));
    let refused = World::build(config(tiny));
    assert!(
        matches!(refused, Err(WorldError::Mtu { mtu: 67, .. })),
        "{refused:?}"
    );
}

#[test]
fn the_clients_address_changes_as_behind_a_nat() {
    let _machine = machine();
    // Late enough for the preceding steps on a loaded machine.
    let change = ms(2_000);
    let mut moving = both(link(BitRate::kbps(10_000), ms(20), ByteCount::kb(100)));
    moving.address_changes = AddressChanges::at([Timestamp::ZERO + change]);
    let Some(world) = world(moving) else { return };
    wait(async {
        serve(world.origins(), "origins").await;
        let seen = || datagram(&world, world.client(), (HOST, 7000).into());
        assert_eq!(seen().await.ip(), longhaul_world::CLIENT);
        assert_eq!(dial(world.client(), HOST).await, format!("origins {HOST}:80"));
        assert_eq!(world.hop().snapshot().misaddressed.packets, 0);
        let until_change = (Timestamp::ZERO + change) - world.hop().now();
        assert!(!until_change.is_zero(), "the machine is too slow for this test");
        // Idle until the change, and a little longer.
        world.hop().idle(until_change + ms(10), PATIENCE).await;
        assert_eq!(seen().await.ip(), Ipv4Addr::new(10, 78, 0, 3));
        assert_eq!(dial(world.client(), HOST).await, format!("origins {HOST}:80"));
        // The connection is closed: its last acknowledgements do not count as answers to the next packets.
        world.hop().idle(ms(300), PATIENCE).await;
        // Packets to the earlier address cross the link and are lost.
        let before = world.hop().snapshot();
        world.gateway().run_blocking(|| {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"late", (longhaul_world::CLIENT, 7001)).unwrap();
        });
        world.hop().idle(ms(50), PATIENCE).await;
        let after = world.hop().snapshot();
        assert_eq!(after.misaddressed.packets, 1);
        assert_eq!(
            after.up.offered.packets, before.up.offered.packets,
            "the client sent a response"
        );
    });
}

#[test]
fn a_router_with_a_hardware_address_is_on_the_way_to_the_hop() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    world.place_router().unwrap();
    wait(async {
        serve(world.origins(), "origins").await;
        assert_eq!(dial(world.client(), HOST).await, format!("origins {HOST}:80"));
    });
    let way = world.client().run_blocking(|| {
        let ip = |arguments: &[&str]| {
            let output = std::process::Command::new("ip").args(arguments).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let route = ip(&["route", "get", &HOST.to_string()]);
        let router = route.split(' ').skip_while(|word| *word != "via").nth(1).unwrap();
        ip(&["neigh", "show", router])
    });
    assert!(way.contains("lladdr 02:00:00:4c:48:01"), "{way}");
    assert!(world.hop().snapshot().up.delivered.packets > 0);
    assert_eq!(world.kernel_drops().unwrap(), 0);
}

#[test]
fn another_model_takes_the_place_of_an_idle_link() {
    let _machine = machine();
    let Some(world) = world(profile("lan-fast")) else {
        return;
    };
    wait(async {
        serve(world.origins(), "origins").await;
        let _answer = dial(world.client(), HOST).await;
        let began = world.hop().now();
        let _answer = dial(world.client(), HOST).await;
        assert!(world.hop().now().saturating_since(began) < ms(600));
        world.hop().change(profile("geo-sat"), 1);
        let began = world.hop().now();
        let _answer = dial(world.client(), HOST).await;
        assert!(
            world.hop().now().saturating_since(began) >= ms(1200),
            "two round trips of a satellite"
        );
    });
}
