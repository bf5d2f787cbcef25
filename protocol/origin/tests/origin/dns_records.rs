//! Records of names, the number of addresses, and the cache of a client whose settings change.
use std::time::Duration;

use hickory_resolver::proto::{
    op::ResponseCode,
    rr::{Name, RecordType},
};
use longhaul_origin::{DnsFailure, DnsServers, FetchError, NoRecords, OriginClient, OriginConfig, Timeouts};

use crate::rig::{DnsAnswer, LOCAL, NameServer, clock::freeze, guard};

fn config(server: &NameServer) -> OriginConfig {
    OriginConfig {
        dns: DnsServers::Explicit(vec![server.address]),
        ..OriginConfig::default()
    }
}

#[tokio::test]
async fn missing_records_missing_names_and_failures_are_distinguished() {
    let server = NameServer::start(DnsAnswer::of(60, &["8.8.8.8"])).await;
    let client = OriginClient::new(config(&server)).unwrap();
    let ask = async |name: &str, kind| {
        client
            .records(&Name::from_ascii(name).unwrap(), kind, LOCAL)
            .await
    };
    let found = ask("found.test", RecordType::A).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].data.ip_addr(), Some([8, 8, 8, 8].into()));
    for (name, answer, expected) in [
        (
            "other-type.test",
            DnsAnswer::of(60, &["8.8.8.8"]),
            Some(ResponseCode::NoError),
        ),
        ("missing.test", DnsAnswer::Code(3), Some(ResponseCode::NXDomain)),
        ("broken.test", DnsAnswer::Code(2), None),
    ] {
        server.set(answer);
        match (ask(name, RecordType::AAAA).await, expected) {
            (Err(NoRecords::Absent { code, .. }), Some(expected)) => assert_eq!(code, expected, "{name}"),
            (Err(NoRecords::Failed(error)), None) => {
                assert_eq!(error, FetchError::DnsFailed(DnsFailure::Server), "{name}");
            }
            (other, _) => panic!("{name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn both_families_have_their_part_of_many_addresses() {
    let _clock = freeze();
    let server = NameServer::start(DnsAnswer::Silence).await;
    let client = OriginClient::new(config(&server)).unwrap();
    for (number, (v6, v4, expected)) in [
        (40, 40, (16, 16)),
        (40, 2, (30, 2)),
        (2, 40, (2, 30)),
        (20, 12, (20, 12)),
        (20, 13, (19, 13)),
        (40, 0, (32, 0)),
        (0, 40, (0, 32)),
    ]
    .into_iter()
    .enumerate()
    {
        let v6 = (0..v6).map(|index| format!("2606:4700::{index:x}"));
        let v4 = (0..v4).map(|index| format!("8.8.8.{index}"));
        let addresses = v6.chain(v4).map(|text| text.parse().unwrap()).collect();
        server.set(DnsAnswer::Addresses { ttl: 60, addresses });
        let found = client
            .addresses(&format!("n{number}.test"), 80, LOCAL)
            .await
            .unwrap();
        let v6 = found.iter().filter(|address| address.is_ipv6()).count();
        assert_eq!((v6, found.len() - v6), expected);
    }
}

#[tokio::test]
async fn answers_are_kept_while_the_name_servers_and_their_time_stay_the_same() {
    let answer = DnsAnswer::of(600, &["8.8.8.8"]);
    let (first, second) = (
        NameServer::start(answer.clone()).await,
        NameServer::start(answer).await,
    );
    let client = OriginClient::new(config(&first)).unwrap();
    let ask = async || assert!(client.addresses("site.test", 80, LOCAL).await.is_ok());
    ask().await;
    let other_guard = OriginConfig {
        guard: guard(&["10.0.0.0/8"]),
        ..config(&first)
    };
    let other_time = OriginConfig {
        timeouts: Timeouts {
            dns: Duration::from_secs(9),
            ..Timeouts::default()
        },
        ..config(&first)
    };
    for (settings, expected) in [
        (config(&first), (1, 0)),
        (other_guard, (1, 0)),
        (other_time.clone(), (2, 0)),
        (other_time, (2, 0)),
        (config(&first), (3, 0)),
        (config(&second), (3, 1)),
        (config(&second), (3, 1)),
    ] {
        client.reconfigure(settings).unwrap();
        ask().await;
        assert_eq!(
            (first.questions("site.test"), second.questions("site.test")),
            expected
        );
    }
}
