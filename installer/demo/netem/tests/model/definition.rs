mod mistakes;
mod random;

use std::{io, time::Duration};

use longhaul_netem::{
    AddressChanges, Arq, Capacity, Codel, DeliveryTrace, GilbertElliott, HopConfig, LinkConfig,
    LinkDefinition, LinkFileError, Loss, NotExpressible, Outage, OutageSchedule, Policer, Probability,
    Profile, Reordering, WhileOut, parse_links,
};
use longhaul_types::{BitRate, ByteCount, Timestamp};

fn no_trace(path: &str) -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no {path} here")))
}

fn parse(text: &str) -> Result<Vec<LinkDefinition>, LinkFileError> {
    parse_links(text, no_trace)
}

/// Returns the only link of this text.
fn only(text: &str) -> HopConfig {
    let links = parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let [link] = links.as_slice() else {
        panic!("one link in {text}")
    };
    link.hop.clone()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + ms(millis)
}

#[test]
fn every_built_in_profile_can_be_written_and_read_back() {
    for link in LinkDefinition::built_in() {
        let text = link.to_toml().unwrap();
        // A definition may not use a built-in name.
        let text = text.replace(&link.name, "mine");
        assert_eq!(only(&text), link.hop, "{text}");
        let inherited = format!("[link.mine]\nbase = \"{}\"", link.name);
        assert_eq!(only(&inherited), link.hop);
    }
}

#[test]
fn a_definition_has_the_nominal_numbers_of_its_profile() {
    for profile in Profile::all() {
        let link = LinkDefinition::from(profile);
        assert_eq!(link.rate_down(), profile.rate_down(), "{}", profile.name());
        assert_eq!(link.rate_up(), profile.rate_up(), "{}", profile.name());
        assert_eq!(link.rtt(), profile.rtt(), "{}", profile.name());
    }
}

fn everything() -> HopConfig {
    let p = |value| Probability::new(value).unwrap();
    let mut down = LinkConfig::new(
        Capacity::Rate(BitRate::bps(39_600)),
        Duration::from_micros(2500),
        ByteCount::kb(120),
    );
    down.jitter = ms(60);
    down.mtu = Some(ByteCount::new(1400));
    down.loss = Loss::Bursts(GilbertElliott {
        p_gb: p(0.01),
        p_bg: p(0.2),
        loss_good: p(0.0),
        loss_bad: p(0.5),
    });
    down.arq = Some(Arq {
        frame_loss: p(0.2),
        frame_size: ByteCount::new(320),
        repair_delay: ms(150),
        max_transmissions: 32,
    });
    down.codel = Some(Codel::RFC_8289);
    down.policer = Some(Policer {
        rate: BitRate::kbps(30),
        burst: ByteCount::kib(32),
    });
    down.reordering = Some(Reordering {
        share: p(0.01),
        extra_delay: ms(20),
        max_distance: 3,
    });
    down.duplication = p(0.001);
    down.corruption = p(1e-7);
    let outage = |start, length, behaviour| Outage {
        start: at(start),
        length: ms(length),
        behaviour,
    };
    let outages = vec![
        outage(60_000, 40_000, WhileOut::Drop),
        outage(20_000, 5_000, WhileOut::Hold),
    ];
    down.outages = OutageSchedule::new(outages).unwrap();
    let up = LinkConfig::new(Capacity::Rate(BitRate::bps(13_400)), ms(300), ByteCount::kb(60));
    let mut hop = HopConfig::new(down, up);
    hop.address_changes = AddressChanges::at([at(90_000), at(30_000)]);
    hop
}

#[test]
fn every_key_sets_its_property() {
    let text = r#"
        [link.mine]
        rate = { down = "39.6 kbit/s", up = "13400 bit/s" }
        delay = { down = "2.5 ms", up = "0.3 s" }
        jitter = { down = "60 ms" }
        queue = { down = "120 kB", up = "60000 B" }
        mtu = { down = "1400 B" }
        loss = { down = { p-good-bad = "1 %", p-bad-good = 0.2, loss-good = 0, loss-bad = 0.5 } }
        arq = { down = { frame-loss = 0.2, frame-size = "320 B", repair-delay = "150 ms", max-transmissions = 32 } }
        codel = { down = "rfc-8289" }
        policer = { down = { rate = "30 kbit/s", burst = "32 KiB" } }
        reordering = { down = { share = 0.01, extra-delay = "20 ms", max-distance = 3 } }
        duplication = { down = 0.001 }
        corruption = { down = 1e-7 }
        address-changes = ["30 s", "1.5 min"]
        [[link.mine.outages.down]]
        start = "20 s"
        length = "5 s"
        behaviour = "hold"
        [[link.mine.outages.down]]
        start = "1 min"
        length = "40 s"
        behaviour = "drop"
    "#;
    assert_eq!(only(text), everything());
    let link = LinkDefinition {
        name: "mine".to_owned(),
        hop: everything(),
    };
    assert_eq!(only(&link.to_toml().unwrap()), everything());
}

