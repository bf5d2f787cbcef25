use std::{
    pin::pin,
    sync::mpsc,
    task::{Context, Waker},
};

use tokio::net::{TcpListener, TcpSocket};

use super::*;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn address_families_alternate() {
    let mixed = addresses(&["1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1", "2606::2"]);
    let expected = addresses(&["2606::1", "1.1.1.1", "2606::2", "1.1.1.2", "1.1.1.3"]);
    assert_eq!(interleaved(&mixed), expected);
    assert_eq!(interleaved(&[]), Vec::<IpAddr>::new());
}

#[test]
fn the_more_specific_failure_is_reported() {
    assert_eq!(
        more_telling(FetchError::Unreachable, FetchError::Refused),
        FetchError::Refused
    );
    assert_eq!(
        more_telling(FetchError::Refused, FetchError::Unreachable),
        FetchError::Refused
    );
}

#[test]
fn a_time_limit_tells_more_than_no_route() {
    for telling in [
        FetchError::ConnectTimeout,
        FetchError::Reset,
        FetchError::Refused,
        FetchError::Resources,
    ] {
        assert_eq!(more_telling(FetchError::Unreachable, telling.clone()), telling);
        assert_eq!(more_telling(telling.clone(), FetchError::Unreachable), telling);
        assert_eq!(more_telling(FetchError::ConnectTimeout, telling.clone()), telling);
    }
}

#[test]
fn failures_of_connecting_are_distinguished() {
    use io::ErrorKind;
    for (kind, expected) in [
        (ErrorKind::ConnectionRefused, FetchError::Refused),
        (ErrorKind::ConnectionReset, FetchError::Reset),
        (ErrorKind::ConnectionAborted, FetchError::Reset),
        (ErrorKind::NotConnected, FetchError::Reset),
        (ErrorKind::TimedOut, FetchError::ConnectTimeout),
        (ErrorKind::AddrNotAvailable, FetchError::Resources),
        (ErrorKind::OutOfMemory, FetchError::Resources),
        (ErrorKind::HostUnreachable, FetchError::Unreachable),
        (ErrorKind::PermissionDenied, FetchError::Unreachable),
    ] {
        assert_eq!(connect_failure(&kind.into()), expected, "{kind}");
    }
    for (number, expected) in [
        (23, FetchError::Resources),
        (24, FetchError::Resources),
        (1, FetchError::Unreachable),
    ] {
        assert_eq!(connect_failure(&io::Error::from_raw_os_error(number)), expected);
    }
}

/// Stops the clock, while sockets work: a paused clock does not move by itself as long as a blocking task runs.
fn freeze() -> mpsc::Sender<()> {
    tokio::time::pause();
    let (end, ended) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    end
}

#[tokio::test]
async fn the_next_address_is_tried_after_the_delay_and_not_before() {
    let _clock = freeze();
    let (_hole, silent, _filler) = hole().await;
    let second = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let next = second.local_addr().unwrap();
    let mut attempts = pin!(connect_any(vec![silent, next]));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10 {
        assert!(attempts.as_mut().poll(&mut cx).is_pending());
        tokio::time::advance(ATTEMPT_DELAY / 20).await;
    }
    assert!(second.poll_accept(&mut cx).is_pending());
    tokio::time::advance(ATTEMPT_DELAY).await;
    assert_eq!(attempts.await.unwrap().peer_addr().unwrap(), next);
}

/// A listening socket with a full queue, which drops further SYNs.
async fn hole() -> (TcpListener, SocketAddr, TcpStream) {
    let hole = TcpSocket::new_v4().unwrap();
    hole.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let hole = hole.listen(0).unwrap();
    let address = hole.local_addr().unwrap();
    let filler = TcpStream::connect(address).await.unwrap();
    (hole, address, filler)
}

#[tokio::test]
async fn a_refusal_does_not_end_an_attempt_that_is_under_way() {
    let _clock = freeze();
    let (_hole, silent, _filler) = hole().await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = closed.local_addr().unwrap();
    drop(closed);
    let mut attempts = pin!(connect_any(vec![silent, refusing]));
    // As long as both attempts take beside a busy machine.
    for _ in 0..100 {
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(other.local_addr().unwrap());
        tokio::select! {
            ended = &mut attempts => panic!("the first address may still answer: {ended:?}"),
            connected = near => assert!(connected.is_ok()),
        }
        tokio::time::advance(ATTEMPT_DELAY / 10).await;
    }
}
