use proptest::prelude::*;

use longhaul_types::{ClientId, ContentHash};

use super::*;

mod fixed_bytes;

fn fields(list: &[(&str, &str)]) -> Vec<HeaderField> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

fn id(number: u64) -> FetchId {
    FetchId::new(number)
}

fn hello() -> Message {
    Message::Hello(Hello {
        versions: VersionRange::OURS,
        software: "longhaul-agent/0.1.0".to_owned(),
        link: Some(LinkHint {
            down_bps: 39_600,
            up_bps: 13_400,
            rtt_ms: 660,
        }),
        cache_state: None,
        preferences: Preferences::default(),
    })
}

#[test]
fn messages_are_read_whole_however_the_stream_is_split() {
    let mut wire = Vec::new();
    encode(&hello(), &mut wire).unwrap();
    wire.extend_from_slice(&[0x7f, 0x00, 2, 1, 2]); // an unknown kind with two bytes of payload
    encode(&Message::Cancel(Cancel { fetch: id(7) }), &mut wire).unwrap();
    wire.extend_from_slice(b"raw");
    for cut in 1..wire.len() {
        let mut reader = MessageReader::new();
        let mut found = Vec::new();
        for part in [&wire[..cut], &wire[cut..]] {
            reader.push(part);
            while found.len() < 2
                && let ReadEvent::Message(message) = reader.next().unwrap()
            {
                found.push(message);
            }
        }
        assert_eq!(found, [hello(), Message::Cancel(Cancel { fetch: id(7) })]);
        assert_eq!(reader.take_rest().as_ref(), b"raw");
    }
}

#[test]
fn malformed_envelopes_give_their_own_errors() {
    assert_eq!(decode(&[0x40, 0x01, 0]), Err(EnvelopeError::Malformed));
    assert_eq!(
        decode(&[3, 0x80, 0x10, 0, 0]),
        Err(EnvelopeError::TooLarge(1 << 20))
    );
    assert_eq!(decode(&[7, 3, 1, 2, 3]), Err(EnvelopeError::Payload { kind: 7 }));
    assert_eq!(decode(&[7]), Ok(None));
}

#[test]
fn repeated_request_headers_cost_a_few_bytes() {
    let first = fields(&[
        ("host", "site.test"),
        (
            "user-agent",
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0 Safari/537.36",
        ),
        ("accept", "text/css,*/*;q=0.1"),
        ("referer", "http://site.test/"),
        ("accept-language", "en-US,en;q=0.9"),
    ]);
    let mut second = first.clone();
    second[2].1 = b"*/*".to_vec();
    let mut sender = HeaderSets::new();
    let mut receiver = HeaderSets::new();
    let set = encode_header_set(&first, id(1), None, &sender).unwrap();
    assert_eq!(decode_header_set(&set, id(1), &receiver).unwrap(), first);
    sender.insert(id(1), first.clone());
    receiver.insert(id(1), first);
    let set = encode_header_set(&second, id(2), Some(id(1)), &sender).unwrap();
    assert_eq!(decode_header_set(&set, id(2), &receiver).unwrap(), second);
    let size = bincode::encode_to_vec(&set, bincode::config::standard())
        .unwrap()
        .len();
    assert!(size <= 12, "{size} bytes");
    assert_eq!(
        decode_header_set(&set, id(2), &HeaderSets::new()),
        Err(HeaderSetError::UnknownBase)
    );
}

#[test]
fn sets_and_sections_are_bounded() {
    let mut sets = HeaderSets::new();
    for fetch in 1..1000 {
        sets.insert(id(fetch), fields(&[("a", "b")]));
    }
    let near = encode_header_set(&fields(&[("a", "b")]), id(1000), Some(id(990)), &sets).unwrap();
    assert_eq!(
        decode_header_set(&near, id(1000), &sets).unwrap(),
        fields(&[("a", "b")])
    );
    let old = encode_header_set(&fields(&[("a", "b")]), id(1000), Some(id(700)), &sets).unwrap();
    assert_eq!(
        decode_header_set(&old, id(1000), &HeaderSets::new()).unwrap(),
        fields(&[("a", "b")])
    );
    let huge = vec![("x".to_owned(), vec![b'x'; 1_000_000])];
    assert_eq!(
        encode_header_set(&huge, id(1), None, &sets),
        Err(HeaderSetError::TooLarge)
    );
}

