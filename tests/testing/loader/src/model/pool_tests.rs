use super::*;

fn origin(host: &str) -> Origin {
    Origin {
        https: false,
        host: host.to_owned(),
        port: 80,
    }
}

fn pool(rules: Rules, proxied: bool, hosts: &[&str]) -> Pool {
    let mut pool = Pool::new(rules, proxied);
    for (request, host) in hosts.iter().enumerate() {
        pool.enqueue(request, origin(host));
    }
    pool
}

/// Returns the opened connections and sent requests of one round, as text.
fn round(pool: &mut Pool) -> String {
    let actions = pool.actions().into_iter().map(|action| match action {
        Action::Open { connection, peer } => {
            let peer = match peer {
                Peer::Origin(origin) => origin.host,
                Peer::Proxy => "proxy".to_owned(),
            };
            format!("open {connection} {peer}")
        }
        Action::Send { request, connection } => format!("send {request} on {connection}"),
        Action::Close { connection } => format!("close {connection}"),
    });
    actions.collect::<Vec<_>>().join(", ")
}

#[test]
fn two_connections_per_host_carry_one_request_each() {
    let mut pool = pool(Rules::persistent(2), false, &["a", "a", "a", "b"]);
    assert_eq!(round(&mut pool), "open 0 a, open 1 a, open 2 b");
    assert_eq!(round(&mut pool), "");
    pool.ready(1);
    assert_eq!(round(&mut pool), "send 0 on 1");
    pool.ready(0);
    assert_eq!(round(&mut pool), "send 1 on 0");
    pool.answered(1, true);
    assert_eq!(round(&mut pool), "send 2 on 1");
    pool.answered(0, true);
    pool.answered(1, true);
    pool.ready(2);
    assert_eq!(round(&mut pool), "send 3 on 2");
    pool.answered(2, true);
    assert!(pool.is_idle());
}

#[test]
fn http_1_0_opens_a_connection_per_request_up_to_four() {
    let mut pool = pool(Rules::Http10, false, &["a", "a", "b", "b", "b"]);
    assert_eq!(round(&mut pool), "open 0 a, open 1 a, open 2 b, open 3 b");
    pool.ready(0);
    assert_eq!(round(&mut pool), "send 0 on 0");
    pool.answered(0, true);
    assert!(!pool.has(0));
    assert_eq!(round(&mut pool), "open 4 b");
}

#[test]
fn pipelining_starts_after_a_persistent_response() {
    let rules = Rules::Pipelined {
        per_host: 2,
        depth: 3,
    };
    let mut pool = pool(rules, false, &["a"]);
    round(&mut pool);
    pool.ready(0);
    assert_eq!(round(&mut pool), "send 0 on 0");
    pool.enqueue(1, origin("a"));
    // The host is not yet known to support persistent connections.
    assert_eq!(round(&mut pool), "open 1 a");
    pool.answered(0, true);
    for request in 2..9 {
        pool.enqueue(request, origin("a"));
    }
    // One request waits for the connection that is being opened; those after it use the open one.
    assert_eq!(round(&mut pool), "send 1 on 0, send 3 on 0, send 4 on 0");
    pool.ready(1);
    assert_eq!(round(&mut pool), "send 2 on 1, send 5 on 1, send 6 on 1");
    pool.answered(1, true);
    assert_eq!(round(&mut pool), "send 7 on 1");
    let lost = pool.closed(0);
    assert_eq!((lost.first, lost.behind), (Some(1), vec![3, 4]));
    pool.enqueue_again(1);
    assert_eq!(round(&mut pool), "open 2 a");
    // Connection 0 had answered before it was lost, so pipelining to the host continues.
    pool.ready(2);
    assert_eq!(round(&mut pool), "send 1 on 2, send 3 on 2, send 4 on 2");
}

#[test]
fn after_a_dropped_pipeline_each_connection_needs_a_first_response() {
    let rules = Rules::Pipelined {
        per_host: 1,
        depth: 8,
    };
    let mut pool = pool(rules, false, &["a"]);
    round(&mut pool);
    pool.ready(0);
    round(&mut pool);
    pool.answered(0, true);
    pool.closed(0);
    for request in 1..5 {
        pool.enqueue(request, origin("a"));
    }
    assert_eq!(round(&mut pool), "open 1 a");
    pool.ready(1);
    assert_eq!(
        round(&mut pool),
        "send 1 on 1, send 2 on 1, send 3 on 1, send 4 on 1"
    );
    let lost = pool.closed(1);
    assert_eq!((lost.first, lost.behind), (Some(1), vec![2, 3, 4]));
    pool.enqueue_again(1);
    assert_eq!(round(&mut pool), "open 2 a");
    pool.ready(2);
    assert_eq!(round(&mut pool), "send 1 on 2");
    pool.answered(2, true);
    assert_eq!(round(&mut pool), "send 2 on 2, send 3 on 2, send 4 on 2");
}

#[test]
fn proxied_connections_serve_any_host() {
    let rules = Rules::Persistent {
        per_host: 1,
        total: 2,
    };
    let mut pool = pool(rules, true, &["a", "a", "b", "c"]);
    assert_eq!(round(&mut pool), "open 0 proxy, open 1 proxy");
    pool.ready(0);
    pool.ready(1);
    assert_eq!(round(&mut pool), "send 0 on 0, send 2 on 1");
    pool.answered(1, true);
    assert_eq!(round(&mut pool), "send 3 on 1");
    pool.answered(1, true);
    assert_eq!(round(&mut pool), "");
    pool.answered(0, true);
    assert_eq!(round(&mut pool), "send 1 on 0");
}

#[test]
fn an_idle_connection_is_closed_for_one_to_another_host() {
    let rules = Rules::Persistent {
        per_host: 2,
        total: 1,
    };
    let mut pool = pool(rules, false, &["a", "b"]);
    assert_eq!(round(&mut pool), "open 0 a");
    pool.ready(0);
    assert_eq!(round(&mut pool), "send 0 on 0");
    pool.answered(0, true);
    assert_eq!(round(&mut pool), "close 0, open 1 b");
}

#[test]
fn a_failed_connection_fails_its_requests_unless_another_connection_exists() {
    let mut pool = pool(Rules::persistent(2), false, &["a", "a", "b"]);
    round(&mut pool);
    assert_eq!(pool.unreachable(1), Vec::<usize>::new());
    assert_eq!(round(&mut pool), "");
    assert_eq!(pool.unreachable(0), vec![0, 1]);
    pool.ready(2);
    assert_eq!(round(&mut pool), "send 2 on 2");
}
