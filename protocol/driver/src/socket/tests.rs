use std::{collections::BTreeMap, net::Ipv4Addr};

use super::*;

fn socket(offload: SegmentationOffload) -> SessionSocket {
    SessionSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), offload).unwrap()
}

fn datagram(number: usize, size: usize) -> Vec<u8> {
    let mut datagram = vec![u8::try_from(number).unwrap(); size];
    datagram[..4].copy_from_slice(&u32::try_from(number).unwrap().to_be_bytes());
    datagram
}

fn batch(to: SocketAddr, datagrams: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::default();
    batch.restart(to.into(), &datagrams[0]);
    for datagram in &datagrams[1..] {
        assert!(batch.takes(to.into(), datagram.len()));
        batch.push(datagram);
    }
    batch
}

async fn send(socket: &mut SessionSocket, mut batch: Batch) {
    while let Err(error) = socket.send(&mut batch) {
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        socket.writable().await.unwrap();
    }
}

async fn receive(socket: &mut SessionSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    while all.len() < count {
        socket.readable().await.unwrap();
        let received = socket.receive(|path, datagram| all.push((path.remote, datagram.to_vec())));
        if let Err(error) = received {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }
    }
    all
}

#[tokio::test]
async fn a_batch_arrives_whole_and_in_order_with_fewer_calls() {
    let mut sender = socket(SegmentationOffload::WherePossible);
    let mut receiver = socket(SegmentationOffload::WherePossible);
    let mut datagrams: Vec<_> = (0..40).map(|number| datagram(number, 1300)).collect();
    datagrams.push(datagram(40, 200));
    let to = receiver.local_addr();
    let at_once = sender.max_segments();
    send(&mut sender, batch(to, &datagrams)).await;
    let all = receive(&mut receiver, datagrams.len()).await;
    assert!(all.iter().all(|(from, _)| *from == sender.local_addr()));
    assert_eq!(
        all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
        datagrams
    );
    let counters = sender.counters();
    assert_eq!(counters.sent, 41);
    if at_once > 1 {
        assert!(
            counters.send_calls <= 41_u64.div_ceil(at_once as u64),
            "{counters:?}"
        );
    } else {
        eprintln!("no segmentation offload in this kernel: the number of calls is not tested");
    }
}

#[tokio::test]
async fn without_offload_each_datagram_has_its_call() {
    let mut sender = socket(SegmentationOffload::Off);
    let mut receiver = socket(SegmentationOffload::WherePossible);
    let datagrams: Vec<_> = (0..10).map(|number| datagram(number, 900)).collect();
    send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
    let all = receive(&mut receiver, datagrams.len()).await;
    assert_eq!(
        all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
        datagrams
    );
    assert_eq!(
        sender.counters(),
        SocketCounters {
            send_calls: 10,
            sent: 10
        }
    );
}

#[tokio::test]
async fn a_refused_batch_is_sent_one_datagram_at_a_time() {
    let mut sender = socket(SegmentationOffload::WherePossible);
    let mut receiver = socket(SegmentationOffload::WherePossible);
    // 64 KiB exceed a datagram: the kernel refuses the batch, but not its datagrams.
    let datagrams: Vec<_> = (0..3).map(|number| datagram(number, 30_000)).collect();
    send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
    let all = receive(&mut receiver, datagrams.len()).await;
    assert_eq!(
        all.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(),
        datagrams
    );
    assert_eq!(sender.counters().sent, 3);
}

#[tokio::test]
async fn a_replaced_socket_has_another_port_and_the_same_address() {
    let mut sender = socket(SegmentationOffload::WherePossible);
    let mut receiver = socket(SegmentationOffload::WherePossible);
    let before = sender.local_addr();
    sender.rebind();
    assert_ne!(sender.local_addr().port(), before.port());
    assert_eq!(sender.local_addr().ip(), before.ip());
    let datagrams = [datagram(1, 500)];
    send(&mut sender, batch(receiver.local_addr(), &datagrams)).await;
    let all = receive(&mut receiver, 1).await;
    assert_eq!(all, [(sender.local_addr(), datagrams[0].clone())]);
    send(&mut receiver, batch(sender.local_addr(), &datagrams)).await;
    assert_eq!(receive(&mut sender, 1).await.len(), 1);
}

