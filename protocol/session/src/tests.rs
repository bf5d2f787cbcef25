use proptest::prelude::*;

use longhaul_types::ClientId;

use super::*;

fn fields(list: &[(&str, &str)]) -> Vec<HeaderField> {
    list.iter()
        .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
        .collect()
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
        cache_state: 0,
        preferences: Preferences::default(),
    })
}

#[test]
fn messages_are_read_whole_however_the_stream_is_split() {
    let mut wire = Vec::new();
    encode(&hello(), &mut wire).unwrap();
    wire.extend_from_slice(&[0x7f, 0x00, 2, 1, 2]); // an unknown kind with two bytes of payload
    encode(&Message::Cancel(Cancel { fetch: 7 }), &mut wire).unwrap();
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
        assert_eq!(found, [hello(), Message::Cancel(Cancel { fetch: 7 })]);
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
    let set = encode_header_set(&first, 1, 0, &sender).unwrap();
    assert_eq!(decode_header_set(&set, 1, &receiver).unwrap(), first);
    sender.insert(1, first.clone());
    receiver.insert(1, first);
    let set = encode_header_set(&second, 2, 1, &sender).unwrap();
    assert_eq!(decode_header_set(&set, 2, &receiver).unwrap(), second);
    let size = bincode::encode_to_vec(&set, bincode::config::standard())
        .unwrap()
        .len();
    assert!(size <= 12, "{size} bytes");
    assert_eq!(
        decode_header_set(&set, 2, &HeaderSets::new()),
        Err(HeaderSetError::UnknownBase)
    );
}

#[test]
fn sets_and_sections_are_bounded() {
    let mut sets = HeaderSets::new();
    for fetch in 1..1000 {
        sets.insert(fetch, fields(&[("a", "b")]));
    }
    let near = encode_header_set(&fields(&[("a", "b")]), 1000, 990, &sets).unwrap();
    assert_eq!(
        decode_header_set(&near, 1000, &sets).unwrap(),
        fields(&[("a", "b")])
    );
    let old = encode_header_set(&fields(&[("a", "b")]), 1000, 700, &sets).unwrap();
    assert_eq!(
        decode_header_set(&old, 1000, &HeaderSets::new()).unwrap(),
        fields(&[("a", "b")])
    );
    let huge = vec![("x".to_owned(), vec![b'x'; 1_000_000])];
    assert_eq!(
        encode_header_set(&huge, 1, 0, &sets),
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
    for (id, (url, fields, most)) in (1_u64..).zip(requests) {
        let coded = encode_request(url, &fields, id, id - 1, &sender).unwrap();
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
            page: 1,
            manifest: None,
            holding: Vec::new(),
            delivery: Delivery::Any,
            connection: 0,
            client: ClientId::OWNER,
            unpartitioned: false,
            seen: id - 1,
            resume: None,
        };
        let mut wire = Vec::new();
        encode(&Message::Fetch(fetch), &mut wire).unwrap();
        println!("{url}: {} bytes", wire.len());
        assert!(wire.len() <= most, "{url}: {} bytes", wire.len());
    }
}

#[test]
fn url_prefixes_end_at_character_boundaries() {
    let mut sets = HeaderSets::new();
    sets.insert_request(1, "http://site.test/\u{e4}".to_owned(), fields(&[("a", "b")]));
    let other = "http://site.test/\u{e5}";
    let coded = encode_request(other, &fields(&[("a", "b")]), 2, 1, &sets).unwrap();
    assert_eq!((coded.url_shared, coded.url.as_str()), (17, "\u{e5}"));
    let decoded = |shared| decode_url(shared, "x", &coded.headers, 2, &sets);
    assert_eq!(decoded(18), Err(HeaderSetError::BadIndex), "within a character");
    assert_eq!(decoded(19).unwrap(), "http://site.test/\u{e4}x");
    assert_eq!(decoded(20), Err(HeaderSetError::BadIndex));
    assert_eq!(decoded(0).unwrap(), "x");
}

proptest! {
    #[test]
    fn header_sets_round_trip(base in any_fields(), fields in any_fields()) {
        let mut sets = HeaderSets::new();
        sets.insert(5, base);
        let set = encode_header_set(&fields, 6, 5, &sets).unwrap();
        prop_assert_eq!(decode_header_set(&set, 6, &sets).unwrap(), fields);
    }

    #[test]
    fn messages_round_trip(id in any::<u64>(), url in ".{0,60}", status in 200u16..600, base in any_fields()) {
        let set = encode_header_set(&base, id, 0, &HeaderSets::new()).unwrap();
        let messages = [
            Message::Fetch(Fetch {
                id, method: Method::Other(url.clone()), url_shared: status, url: url.clone(), headers: set.clone(), kind: FetchKind::Page,
                has_body: true, page: id, held: Some([3; 32]), manifest: Some([4; 8]), holding: vec![[5; 6]], delivery: Delivery::Any, connection: id,
                client: ClientId(id), unpartitioned: true, seen: id / 2,
                resume: Some(Resume { offset: id, validator: Validator::EntityTag(url.clone()) }),
            }),
            Message::Head(Head { fetch: id, status, headers: set, body: BodyPlace::Held, content_hash: None }),
            Message::Manifest(Manifest { page: id, base: Some([1; 8]) }),
            Message::Push(Push { page: id, entry: 7 }),
            Message::Promised(Promised { fetch: id, page: id, entry: 7 }),
            Message::Want(Want { page: id, entry: 7 }),
            Message::Ask(Ask { page: id, entries: vec![7, 300] }),
            Message::Used(Used::new(id, 9, |entry| entry % 2 == 0)),
            Message::Evicted(Evicted { hashes: vec![[6; 6]; 3] }),
            Message::Holding(Holding { page: id, hashes: vec![[6; 6]; 3] }),
            Message::Preferences(Preferences { images: ImageLevel::Text, ..Preferences::default() }),
            Message::Dictionaries(Dictionaries { set: 300 }),
            Message::Forget(Forget {
                id: 3,
                client: Some(9),
                site: Some("site.test".to_owned()),
            }),
            Message::Forgotten(Forgotten { id: 3 }),
            Message::AcceleratedHosts(AcceleratedHosts::AllBut(vec![url.clone(), "a.test".to_owned()])),
            Message::Body(Body { coding: BodyCoding::Brotli, length: Some(id), offset: 0, base: None }),
            Message::Failed(Failed { fetch: id, reason: FailureReason::TlsExpired, detail: url.clone() }),
            Message::TunnelOpen(TunnelOpen { id, host: url.clone(), port: status, security: TunnelSecurity::Tls }),
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
