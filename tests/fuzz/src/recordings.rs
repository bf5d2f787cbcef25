//! WARC files that a user passes to the demonstration.
use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use longhaul_replay::warc::{Recording, WarcReader};

/// A file parses or fails, equally in plain form and in gzip; its records answer for their own URLs.
pub(crate) fn warc(bytes: &[u8]) {
    let plain = records(bytes);
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        assert_eq!(records(&gzip(bytes)), plain, "gzip changed the records");
    }
    let Ok(recording) = Recording::read(bytes) else {
        return;
    };
    assert!(!recording.exchanges().is_empty());
    let _none_is_html = recording.main_page();
    for exchange in recording.exchanges() {
        assert!(recording.knows_host(&exchange.url));
        let _redirect_to_itself = recording.answer(&exchange.method, &exchange.url);
        let _no_type = exchange.response.media_type();
    }
}

/// Returns the blocks of all records, and true if the file is valid.
fn records(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut blocks = Vec::new();
    let Ok(mut reader) = WarcReader::new(bytes) else {
        return (blocks, false);
    };
    loop {
        match reader.next_record() {
            Ok(Some(record)) => blocks.push(record.block),
            Ok(None) => return (blocks, true),
            Err(_) => {
                assert!(
                    matches!(reader.next_record(), Ok(None)),
                    "a reader continues after an error"
                );
                return (blocks, false);
            }
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
    coder.write_all(bytes).expect("writing to a vector does not fail");
    coder.finish().expect("writing to a vector does not fail")
}

pub(crate) fn warc_seeds() -> Vec<Vec<u8>> {
    let record = |kind: &str, block: &str| {
        format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:1>\r\nWARC-Concurrent-To: <urn:uuid:1>\r\n\
            WARC-Target-URI: <http://a.test/x?q=1>\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        )
        .into_bytes()
    };
    let response = record(
        "response",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>page</p>",
    );
    let chunked = record(
        "response",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
    );
    let redirect = record(
        "response",
        "HTTP/1.1 301 Moved\r\nLocation: https://a.test/x?q=1\r\n\r\n",
    );
    let all = [
        record("warcinfo", "software: x\r\npage: http://a.test/x?q=1\r\n"),
        record("request", "HEAD /x?q=1 HTTP/1.1\r\nHost: a.test\r\n\r\n"),
        chunked.clone(),
        redirect,
    ]
    .concat();
    // One gzip member per record, as recorders write.
    let members = [gzip(&response), gzip(&chunked)].concat();
    vec![response, chunked, all, members]
}
