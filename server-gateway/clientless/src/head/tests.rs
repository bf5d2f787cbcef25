//! Heads that are at the limits, or name their host twice.
use http::header::AUTHORIZATION;

use super::*;

fn read(bytes: &[u8]) -> Result<Option<RequestHead>, HeadError> {
    HeadReader::default().next(&mut BytesMut::from(bytes))
}

fn head(target: &str, fields: &str) -> Result<RequestHead, HeadError> {
    read(format!("GET {target} HTTP/1.1\r\n{fields}\r\n").as_bytes()).map(Option::unwrap)
}

#[test]
fn four_empty_lines_before_a_request_are_ignored_however_they_arrive() {
    let request = "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for (lines, is_read) in [(0, true), (1, true), (4, true), (5, false)] {
        let bytes = ["\r\n".repeat(lines).as_str(), request].concat();
        assert_eq!(read(bytes.as_bytes()).is_ok(), is_read, "{lines}");
        let (mut reader, mut buffer) = (HeadReader::default(), BytesMut::new());
        let heads: Result<Vec<_>, _> = bytes
            .bytes()
            .map(|byte| {
                buffer.extend_from_slice(&[byte]);
                reader.next(&mut buffer)
            })
            .collect();
        match heads {
            Ok(heads) => assert_eq!(heads.iter().flatten().count(), usize::from(is_read), "{lines}"),
            Err(error) => assert_eq!((error, is_read), (HeadError::Malformed, false), "{lines}"),
        }
    }
    // They are counted anew for each request.
    let (mut reader, mut buffer) = (HeadReader::default(), BytesMut::new());
    for _ in 0..3 {
        buffer.extend_from_slice(["\r\n".repeat(4).as_str(), request].concat().as_bytes());
        assert!(reader.next(&mut buffer).unwrap().is_some());
    }
}

#[test]
fn targets_and_fields_that_are_too_long_are_each_refused() {
    let target = |length: usize| {
        let start = "http://a.test/";
        format!("{start}{}", "x".repeat(length - start.len()))
    };
    assert!(head(&target(32 * 1024), "Host: a.test\r\n").is_ok());
    let long = head(&target(32 * 1024 + 1), "Host: a.test\r\n");
    assert_eq!(long.unwrap_err(), HeadError::TooLarge);
    let fields = |length: usize| format!("Host: a.test\r\nX: {}\r\n", "x".repeat(length));
    assert!(head("http://a.test/", &fields(60 * 1024)).is_ok());
    let long = head("http://a.test/", &fields(70 * 1024));
    assert_eq!(long.unwrap_err(), HeadError::TooLarge);
}

#[test]
fn credentials_of_the_url_become_a_field_and_may_be_repeated_in_host_once() {
    let url = "http://ann:secret@a.test/";
    for host in ["a.test", "ann:secret@a.test", "ann@a.test"] {
        let head = head(url, &format!("Host: {host}\r\n")).unwrap();
        assert_eq!(head.headers[AUTHORIZATION], "Basic YW5uOnNlY3JldA==", "{host}");
        assert_eq!(head.headers[HOST], "a.test");
    }
    for fields in [
        "Host: ann:secret@b.test\r\n",
        "Host: ann:secret@a.test\r\nHost: ann:secret@a.test\r\n",
        "Host: ann:secret@a.test\r\nHost: b.test\r\n",
    ] {
        assert_eq!(head(url, fields).unwrap_err(), HeadError::Host, "{fields}");
    }
    // Without a name in the URL, one in Host names another host to some servers.
    let other = head("http://a.test/", "Host: ann@a.test\r\n");
    assert_eq!(other.unwrap_err(), HeadError::Host);
}
