//! Incremental parsing of an HTML document, through its content coding.
use std::io::Write;

use flate2::write::MultiGzDecoder;
use longhaul_replay::page::{Discovery, Reference, Viewport};
use url::Url;

/// Maximum number of decoded bytes that are parsed: larger than any page, and sufficient to limit a
/// decompression bomb.
const MAX_DECODED: usize = 64 * 1024 * 1024;

/// Finds references in a document that arrives in its content coding.
pub(super) struct DocumentReader {
    discovery: Discovery,
    coding: Coding,
    decoded: usize,
}

enum Coding {
    Identity,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Another coding, which is decoded when the body is complete.
    Other,
    /// Decoding has failed.
    Damaged,
}

impl DocumentReader {
    /// Starts the document at `url` with this `Content-Encoding` and charset.
    pub(super) fn new(url: &Url, encoding: &str, charset: Option<&str>) -> Self {
        let coding = match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Coding::Identity,
            "gzip" | "x-gzip" => Coding::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            _ => Coding::Other,
        };
        Self {
            discovery: Discovery::new(url, charset, Viewport::default()),
            coding,
            decoded: 0,
        }
    }

    /// Adds the next transferred bytes and returns the references that they complete.
    pub(super) fn write(&mut self, data: &[u8]) -> Vec<Reference> {
        let decoded = match &mut self.coding {
            Coding::Identity => return self.discovery.write(data),
            Coding::Gzip(decoder) => {
                let intact = decoder.write_all(data).and_then(|()| decoder.flush()).is_ok();
                let decoded = std::mem::take(decoder.get_mut());
                self.decoded = self.decoded.saturating_add(decoded.len());
                if !intact || self.decoded > MAX_DECODED {
                    self.coding = Coding::Damaged;
                }
                decoded
            }
            Coding::Other | Coding::Damaged => return Vec::new(),
        };
        self.discovery.write(&decoded)
    }

    /// Ends the document, whose decoded body is `body`, and returns the remaining references.
    pub(super) fn finish(mut self, body: &[u8]) -> Vec<Reference> {
        let mut found = Vec::new();
        if matches!(self.coding, Coding::Other) {
            found = self.discovery.write(body);
        }
        found.extend(self.discovery.finish());
        found
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn references_are_found_before_the_end_of_gzip() {
        let url: Url = "http://a.test/".parse().unwrap();
        let mut html = b"<img src=first.png>".to_vec();
        for number in 0..20_000 {
            write!(html, "<p id={number}>{}</p>", number * 7919 % 10_007).unwrap();
        }
        html.extend_from_slice(b"<img src=last.png>");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&html).unwrap();
        let coded = encoder.finish().unwrap();
        let mut reader = DocumentReader::new(&url, "gzip", None);
        let (start, rest) = coded.split_at(coded.len() / 2);
        let names = |found: Vec<Reference>| -> Vec<String> {
            found
                .into_iter()
                .map(|found| found.url.path().to_owned())
                .collect()
        };
        assert_eq!(names(reader.write(start)), ["/first.png"]);
        assert_eq!(names(reader.write(rest)), ["/last.png"]);
        assert!(reader.finish(&html).is_empty());
    }

    #[test]
    fn other_codings_need_the_complete_body_and_errors_yield_no_references() {
        let url: Url = "http://a.test/".parse().unwrap();
        let mut reader = DocumentReader::new(&url, "br", None);
        assert!(reader.write(b"coded").is_empty());
        assert_eq!(reader.finish(b"<img src=x>").len(), 1);
        let mut reader = DocumentReader::new(&url, "GZIP", None);
        assert!(reader.write(b"<img src=x>").is_empty());
        assert!(reader.write(b"<img src=x>").is_empty());
        assert!(reader.finish(b"").is_empty());
    }
}
