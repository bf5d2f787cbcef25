use proptest::prelude::*;

use super::*;

fn long(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

fn with_kind(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &long(content)].concat()
}

fn list(numbers: &[u16]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    long(&bytes)
}

fn name(name: &str) -> Vec<u8> {
    let entry = [&[0][..], &long(name.as_bytes())].concat();
    with_kind(extension::SERVER_NAME, &long(&entry))
}

/// A message with these extensions, in records of at most `record` bytes.
fn wire(hello: &ClientHello, more: &[u8], record: usize) -> Vec<u8> {
    let mut extensions = more.to_vec();
    if let Some(host) = &hello.server_name {
        extensions.extend(name(host));
    }
    let protocols: Vec<u8> = hello
        .protocols
        .iter()
        .flat_map(|name| [&[u8::try_from(name.len()).unwrap()][..], &name[..]].concat())
        .collect();
    extensions.extend(with_kind(extension::ALPN, &long(&protocols)));
    extensions.extend(with_kind(extension::SUPPORTED_GROUPS, &list(&hello.groups)));
    extensions.extend(with_kind(
        extension::SIGNATURE_ALGORITHMS,
        &list(&hello.signature_schemes),
    ));
    if hello.has_encrypted {
        extensions.extend(with_kind(extension::ENCRYPTED_CLIENT_HELLO, b"anything"));
    }
    let body = [
        &[3, 3][..],
        &[7; RANDOM],
        &[0],
        &list(&hello.cipher_suites),
        &[1, 0],
        &long(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[CLIENT_HELLO][..], &length[1..], &body].concat();
    message
        .chunks(record)
        .flat_map(|part| [&[HANDSHAKE, 3, 1][..], &long(part)].concat())
        .collect()
}

fn hello(name: Option<&str>) -> ClientHello {
    ClientHello {
        server_name: name.map(str::to_owned),
        protocols: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        cipher_suites: vec![0x0a0a, 0x1301],
        groups: vec![29],
        signature_schemes: vec![0x0403],
        has_encrypted: false,
    }
}

#[test]
fn a_message_may_arrive_in_parts_and_in_several_records() {
    let expected = hello(Some("a.test"));
    for record in [1, 7, 100, 1000] {
        let wire = wire(&expected, &with_kind(0x1a1a, b""), record);
        for end in 0..wire.len() {
            assert_eq!(ClientHello::parse(&wire[..end]), Ok(None), "{record} {end}");
        }
        assert_eq!(ClientHello::parse(&wire).unwrap().unwrap(), expected);
    }
    assert!(expected.speaks_http());
}

#[test]
fn names_are_in_lower_case_and_are_no_addresses() {
    let parsed = |name: &str| {
        let wire = wire(&hello(Some(name)), &[], 1000);
        ClientHello::parse(&wire).map(|hello| hello.unwrap().server_name)
    };
    assert_eq!(parsed("A.Test"), Ok(Some("a.test".to_owned())));
    assert_eq!(parsed("10.0.0.1"), Ok(None));
    for bad in [
        "",
        "a b",
        "a.test\0b.test",
        "\u{e4}.test",
        "[::1]",
        &"a".repeat(254),
    ] {
        assert_eq!(parsed(bad), Err(NotClientHello), "{bad}");
    }
}

#[test]
fn what_is_ambiguous_or_another_protocol_is_rejected() {
    let twice = wire(&hello(Some("a.test")), &name("b.test"), 1000);
    let mut two_names = [&[0][..], &long(b"a.test")].concat();
    two_names.extend([&[0][..], &long(b"b.test")].concat());
    let two_names = with_kind(extension::SERVER_NAME, &long(&two_names));
    for bytes in [
        twice,
        wire(&hello(None), &two_names, 1000),
        b"SSH-2.0-x\r\n".to_vec(),
        b"GET / HTTP/1.1\r\n".to_vec(),
        // A ServerHello.
        vec![0x16, 3, 1, 0, 4, 2, 0, 0, 0],
        // An empty record, SSL 2, and a message of 16 MiB.
        vec![0x16, 3, 1, 0, 0],
        vec![0x80, 0x2e, 1, 3, 1],
        vec![0x16, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(ClientHello::parse(&bytes), Err(NotClientHello), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn messages_are_read_as_they_were_written(
        server_name in proptest::option::of("[a-z][a-z0-9-]{0,20}(\\.[a-z][a-z0-9]{0,9}){0,3}"),
        protocols in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..20), 0..5),
        cipher_suites: Vec<u16>,
        groups: Vec<u16>,
        signature_schemes: Vec<u16>,
        has_encrypted: bool,
        record in 1_usize..3000,
    ) {
        let hello = ClientHello {
            server_name, protocols, has_encrypted, cipher_suites, groups, signature_schemes,
        };
        let wire = wire(&hello, &[], record);
        prop_assert_eq!(ClientHello::parse(&wire).unwrap().unwrap(), hello);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
        let _parsed = ClientHello::parse(&bytes);
        let record = [&[0x16, 3, 1][..], &long(&bytes)].concat();
        let _parsed = ClientHello::parse(&record);
    }
}

#[test]
fn lengths_have_limits() {
    let parse = ClientHello::parse;
    let record = |length: u16| [&[HANDSHAKE, 3, 1][..], &length.to_be_bytes(), &[CLIENT_HELLO]].concat();
    assert_eq!(parse(&record(16_384)), Ok(None));
    assert_eq!(parse(&record(16_385)), Err(NotClientHello));
    let message = |length: u32| {
        let message = [&[CLIENT_HELLO], &length.to_be_bytes()[1..]].concat();
        [&[HANDSHAKE, 3, 1][..], &long(&message)].concat()
    };
    assert_eq!(parse(&message(65_532)), Ok(None));
    assert_eq!(parse(&message(65_533)), Err(NotClientHello));
    // A message of the greatest length in many records is larger with these than all may be.
    let parts = vec![[&[HANDSHAKE, 3, 1][..], &long(&[0])].concat(); 12_000];
    let wire = [message(65_532), parts.concat()].concat();
    assert_eq!(parse(&wire[..65_536]), Ok(None));
    assert_eq!(parse(&wire[..65_537]), Err(NotClientHello));
    for (kind, major) in [(HANDSHAKE, 2), (21, 3)] {
        assert_eq!(parse(&[kind, major, 1, 0, 1, CLIENT_HELLO]), Err(NotClientHello));
    }
}

#[test]
fn names_have_limits() {
    let of = |length: usize| {
        let hello = ClientHello {
            server_name: Some("a".repeat(length)),
            ..ClientHello::default()
        };
        ClientHello::parse(&wire(&hello, &[], 1000))
    };
    assert!(of(MAX_NAME).is_ok_and(|hello| hello.is_some_and(|hello| hello.server_name.is_some())));
    assert_eq!(of(MAX_NAME + 1), Err(NotClientHello));
}

#[test]
fn other_protocols_than_http_are_known() {
    let speaks_http = |protocols: &[&str]| {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        let hello = ClientHello {
            protocols: protocols.collect(),
            ..ClientHello::default()
        };
        hello.speaks_http()
    };
    assert!(speaks_http(&["h2"]) && speaks_http(&["dot", "http/1.1"]));
    assert!(!speaks_http(&["dot", "h3"]) && !speaks_http(&[]));
}
