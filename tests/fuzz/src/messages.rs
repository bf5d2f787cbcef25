//! Session messages and header sets (docs/protocol/session.md sections 1 and 5).
use longhaul_session::{
    AcceleratedHosts, Ask, AssociationAccept, AssociationOpen, Body, BodyCoding, BodyPlace, Cancel, Continue,
    Dictionaries, EntryId, Evicted, Failed, FailureReason, Fetch, FetchId, FetchKind, Flow, Forget, ForgetId,
    Forgotten, Head, HeaderField, HeaderSets, Hello, Holding, ImageLevel, KeyWanted, Manifest, ManifestId,
    Message, MessageReader, Method, NewKey, Notice, OriginReport, PageId, Preferences, Promised, Push,
    ReadEvent, ShortHash, SiteImages, TunnelOpen, TunnelSecurity, UnchangedEntry, Used, VersionRange, Want,
    decode_header_set, decode_url, encode, encode_header_set,
};

/// A stream of messages parses or fails, equally for any split; decoded messages survive a round trip.
pub(crate) fn session_messages(bytes: &[u8]) {
    let whole = read(&[bytes]);
    let cut = bytes.len() / 2;
    assert_eq!(
        whole,
        read(&[&bytes[..cut], &bytes[cut..]]),
        "the split changed the messages"
    );
    for message in whole {
        let mut wire = Vec::new();
        encode(&message, &mut wire).expect("a decoded value can be encoded");
        assert_eq!(read(&[&wire]), [message]);
    }
}

fn read(parts: &[&[u8]]) -> Vec<Message> {
    let mut reader = MessageReader::new();
    let mut found = Vec::new();
    for part in parts {
        reader.push(part);
        while let Ok(ReadEvent::Message(message)) = reader.next() {
            found.push(message);
        }
    }
    found
}

fn fields() -> Vec<HeaderField> {
    [("accept", "*/*"), ("cookie", "a=b"), ("x-own", "1")]
        .map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()))
        .to_vec()
}

const FIRST: FetchId = FetchId::FIRST;
const PAGE: PageId = PageId::of(FIRST);

fn messages() -> Vec<Message> {
    let sets = HeaderSets::new();
    let headers = encode_header_set(&fields(), FIRST, None, &sets).expect("a small set");
    vec![
        Message::Hello(Hello {
            versions: VersionRange::OURS,
            software: "fuzz".to_owned(),
            link: None,
            cache_state: None,
            preferences: Preferences::default(),
        }),
        Message::Fetch(Fetch {
            kind: FetchKind::Page,
            ..Fetch::new(
                FIRST,
                Method::Get,
                "http://site.test/".to_owned(),
                headers.clone(),
            )
        }),
        Message::Head(Head {
            fetch: FIRST,
            status: 200,
            headers,
            body: BodyPlace::Follows,
            content_hash: Some(longhaul_types::ContentHash::from_bytes([1; 32])),
        }),
        Message::Body(Body {
            coding: BodyCoding::Brotli,
            length: Some(10),
            offset: 0,
            base: Some(ShortHash::from_bytes([7; 6])),
        }),
        Message::Failed(Failed {
            fetch: FIRST,
            reason: FailureReason::DnsNotFound,
            detail: "no".to_owned(),
        }),
        Message::Cancel(Cancel { fetch: FIRST }),
        Message::Continue(Continue { fetch: FIRST }),
        Message::TunnelOpen(TunnelOpen {
            id: FetchId::new(2),
            host: "site.test".to_owned(),
            port: 443,
            security: TunnelSecurity::Tls,
        }),
        Message::Notice(Notice {
            text: "maintenance".to_owned(),
        }),
        Message::Manifest(Manifest {
            page: PAGE,
            base: Some(ManifestId::from_bytes([4; 8])),
        }),
        Message::Push(Push {
            page: PAGE,
            entry: EntryId::new(2),
        }),
        Message::Promised(Promised {
            fetch: FetchId::new(3),
            page: PAGE,
            entry: EntryId::new(2),
        }),
        Message::Want(Want {
            page: PAGE,
            entry: EntryId::new(2),
        }),
        Message::Ask(Ask {
            page: PAGE,
            entries: vec![EntryId::new(2), EntryId::FIRST],
        }),
        Message::Used(Used::new(PAGE, 20, |entry| entry.number() % 3 == 0)),
        Message::Evicted(Evicted {
            hashes: vec![ShortHash::from_bytes([5; 6]), ShortHash::from_bytes([6; 6])],
        }),
        Message::Holding(Holding {
            page: PAGE,
            hashes: vec![ShortHash::from_bytes([7; 6])],
        }),
        Message::Dictionaries(Dictionaries { set: 1 }),
        Message::Forget(Forget {
            id: ForgetId::new(1),
            client: None,
            site: Some("site.test".to_owned()),
        }),
        Message::Forgotten(Forgotten { id: ForgetId::new(1) }),
        Message::KeyWanted(KeyWanted {}),
        Message::NewKey(NewKey { key: [8; 32] }),
        Message::OriginReport(OriginReport {
            heads: Flow { origin: 300, hop: 40 },
            unchanged: 70_000,
            unchanged_entries: vec![UnchangedEntry {
                page: PageId::of(FetchId::new(1)),
                entry: EntryId::new(2),
            }],
            ..OriginReport::default()
        }),
        Message::AssociationOpen(AssociationOpen { id: FetchId::new(2) }),
        Message::AssociationAccept(AssociationAccept { id: FetchId::new(2) }),
        Message::AcceleratedHosts(AcceleratedHosts::Only(vec!["site.test".to_owned()])),
        Message::SiteImages(SiteImages {
            levels: vec![("site.test".to_owned(), ImageLevel::Low)],
        }),
    ]
}

pub(crate) fn message_seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for message in messages() {
        let mut wire = Vec::new();
        encode(&message, &mut wire).expect("a small message");
        all.extend_from_slice(&wire);
        seeds.push(wire);
    }
    seeds.push(all);
    seeds
}

/// A header set of any message decodes against known and unknown bases, or fails.
pub(crate) fn header_set(bytes: &[u8]) {
    let mut sets = HeaderSets::new();
    sets.insert_request(FIRST, "http://site.test/a/b".to_owned(), fields());
    for message in read(&[bytes]) {
        let (id, set) = if let Message::Fetch(fetch) = message {
            let _url = decode_url(fetch.url_shared, &fetch.url, &fetch.headers, fetch.id, &sets);
            (fetch.id, fetch.headers)
        } else if let Message::Head(head) = message {
            (head.fetch, head.headers)
        } else {
            continue;
        };
        for known in [&sets, &HeaderSets::new()] {
            if let Ok(fields) = decode_header_set(&set, id, known) {
                let again = encode_header_set(&fields, id, Some(FIRST), &sets)
                    .expect("a decoded value can be encoded");
                assert_eq!(decode_header_set(&again, id, &sets).as_ref(), Ok(&fields));
            }
        }
    }
}

pub(crate) fn header_seeds() -> Vec<Vec<u8>> {
    let mut sets = HeaderSets::new();
    sets.insert(FIRST, fields());
    let headers = encode_header_set(&fields(), FetchId::new(2), Some(FIRST), &sets).expect("a small set");
    let head = Message::Head(Head {
        fetch: FetchId::new(2),
        status: 200,
        headers,
        body: BodyPlace::None,
        content_hash: None,
    });
    let mut wire = Vec::new();
    encode(&head, &mut wire).expect("a small message");
    vec![wire]
}
