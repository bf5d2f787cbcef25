//! The bytes of one message of each kind and of each record: what other versions of the programs send.
use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn page(fetch: u64) -> PageId {
    PageId::of(id(fetch))
}

fn entry(number: u32) -> EntryId {
    EntryId::new(number)
}

#[track_caller]
fn assert_message(message: &Message, bytes: &str) {
    let mut wire = Vec::new();
    encode(message, &mut wire).unwrap();
    assert_eq!(hex(&wire), bytes, "{message:?}");
    let decoded = decode(&wire).unwrap();
    assert_eq!(decoded, Some((Some(message.clone()), wire.len())));
}

#[track_caller]
fn assert_record(record: &Record, bytes: &str) {
    let mut wire = Vec::new();
    encode_record(record, &mut wire).unwrap();
    assert_eq!(hex(&wire), bytes, "{record:?}");
    let mut reader = RecordReader::new();
    reader.push(&wire);
    assert_eq!(reader.next().unwrap().as_ref(), Some(record));
}

/// A header set without base: the field `x: y`.
fn without_base() -> HeaderSet {
    encode_header_set(&fields(&[("x", "y")]), id(5), None, &HeaderSets::new()).unwrap()
}

/// A header set that equals the set of fetch 3.
fn with_base() -> HeaderSet {
    let mut sets = HeaderSets::new();
    sets.insert(id(3), fields(&[("x", "y")]));
    encode_header_set(&fields(&[("x", "y")]), id(5), Some(id(3)), &sets).unwrap()
}

fn object() -> Fetch {
    Fetch {
        id: id(5),
        method: Method::Get,
        url_shared: 17,
        url: "b.css".to_owned(),
        headers: with_base(),
        kind: FetchKind::Object,
        has_body: false,
        page: Some(page(4)),
        held: None,
        manifest: None,
        holding: Vec::new(),
        delivery: Delivery::Any,
        connection: None,
        client: ClientId::OWNER,
        unpartitioned: false,
        seen: Some(id(3)),
        resume: None,
    }
}

#[test]
fn messages_of_the_session_have_these_bytes() {
    let introduction = Hello {
        versions: VersionRange { oldest: 2, newest: 2 },
        software: "a/1".to_owned(),
        link: Some(LinkHint {
            down_bps: 39_600,
            up_bps: 13_400,
            rtt_ms: 660,
        }),
        cache_state: CacheStateId::new(300),
        preferences: Preferences::default(),
    };
    assert_message(
        &Message::Hello(introduction.clone()),
        "011c020203612f3101fbb09afb5834fb9402fb2c01fb5605fb0003640000",
    );
    assert_message(
        &Message::Hello(Hello {
            link: None,
            cache_state: None,
            ..introduction
        }),
        "0111020203612f310000fb5605fb0003640000",
    );
    let welcome = Welcome {
        version: Some(2),
        versions: VersionRange { oldest: 2, newest: 2 },
        software: "g/1".to_owned(),
        mirror: MirrorState::Agreed,
    };
    assert_message(&Message::Welcome(welcome.clone()), "020802020203672f3100");
    assert_message(
        &Message::Welcome(Welcome {
            version: None,
            mirror: MirrorState::Unknown,
            ..welcome
        }),
        "020800020203672f3101",
    );
    assert_message(
        &Message::Preferences(Preferences {
            images: ImageLevel::Text,
            mixing: Mixing::Accepted,
            ..Preferences::default()
        }),
        "1409fb5605fb0003640401",
    );
    assert_message(&Message::Dictionaries(Dictionaries { set: 300 }), "1503fb2c01");
    assert_message(&Message::AssociationOpen(AssociationOpen { id: id(5) }), "1d0105");
    assert_message(
        &Message::AssociationAccept(AssociationAccept { id: id(5) }),
        "1e0105",
    );
    assert_message(&Message::Announcement(Announcement::default()), "1c03000000");
    assert_message(
        &Message::Announcement(Announcement {
            portal_port: Some(80),
            certificate: None,
            udp_ports: vec![443],
        }),
        "1c0701500001fbbb01",
    );
    assert_message(
        &Message::AcceleratedHosts(AcceleratedHosts::AllBut(vec!["a.test".to_owned()])),
        "1609020106612e74657374",
    );
    assert_message(
        &Message::SiteImages(SiteImages {
            levels: vec![("a.test".to_owned(), ImageLevel::Low)],
        }),
        "1f090106612e7465737403",
    );
    assert_message(
        &Message::Notice(Notice {
            text: "text".to_owned(),
        }),
        "0b050474657874",
    );
    assert_message(
        &Message::Forget(Forget {
            id: ForgetId::new(3),
            client: Some(ClientId(9)),
            site: Some("a.test".to_owned()),
        }),
        "170b0301090106612e74657374",
    );
    assert_message(&Message::Forgotten(Forgotten { id: ForgetId::new(3) }), "180103");
}

