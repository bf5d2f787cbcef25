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