fn any_fields() -> impl Strategy<Value = Vec<HeaderField>> {
    let name = prop_oneof![
        Just("accept".to_owned()),
        Just("cookie".to_owned()),
        Just("content-type".to_owned()),
        "[a-z][a-z-]{0,12}"
    ];
    let value = prop_oneof![
        Just(b"*/*".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40)
    ];
    proptest::collection::vec((name, value), 0..30)
}

/// Fields of a Chromium request over http through a proxy, as sent over the hop.
fn chromium(accept: &str, referer: Option<&str>) -> Vec<HeaderField> {
    let agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36";
    let mut list = vec![("user-agent", agent), ("accept", accept)];
    list.extend(referer.map(|referer| ("referer", referer)));
    list.extend([
        ("accept-encoding", "gzip, deflate"),
        ("accept-language", "en-US,en;q=0.9"),
        ("cookie", "sid=7f3a9c2e41"),
        ("via", "1.1 longhaul"),
    ]);
    fields(&list)
}

#[test]
fn request_headers_take_at_most_these_bytes() {
    const PAGE: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
    const IMAGE: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
    let (mut sender, mut receiver) = (HeaderSets::new(), HeaderSets::new());
    let news = "http://www.site.test/news/2026/";
    let requests = [
        ("http://www.site.test/", chromium(PAGE, None), 90),
        (
            "http://www.site.test/img/label18-04.gif",
            chromium(IMAGE, Some("http://www.site.test/")),
            65,
        ),
        (
            "http://www.site.test/img/icon22-88.gif",
            chromium(IMAGE, Some("http://www.site.test/")),
            24,
        ),
        (news, chromium(PAGE, Some("http://www.site.test/")), 40),
        (
            "http://www.site.test/img/photo7.jpg",
            chromium(IMAGE, Some(news)),
            65,
        ),
        (
            "http://www.site.test/img/photo8.jpg",
            chromium(IMAGE, Some(news)),
            19,
        ),
    ];
    let (mut id, mut previous) = (FetchId::FIRST, None);
    for (url, fields, most) in requests {
        let coded = encode_request(url, &fields, id, previous, &sender).unwrap();
        let restored = decode_url(coded.url_shared, &coded.url, &coded.headers, id, &receiver).unwrap();
        assert_eq!(restored, url);
        assert_eq!(decode_header_set(&coded.headers, id, &receiver).unwrap(), fields);
        if coded.url_shared > 0 {
            let without = decode_url(
                coded.url_shared,
                &coded.url,
                &coded.headers,
                id,
                &HeaderSets::new(),
            );
            assert_eq!(without, Err(HeaderSetError::UnknownBase));
        }
        sender.insert_request(id, url.to_owned(), fields.clone());
        receiver.insert_request(id, restored, fields);
        let fetch = Fetch {
            id,
            method: Method::Get,
            url_shared: coded.url_shared,
            url: coded.url,
            headers: coded.headers,
            kind: FetchKind::Object,
            has_body: false,
            held: None,
            page: Some(PageId::of(FetchId::FIRST)),
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: None,
            client: ClientId::OWNER,
            unpartitioned: false,
            seen: previous,
            resume: None,
        };
        let mut wire = Vec::new();
        encode(&Message::Fetch(fetch), &mut wire).unwrap();
        println!("{url}: {} bytes", wire.len());
        assert!(wire.len() <= most, "{url}: {} bytes", wire.len());
        (previous, id) = (Some(id), id.next());
    }
}