#[tokio::test]
async fn peers_are_not_merged() {
    let mut senders = [(); 3].map(|()| socket(SegmentationOffload::WherePossible));
    let mut receivers = [(); 2].map(|()| socket(SegmentationOffload::WherePossible));
    let mut expected: BTreeMap<(usize, SocketAddr), Vec<Vec<u8>>> = BTreeMap::new();
    for round in 0..4 {
        for (index, sender) in senders.iter_mut().enumerate() {
            for (at, receiver) in receivers.iter().enumerate() {
                let number = round * 16 + index * 4 + at;
                let datagrams: Vec<_> = (0..3).map(|step| datagram(number + step, 1000)).collect();
                send(sender, batch(receiver.local_addr(), &datagrams)).await;
                expected
                    .entry((at, sender.local_addr()))
                    .or_default()
                    .extend(datagrams);
            }
        }
    }
    let mut seen: BTreeMap<(usize, SocketAddr), Vec<Vec<u8>>> = BTreeMap::new();
    for (at, receiver) in receivers.iter_mut().enumerate() {
        for (from, bytes) in receive(receiver, 4 * 3 * 3).await {
            seen.entry((at, from)).or_default().push(bytes);
        }
    }
    assert_eq!(seen, expected);
}

/// A gateway's socket on a wildcard address, and one on the second address of this computer that sends to it.
async fn addressed(wildcard: SocketAddr, to: IpAddr) -> (SessionSocket, SessionSocket, UdpPath) {
    let offload = SegmentationOffload::WherePossible;
    let mut gateway = SessionSocket::bind(wildcard, offload).unwrap().numbered(3);
    let mut peer = SessionSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), offload).unwrap();
    let port = gateway.local_addr().port();
    send(&mut peer, batch(SocketAddr::new(to, port), &[datagram(1, 500)])).await;
    let mut path = None;
    while path.is_none() {
        gateway.readable().await.unwrap();
        let _would_block = gateway.receive(|of, _| path = Some(of));
    }
    (gateway, peer, path.unwrap())
}

#[tokio::test]
async fn answers_of_a_wildcard_socket_leave_from_the_address_that_was_addressed() {
    let second = IpAddr::from([127, 0, 0, 2]);
    let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    for wildcard in [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), v6] {
        let (mut gateway, mut peer, path) = addressed(wildcard, second).await;
        assert_eq!((path.local.socket, path.local.ip), (3, Some(second)));
        let mut answer = Batch::default();
        answer.restart(path, &datagram(2, 700));
        send(&mut gateway, answer).await;
        let expected = SocketAddr::new(second, gateway.local_addr().port());
        assert_eq!(receive(&mut peer, 1).await, [(expected, datagram(2, 700))]);
    }
}

/// Answers to a broadcast, or from an address that this computer has lost: the kernel refuses the source address.
#[tokio::test]
async fn a_source_address_that_is_not_the_hosts_does_not_switch_the_offload_off() {
    let (mut gateway, mut peer, mut path) =
        addressed((Ipv4Addr::UNSPECIFIED, 0).into(), Ipv4Addr::LOCALHOST.into()).await;
    let at_once = gateway.max_segments();
    path.local.ip = Some(IpAddr::from([192, 0, 2, 77]));
    let mut answer = Batch::default();
    answer.restart(path, &datagram(2, 700));
    send(&mut gateway, answer).await;
    assert_eq!(receive(&mut peer, 1).await.len(), 1);
    assert_eq!(gateway.max_segments(), at_once);
}

#[test]
fn link_local_addresses_keep_their_scope() {
    let link_local: SocketAddr = "[fe80::1%3]:4433".parse().unwrap();
    assert_eq!(unmapped(link_local), link_local);
    let mapped: SocketAddr = "[::ffff:192.0.2.1]:4433".parse().unwrap();
    assert_eq!(unmapped(mapped), "192.0.2.1:4433".parse().unwrap());
}

/// A packet of QUIC with a long header, version 1.
fn quic_packet(number: u8) -> Vec<u8> {
    let mut packet = vec![0xc3, 0, 0, 0, 1];
    packet.resize(1200, number);
    packet
}

