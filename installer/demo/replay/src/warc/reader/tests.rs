use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

use super::*;

fn record(kind: &str, block: &[u8]) -> Vec<u8> {
    let mut record = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: <http://a.test/>\r\nContent-Length: {}\r\n\r\n",
        block.len()
    )
    .into_bytes();
    record.extend_from_slice(block);
    record.extend_from_slice(b"\r\n\r\n");
    record
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::default());
    coder.write_all(bytes).unwrap();
    coder.finish().unwrap()
}

fn read_all(file: &[u8]) -> Result<Vec<Record>, WarcError> {
    let mut reader = WarcReader::new(file)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next_record()? {
        records.push(record);
    }
    assert!(reader.next_record().is_ok_and(|record| record.is_none()));
    Ok(records)
}

#[test]
fn plain_and_gzip_per_record_read_alike() {
    let records = [
        record("response", b"one"),
        record("metadata", b"two"),
        record("request", b""),
    ];
    let plain = records.concat();
    let members: Vec<u8> = records.iter().flat_map(|record| gzip(record)).collect();
    for file in [plain.clone(), members, gzip(&plain)] {
        let read = read_all(&file).unwrap();
        let kinds: Vec<_> = read.iter().map(|record| record.kind).collect();
        assert_eq!(
            kinds,
            [RecordKind::Response, RecordKind::Other, RecordKind::Request]
        );
        assert_eq!(read[0].block, b"one");
        assert_eq!(read[0].target_uri(), Some("http://a.test/"));
        assert_eq!(read[0].field("warc-TYPE"), Some("response"));
        assert!(read[1].block.is_empty());
    }
}

#[test]
fn damage_names_the_record() {
    let good = record("response", b"body");
    type Judge = fn(&WarcFault) -> bool;
    let cases: [(&[u8], Judge); 6] = [
        (b"HTTP/1.1 200 OK\r\n\r\n", |fault| {
            matches!(fault, WarcFault::Version(_))
        }),
        (b"WARC/1.0\r\nno colon\r\n\r\n", |fault| {
            matches!(fault, WarcFault::HeaderLine(_))
        }),
        (b"WARC/1.0\r\nWARC-Type: response\r\n\r\n", |fault| {
            matches!(fault, WarcFault::Length)
        }),
        (b"WARC/1.0\r\nContent-Length: -4\r\n\r\n", |fault| {
            matches!(fault, WarcFault::Length)
        }),
        (
            b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 99999999999\r\n\r\n",
            |fault| matches!(fault, WarcFault::BlockTooLong(_)),
        ),
        (
            b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 2\r\n\r\nabcdef",
            |fault| matches!(fault, WarcFault::BlockEnd),
        ),
    ];
    for (bad, expected) in cases {
        let error = read_all(&[good.as_slice(), bad].concat()).unwrap_err();
        assert_eq!(error.record, 2, "{error}");
        assert!(expected(&error.fault), "{error}");
    }
}

#[test]
fn every_truncation_is_an_error_or_an_end_but_never_a_panic() {
    let plain = [record("response", b"first"), record("response", b"second")].concat();
    let compressed: Vec<u8> = [
        gzip(&record("response", b"first")),
        gzip(&record("response", b"second")),
    ]
    .concat();
    for file in [plain, compressed] {
        assert_eq!(read_all(&file).unwrap().len(), 2);
        for length in 0..file.len() {
            if let Ok(records) = read_all(&file[..length]) {
                assert!(records.len() <= 2);
            }
        }
    }
    let body_cut = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 10\r\n\r\nabc";
    assert!(matches!(
        read_all(body_cut).unwrap_err().fault,
        WarcFault::Truncated
    ));
}

#[test]
fn endless_header_is_refused() {
    let mut file = b"WARC/1.0\r\n".to_vec();
    file.resize(MAX_HEADER * 2, b'a');
    assert!(matches!(
        read_all(&file).unwrap_err().fault,
        WarcFault::HeaderTooLong
    ));
    let mut file = b"WARC/1.0\r\n".to_vec();
    for _ in 0..MAX_HEADER {
        file.extend_from_slice(b"a: b\r\n");
    }
    assert!(matches!(
        read_all(&file).unwrap_err().fault,
        WarcFault::HeaderTooLong
    ));
}