#[test]
fn an_origin_report_of_a_page_takes_few_bytes() {
    let report = OriginReport {
        heads: Flow {
            origin: 9_000,
            hop: 1_500,
        },
        coding: Flow {
            origin: 60_000,
            hop: 20_000,
        },
        pictures: Flow {
            origin: 300_000,
            hop: 40_000,
        },
        ..OriginReport::default()
    };
    let mut wire = Vec::new();
    encode(&Message::OriginReport(report), &mut wire).unwrap();
    assert!(wire.len() <= 28, "{} bytes", wire.len());
    let mut empty = Vec::new();
    encode(&Message::OriginReport(OriginReport::default()), &mut empty).unwrap();
    assert_eq!(empty.len(), 13);
    let many = OriginReport {
        unchanged_entries: vec![
            UnchangedEntry {
                page: PageId::of(FetchId::new(u64::MAX)),
                entry: EntryId::new(u32::MAX)
            };
            OriginReport::MAX_ENTRIES
        ],
        ..OriginReport::default()
    };
    assert!(encode(&Message::OriginReport(many), &mut Vec::new()).is_ok());
}

#[test]
fn url_prefixes_end_at_character_boundaries() {
    let mut sets = HeaderSets::new();
    sets.insert_request(id(1), "http://site.test/\u{e4}".to_owned(), fields(&[("a", "b")]));
    let other = "http://site.test/\u{e5}";
    let coded = encode_request(other, &fields(&[("a", "b")]), id(2), Some(id(1)), &sets).unwrap();
    assert_eq!((coded.url_shared, coded.url.as_str()), (17, "\u{e5}"));
    let decoded = |shared| decode_url(shared, "x", &coded.headers, id(2), &sets);
    assert_eq!(decoded(18), Err(HeaderSetError::BadIndex), "within a character");
    assert_eq!(decoded(19).unwrap(), "http://site.test/\u{e4}x");
    assert_eq!(decoded(20), Err(HeaderSetError::BadIndex));
    assert_eq!(decoded(0).unwrap(), "x");
}

#[test]
fn the_longest_lists_that_fit_an_envelope_are_decoded() {
    for message in [
        Message::AcceleratedHosts(AcceleratedHosts::Only(vec![String::new(); 250_000])),
        Message::Evicted(Evicted {
            hashes: vec![ShortHash::from_bytes([6; 6]); 40_000],
        }),
    ] {
        let mut wire = Vec::new();
        encode(&message, &mut wire).unwrap();
        assert_eq!(decode(&wire).unwrap(), Some((Some(message), wire.len())));
    }
    // A list that claims to be longer than its payload.
    let payload = [1, 253, 255, 255, 255, 255, 0, 0, 0, 0];
    let mut wire = vec![22, 10];
    wire.extend_from_slice(&payload);
    assert!(matches!(decode(&wire), Err(EnvelopeError::Payload { kind: 22 })));
}