/// Receives packets of QUIC.
async fn receive_quic(share: &QuicShare, count: usize) -> Vec<(RecvMeta, Vec<u8>)> {
    let mut all = Vec::new();
    while all.len() < count {
        let mut buffers = [[0_u8; 1500]; 4];
        let mut meta = [RecvMeta::default(); 4];
        let received = std::future::poll_fn(|context| {
            let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
            share.poll_recv(context, &mut slices, &mut meta)
        })
        .await;
        for (meta, buffer) in meta.iter().zip(&buffers).take(received) {
            all.push((*meta, buffer[..meta.len].to_vec()));
        }
    }
    all
}

/// One socket for sessions and QUIC: what the peer of each sends reaches it, with the address that was addressed, and
/// answers of both leave from there.
#[tokio::test]
async fn a_shared_port_tells_quic_from_sessions() {
    let second = IpAddr::from([127, 0, 0, 2]);
    let offload = SegmentationOffload::WherePossible;
    for wildcard in [
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        (Ipv6Addr::UNSPECIFIED, 0).into(),
    ] {
        let mut gateway = SessionSocket::bind(wildcard, offload).unwrap().numbered(0);
        let share = gateway.share_with_quic().unwrap();
        let mut peer = SessionSocket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), offload).unwrap();
        let at = SocketAddr::new(second, gateway.local_addr().port());
        // The kernel joins packets of one size and destination.
        let mixed = [quic_packet(1), vec![0xc0; 1200], quic_packet(2), vec![0x90; 1200]];
        send(&mut peer, batch(at, &mixed)).await;
        let ours = receive(&mut gateway, 2).await;
        let ours: Vec<_> = ours.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(ours, [vec![0xc0; 1200], vec![0x90; 1200]]);
        let quic = receive_quic(&share, 2).await;
        let bytes: Vec<_> = quic.iter().map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(bytes, [quic_packet(1), quic_packet(2)]);
        let (meta, _) = quic[0].clone();
        assert_eq!(meta.dst_ip.map(|ip| ip.to_canonical()), Some(second));
        let state = UdpSocketState::new((&*peer.io).into()).unwrap();
        let marked = quinn_udp::Transmit {
            destination: at,
            ecn: Some(quinn_udp::EcnCodepoint::Ect0),
            contents: &quic_packet(3),
            segment_size: None,
            src_ip: None,
        };
        peer.writable().await.unwrap();
        state.send((&*peer.io).into(), &marked).unwrap();
        receive_nothing(&mut gateway).await;
        assert_eq!(receive_quic(&share, 1).await[0].0.ecn, marked.ecn);
        let segments = share.max_segments().min(3);
        share.writable().await.unwrap();
        share
            .try_send(&quinn_udp::Transmit {
                destination: meta.addr,
                ecn: Some(quinn_udp::EcnCodepoint::Ect0),
                contents: &vec![0x40; segments * 200],
                segment_size: Some(200),
                src_ip: meta.dst_ip,
            })
            .unwrap();
        assert_eq!(
            receive(&mut peer, segments).await,
            vec![(at, vec![0x40; 200]); segments]
        );
    }
}

/// Receives a datagram that is not for sessions.
async fn receive_nothing(gateway: &mut SessionSocket) {
    loop {
        gateway.readable().await.unwrap();
        match gateway.receive(|path, _| panic!("a datagram of {path:?}")) {
            Ok(0) => return,
            Ok(_) => unreachable!(),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// QUIC that does not read loses packets; sessions lose nothing by them.
#[tokio::test]
async fn a_flood_of_quic_packets_leaves_sessions_alone() {
    let mut gateway = socket(SegmentationOffload::WherePossible).numbered(0);
    let share = gateway.share_with_quic().unwrap();
    let mut peer = socket(SegmentationOffload::WherePossible);
    let to = gateway.local_addr();
    for round in 0..300 {
        let flood: Vec<_> = (0..10).map(quic_packet).collect();
        send(&mut peer, batch(to, &flood)).await;
        let own = [vec![0x80; 400]];
        send(&mut peer, batch(to, &own)).await;
        assert_eq!(receive(&mut gateway, 1).await[0].1, own[0], "round {round}");
    }
    let oversized = [[quic_packet(1), vec![0; 400]].concat()];
    send(&mut peer, batch(to, &oversized)).await;
    send(&mut peer, batch(to, &[vec![0x80; 400]])).await;
    receive(&mut gateway, 1).await;
    assert_eq!(share.drops().count(), 3000 - 1024 + 1);
    assert_eq!(receive_quic(&share, 1024).await.len(), 1024);
}