#[test]
fn fetches_have_these_bytes() {
    assert_message(&Message::Fetch(object()), "030e05001105622e6373730300040300");
    let first = Fetch {
        id: id(1),
        url_shared: 0,
        url: "http://a.test/".to_owned(),
        headers: without_base(),
        kind: FetchKind::Page,
        page: None,
        seen: None,
        ..object()
    };
    assert_message(
        &Message::Fetch(first.clone()),
        "03260100000e687474703a2f2f612e746573742f0001040178017900000100000000000000000000",
    );
    let with_all_members = Fetch {
        id: id(70_000),
        method: Method::Other("PURGE".to_owned()),
        kind: FetchKind::Object,
        has_body: true,
        page: Some(page(300)),
        held: Some(ContentHash::from_bytes([1; 32])),
        manifest: Some(ManifestId::from_bytes([2; 8])),
        holding: vec![ShortHash::from_bytes([3; 6]); 2],
        delivery: Delivery::Plain,
        connection: BoundConnectionId::new(9),
        client: ClientId(1 << 40),
        unpartitioned: true,
        seen: Some(id(69_999)),
        resume: Some(Resume {
            offset: 1000,
            validator: Validator::ContentHash(ContentHash::from_bytes([4; 32])),
        }),
        ..first
    };
    assert_message(
        &Message::Fetch(with_all_members),
        "034096fc7011010007055055524745000e687474703a2f2f612e746573742f00010401780179fb2c01fc6f1101\
         000101010101010101010101010101010101010101010101010101010101010101010101010102020202020202\
         02020303030303030303030303030209fd00000000000100000101fbe803020404040404040404040404040404\
         040404040404040404040404040404040404",
    );
}

#[test]
fn answers_have_these_bytes() {
    assert_message(
        &Message::Head(Head {
            fetch: id(5),
            status: 200,
            headers: with_base(),
            body: BodyPlace::Held,
            content_hash: Some(ContentHash::from_bytes([5; 32])),
        }),
        "042605c8030002010505050505050505050505050505050505050505050505050505050505050505",
    );
    assert_message(
        &Message::Body(Body {
            coding: BodyCoding::Brotli,
            length: Some(70_000),
            offset: 10,
            base: Some(ShortHash::from_bytes([6; 6])),
        }),
        "050f0201fc701101000a01060606060606",
    );
    assert_message(
        &Message::Failed(Failed {
            fetch: id(5),
            reason: FailureReason::TlsExpired,
            detail: "why".to_owned(),
        }),
        "0606050503776879",
    );
    assert_message(&Message::Cancel(Cancel { fetch: id(5) }), "070105");
    assert_message(&Message::Continue(Continue { fetch: id(5) }), "200105");
    assert_message(
        &Message::TunnelOpen(TunnelOpen {
            id: id(6),
            host: "a.test".to_owned(),
            port: 443,
            security: TunnelSecurity::Tls,
        }),
        "080c0606612e74657374fbbb0101",
    );
    assert_message(&Message::TunnelAccept(TunnelAccept { id: id(6) }), "090106");
    assert_message(
        &Message::TunnelFailed(TunnelFailed {
            id: id(6),
            reason: FailureReason::DnsNotFound,
            detail: "why".to_owned(),
        }),
        "0a06060003776879",
    );
}

#[test]
fn messages_of_page_bundles_have_these_bytes() {
    assert_message(
        &Message::Manifest(Manifest {
            page: page(4),
            base: Some(ManifestId::from_bytes([7; 8])),
        }),
        "0c0a04010707070707070707",
    );
    assert_message(
        &Message::Push(Push {
            page: page(4),
            entry: entry(300),
        }),
        "0d0404fb2c01",
    );
    assert_message(
        &Message::Promised(Promised {
            fetch: id(5),
            page: page(4),
            entry: entry(300),
        }),
        "0e050504fb2c01",
    );
    assert_message(
        &Message::Want(Want {
            page: page(4),
            entry: entry(300),
        }),
        "0f0404fb2c01",
    );
    assert_message(
        &Message::Ask(Ask {
            page: page(4),
            entries: vec![entry(7), entry(300)],
        }),
        "1006040207fb2c01",
    );
    let is_taken = |entry: EntryId| [0, 9].contains(&entry.number());
    assert_message(&Message::Used(Used::new(page(4), 20, is_taken)), "110404020102");
    assert_message(
        &Message::Evicted(Evicted {
            hashes: vec![ShortHash::from_bytes([8; 6])],
        }),
        "120701080808080808",
    );
    assert_message(
        &Message::Holding(Holding {
            page: page(4),
            hashes: vec![ShortHash::from_bytes([8; 6])],
        }),
        "13080401080808080808",
    );
}

#[test]
fn records_have_these_bytes() {
    assert_record(
        &Record::Entry(Entry {
            url: "/a.css".to_owned(),
            destination: 2,
        }),
        "0900062f612e63737302",
    );
    let head = EntryHead {
        entry: entry(300),
        status: 200,
        scope: Scope::ThisPage,
        vary: Some([1; 8]),
        shape: 513,
        cookie: Some([2; 8]),
        body: EntryBody::SameAs { entry: entry(299) },
        fields: fields(&[("x", "y")]),
    };
    assert_record(
        &Record::Head(head),
        "2401fb2c01c801010101010101010101fb010201020202020202020204fb2b010101780179",
    );
    assert_record(
        &Record::Head(EntryHead {
            entry: entry(1),
            status: 304,
            scope: Scope::Reusable,
            vary: None,
            shape: 0,
            cookie: None,
            body: EntryBody::Held { hash: [3; 16] },
            fields: Vec::new(),
        }),
        "1b0101fb300100000000020303030303030303030303030303030300",
    );
    assert_record(
        &Record::Withdrawn {
            entry: entry(300),
            reason: Withdrawal::Budget,
        },
        "0502fb2c0103",
    );
    assert_record(&Record::Planned, "0103");
    assert_record(
        &Record::Failed(EntryFailure {
            entry: entry(300),
            reason: FailureReason::DnsNotFound,
            detail: "why".to_owned(),
        }),
        "0904fb2c010003776879",
    );
    assert_record(
        &Record::Absent(AbsentHost {
            origin: "http://a.test".to_owned(),
            reason: FailureReason::ConnectionRefused,
            detail: "why".to_owned(),
            seconds: 30,
        }),
        "15050d687474703a2f2f612e7465737402037768791e",
    );
}