proptest! {
    #[test]
    fn header_sets_round_trip(base in any_fields(), fields in any_fields()) {
        let mut sets = HeaderSets::new();
        sets.insert(id(5), base);
        let set = encode_header_set(&fields, id(6), Some(id(5)), &sets).unwrap();
        prop_assert_eq!(decode_header_set(&set, id(6), &sets).unwrap(), fields);
    }

    #[test]
    fn messages_round_trip(number in 1..=u64::MAX, url in ".{0,60}", status in 200u16..600, base in any_fields()) {
        let fetch = id(number);
        let (page, entry) = (PageId::of(fetch), EntryId::new(7));
        let set = encode_header_set(&base, fetch, None, &HeaderSets::new()).unwrap();
        let messages = [
            Message::Fetch(Fetch {
                id: fetch, method: Method::Other(url.clone()), url_shared: status, url: url.clone(), headers: set.clone(), kind: FetchKind::Page,
                has_body: true, page: Some(page), held: Some(ContentHash::from_bytes([3; 32])), manifest: Some(ManifestId::from_bytes([4; 8])), holding: vec![ShortHash::from_bytes([5; 6])], delivery: Delivery::Any, connection: BoundConnectionId::new(number),
                client: ClientId(number), unpartitioned: true, seen: (number > 1).then(|| id(number / 2)),
                resume: Some(Resume { offset: number, validator: Validator::EntityTag(url.clone()) }),
            }),
            Message::Head(Head { fetch, status, headers: set, body: BodyPlace::Held, content_hash: None }),
            Message::Manifest(Manifest { page, base: Some(ManifestId::from_bytes([1; 8])) }),
            Message::Push(Push { page, entry }),
            Message::Promised(Promised { fetch, page, entry }),
            Message::Want(Want { page, entry }),
            Message::Ask(Ask { page, entries: vec![entry, EntryId::new(300)] }),
            Message::Used(Used::new(page, 9, |entry| entry.number() % 2 == 0)),
            Message::Evicted(Evicted { hashes: vec![ShortHash::from_bytes([6; 6]); 3] }),
            Message::Holding(Holding { page, hashes: vec![ShortHash::from_bytes([6; 6]); 3] }),
            Message::Preferences(Preferences { images: ImageLevel::Text, ..Preferences::default() }),
            Message::Dictionaries(Dictionaries { set: 300 }),
            Message::Forget(Forget {
                id: ForgetId::new(3),
                client: Some(ClientId(9)),
                site: Some("site.test".to_owned()),
            }),
            Message::Forgotten(Forgotten { id: ForgetId::new(3) }),
            Message::KeyWanted(KeyWanted {}),
            Message::NewKey(NewKey { key: [9; 32] }),
            Message::AssociationOpen(AssociationOpen { id: id(9) }),
            Message::AssociationAccept(AssociationAccept { id: id(9) }),
            Message::Announcement(Announcement { portal_port: Some(80), certificate: Some([9; 32]), udp_ports: vec![4433, 443] }),
            Message::OriginReport(OriginReport {
                heads: Flow { origin: number, hop: 1 },
                coding: Flow { origin: 1, hop: number },
                base: Flow::default(),
                pictures: Flow { origin: 70_000, hop: 300 },
                unchanged: number,
                tunnels: 5,
                unchanged_entries: vec![UnchangedEntry { page: PageId::of(FetchId::new(number)), entry: EntryId::new(9) }],
            }),
            Message::AcceleratedHosts(AcceleratedHosts::AllBut(vec![url.clone(), "a.test".to_owned()])),
            Message::SiteImages(SiteImages { levels: vec![(url.clone(), ImageLevel::Low), ("a.test".to_owned(), ImageLevel::Original)] }),
            Message::Body(Body { coding: BodyCoding::Brotli, length: Some(number), offset: 0, base: None }),
            Message::Failed(Failed { fetch, reason: FailureReason::TlsExpired, detail: url.clone() }),
            Message::TunnelOpen(TunnelOpen { id: fetch, host: url.clone(), port: status, security: TunnelSecurity::Tls }),
            Message::Notice(Notice { text: url }),
        ];
        for message in messages {
            let mut wire = Vec::new();
            encode(&message, &mut wire).unwrap();
            prop_assert_eq!(decode(&wire).unwrap(), Some((Some(message), wire.len())));
        }
    }

    #[test]
    fn any_bytes_decode_or_fail_cleanly(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut reader = MessageReader::new();
        reader.push(&bytes);
        while let Ok(ReadEvent::Message(_)) = reader.next() {}
    }
}

#[test]
fn literal_fields_are_decoded_like_shared_ones() {
    let list = fields(&[
        ("accept", "text/html"),
        ("user-agent", "a browser"),
        ("accept", "text/html"),
    ]);
    for coding in [FieldCoding::Shared, FieldCoding::Literal] {
        let mut sets = HeaderSets::with_coding(coding);
        let url = "http://a.test/story/1".to_owned();
        sets.insert_request(id(1), url, list.clone());
        let coded = encode_request("http://a.test/story/2", &list, id(2), Some(id(1)), &sets).unwrap();
        assert_eq!(coded.url_shared > 0, coding == FieldCoding::Shared);
        let usual = HeaderSets::new();
        let known = if coding == FieldCoding::Shared {
            &sets
        } else {
            &usual
        };
        assert_eq!(decode_header_set(&coded.headers, id(2), known).unwrap(), list);
        let decoded = decode_url(coded.url_shared, &coded.url, &coded.headers, id(2), known);
        assert_eq!(decoded.unwrap(), "http://a.test/story/2");
    }
}