#[test]
fn a_base_is_inherited_and_its_keys_can_be_disabled() {
    let full = LinkDefinition {
        name: "full".to_owned(),
        hop: everything(),
    };
    let text = format!(
        "{}\n[link.bare]\nbase = \"full\"\nmtu = \"off\"\nloss = 0\narq = \"off\"\ncodel = \"off\"\n\
         policer = \"off\"\nreordering = \"off\"\nduplication = 0\ncorruption = 0\noutages = []\njitter = \"0 ms\"\n\
         address-changes = []\n[link.again]\nbase = \"bare\"\nloss = {{ up = \"3 %\" }}",
        full.to_toml().unwrap()
    );
    let links = parse(&text).unwrap();
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["again", "bare", "full"]);
    let plain = |link: &LinkConfig| LinkConfig::new(link.capacity.clone(), link.delay, link.queue);
    let hop = everything();
    let mut expected = HopConfig::new(plain(&hop.down), plain(&hop.up));
    assert_eq!(links[1].hop, expected);
    expected.up.loss = Loss::Random(Probability::per_mille(30));
    assert_eq!(links[0].hop, expected);
}

#[test]
fn traces_are_read_once_and_begin_at_their_offset() {
    let text = r#"
        [link.car]
        trace = { down = "car.down", up = "car.up" }
        delay = "20 ms"
        queue = "64 kB"
        [link.car-later]
        base = "car"
        trace-offset = "2 s"
        [link.one-way]
        rate = { up = "64 kbit/s" }
        trace = { down = "car.down" }
        trace-offset = "2 s"
        delay = "20 ms"
        queue = "64 kB"
    "#;
    let mut asked = Vec::new();
    let trace = "1000\n2000\n2000\n3000\n";
    let links = parse_links(text, |path| {
        asked.push(path.to_owned());
        Ok(trace.to_owned())
    })
    .unwrap();
    asked.sort();
    assert_eq!(asked, ["car.down", "car.up"]);
    let parsed = DeliveryTrace::parse(trace).unwrap();
    let later = Capacity::Trace(parsed.clone().starting_at(Duration::from_secs(2)));
    assert_eq!(links[0].hop.up.capacity, Capacity::Trace(parsed));
    assert_eq!(links[1].hop.down.capacity, later);
    assert_eq!(links[2].hop.down.capacity, later);
    assert_eq!(links[2].hop.up.capacity, Capacity::Rate(BitRate::kbps(64)));
    for link in &links {
        // Four opportunities of 1500 bytes in three seconds, wherever the window begins.
        assert_eq!(link.rate_down(), BitRate::bps(16_000));
        assert_eq!(link.to_toml(), Err(NotExpressible));
    }
    let direct = LinkDefinition::from_traces("car", trace, trace, ms(20), ByteCount::kb(64)).unwrap();
    assert_eq!(direct, links[0]);
    assert!(LinkDefinition::from_traces("car", trace, "soon", ms(20), ByteCount::kb(64)).is_err());
}

#[test]
fn the_example_is_valid() {
    let links = parse(include_str!("../../links.example.toml")).unwrap();
    let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["cell-edge", "gprs-outages", "policed-dsl"]);
    let outages: Vec<_> = links[1].hop.down.outages.outages().collect();
    assert_eq!(outages.len(), 3);
    for outage in &outages {
        // The range of GPRS-WWW.
        assert!((5..=40).contains(&outage.length.as_secs()));
    }
    assert!(outages.is_sorted_by_key(|outage| outage.start));
    assert_eq!(links[2].hop.up.codel, Some(Codel::RFC_8289));
    assert_eq!(links[2].hop.down.codel, None);
}
