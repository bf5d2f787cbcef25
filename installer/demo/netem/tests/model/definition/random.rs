use std::time::Duration;

use longhaul_netem::{
    AddressChanges, Arq, Capacity, Codel, GilbertElliott, HopConfig, LinkConfig, LinkDefinition, Loss,
    Outage, OutageSchedule, Policer, Probability, Reordering, WhileOut, parse_links,
};
use longhaul_types::{BitRate, ByteCount, Timestamp};
use proptest::prelude::*;

use super::{ms, only};

/// Returns values that may or may not be valid for a key.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("\"off\"".to_owned()),
        Just("\"edge\"".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}").replace("NaN", "nan")),
        (
            "[0-9]{1,25}(\\.[0-9]{0,3})?",
            "( |)(us|ms|s|d|bit/s|Gbit/s|B|GiB|%|x|)"
        )
            .prop_map(|(number, unit)| format!("\"{number}{unit}\"")),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|list| format!("[{}]", list.join(", "))),
            proptest::collection::btree_map(field(), inner, 0..5).prop_map(|table| {
                let fields: Vec<_> = table
                    .iter()
                    .map(|(key, value)| format!("{key} = {value}"))
                    .collect();
                format!("{{ {} }}", fields.join(", "))
            }),
        ]
    })
}

fn field() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "base",
        "rate",
        "trace",
        "trace-offset",
        "delay",
        "jitter",
        "queue",
        "mtu",
        "loss",
        "arq",
        "codel",
        "policer",
        "reordering",
        "duplication",
        "corruption",
        "outages",
        "address-changes",
        "down",
        "up",
        "start",
        "length",
        "behaviour",
        "p-good-bad",
        "frame-loss",
        "frame-size",
        "target",
        "interval",
        "burst",
        "share",
    ])
}

fn probability() -> impl Strategy<Value = Probability> {
    (0.0..=1.0).prop_map(|value| Probability::new(value).unwrap())
}

fn time(max: Duration) -> impl Strategy<Value = Duration> {
    let nanos = u64::try_from(max.as_nanos()).unwrap();
    (0..=nanos).prop_map(Duration::from_nanos)
}

fn bytes(min: u64) -> impl Strategy<Value = ByteCount> {
    (min..=1 << 30).prop_map(ByteCount::new)
}

fn loss() -> impl Strategy<Value = Loss> {
    let bursts = (probability(), probability(), probability(), probability());
    prop_oneof![
        Just(Loss::Never),
        (1e-9..=1.0).prop_map(|value| Loss::Random(Probability::new(value).unwrap())),
        bursts.prop_map(|(p_gb, p_bg, loss_good, loss_bad)| {
            Loss::Bursts(GilbertElliott {
                p_gb,
                p_bg,
                loss_good,
                loss_bad,
            })
        }),
    ]
}

fn outages() -> impl Strategy<Value = OutageSchedule> {
    let day = Duration::from_secs(24 * 3600);
    proptest::collection::vec((time(day), time(day), any::<bool>()), 0..5).prop_map(|draws| {
        let mut start = Timestamp::ZERO;
        let outages = draws.into_iter().map(|(gap, length, holds)| {
            let length = length + Duration::from_nanos(1);
            start += gap;
            let outage = Outage {
                start,
                length,
                behaviour: if holds { WhileOut::Hold } else { WhileOut::Drop },
            };
            start += length;
            outage
        });
        OutageSchedule::new(outages.collect()).unwrap()
    })
}

prop_compose! {
    fn link()(
        rate in 1_u64..1 << 40, delay in time(ms(60_000)), jitter in time(ms(60_000)), queue in bytes(1500),
        mtu in proptest::option::of(68_u64..=65_535), loss in loss(), outages in outages(),
        arq in proptest::option::of((probability(), bytes(1), time(ms(60_000)), 1_u32..)),
        codel in proptest::option::of((time(ms(60_000)), time(ms(60_000)))),
        policer in proptest::option::of((1_u64..1 << 40, bytes(1500))),
        reordering in proptest::option::of((probability(), time(ms(60_000)), any::<u32>())),
        shares in (probability(), probability()),
    ) -> LinkConfig {
        let mut link = LinkConfig::new(Capacity::Rate(BitRate::bps(rate)), delay, queue);
        link.jitter = jitter;
        link.mtu = mtu.map(ByteCount::new);
        link.loss = loss;
        link.outages = outages;
        link.arq = arq.map(|(frame_loss, frame_size, repair_delay, max_transmissions)| Arq {
            frame_loss, frame_size, repair_delay, max_transmissions,
        });
        link.codel = codel.map(|(target, interval)| Codel { target, interval });
        link.policer = policer.map(|(rate, burst)| Policer { rate: BitRate::bps(rate), burst });
        link.reordering = reordering.map(|(share, extra_delay, distance)| Reordering {
            share, extra_delay, max_distance: distance.into(),
        });
        (link.duplication, link.corruption) = shares;
        link
    }
}

proptest! {
    #[test]
    fn arbitrary_text_does_not_panic(text in "(\\PC|\n){0,200}") {
        let _ = parse_links(&text, |_| Ok("1\n".to_owned()));
    }

    #[test]
    fn links_survive_a_round_trip_through_toml(down in link(), up in link(), change in time(ms(1 << 30))) {
        let mut hop = HopConfig::new(down, up);
        hop.address_changes = AddressChanges::at([Timestamp::ZERO + change]);
        let text = LinkDefinition { name: "mine".to_owned(), hop: hop.clone() }.to_toml().unwrap();
        prop_assert_eq!(only(&text), hop);
    }

    #[test]
    fn arbitrary_values_do_not_panic(links in proptest::collection::vec(
        proptest::collection::btree_map(field(), value(), 0..8), 1..4,
    )) {
        let mut text = String::new();
        for (number, keys) in links.iter().enumerate() {
            text += &format!("[link.l{number}]\n");
            for (key, value) in keys {
                text += &format!("{key} = {value}\n");
            }
        }
        match parse_links(&text, |_| Ok("1\n".to_owned())) {
            Ok(links) => {
                // Every accepted link is usable, and can be written again.
                for link in links {
                    prop_assert!(link.rate_down() > BitRate::bps(0));
                    if let Ok(text) = link.to_toml() {
                        prop_assert_eq!(only(&text), link.hop);
                    }
                }
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}
