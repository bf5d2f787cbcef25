//! All exchanges of one WARC file, and the rule by which they answer requests.
use std::{collections::BTreeMap, fs::File, io, path::Path};

use http::{Method, header};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{ParseResponseError, RecordKind, RecordedResponse, WarcError, WarcReader};

/// Maximum bytes of the bodies of one recording, which are held in memory. The shared page recordings have
/// less than 7 MB.
const MAX_TOTAL: usize = 512 * 1024 * 1024;

/// One recorded exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Method of the request.
    pub method: Method,
    /// Requested URL.
    pub url: Url,
    /// The response.
    pub response: RecordedResponse,
}

/// A recorded page with an index of its responses.
#[derive(Debug, Default)]
pub struct Recording {
    exchanges: Vec<Exchange>,
    index: BTreeMap<Location, Vec<Entry>>,
    page: Option<Url>,
}

/// Key of a request without scheme and query. The path has its percent-encoding decoded.
type Location = (String, String, Vec<u8>);

#[derive(Debug)]
struct Entry {
    scheme: String,
    query: Option<Vec<u8>>,
    exchange: usize,
}

/// Errors of loading a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be opened.
    #[error("cannot open it: {0}")]
    Open(#[source] io::Error),
    /// The file is not a valid WARC file.
    #[error(transparent)]
    Warc(#[from] WarcError),
    /// A record's content does not match its header.
    #[error("record {record}: {fault}")]
    Response {
        /// Number of the record in the file, from 1.
        record: u64,
        /// Cause.
        fault: ParseResponseError,
    },
    /// The bodies exceed the memory limit.
    #[error("its responses are over the limit of {} MiB", MAX_TOTAL / (1024 * 1024))]
    TooLarge,
    /// The file contains no response.
    #[error("it holds no recorded HTTP response")]
    Empty,
}

impl Recording {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read or is damaged; the message names the record.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        Self::read(File::open(path).map_err(LoadError::Open)?)
    }

    /// Reads a WARC file from `input`.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn read(input: impl io::Read + Send) -> Result<Self, LoadError> {
        let mut reader = WarcReader::new(input)?;
        let mut recording = Self::default();
        let mut methods = BTreeMap::new();
        let mut responses = Vec::new();
        let mut page = None;
        let mut total = 0;
        while let Some(record) = reader.next_record()? {
            total += record.block.len();
            if total > MAX_TOTAL {
                return Err(LoadError::TooLarge);
            }
            match record.kind {
                RecordKind::WarcInfo => page = page.or_else(|| page_of(&record.block)),
                RecordKind::Request => {
                    let method = record
                        .block
                        .split(|&byte| byte == b' ')
                        .next()
                        .unwrap_or_default();
                    if let (Ok(method), Some(id)) =
                        (Method::from_bytes(method), record.field("WARC-Concurrent-To"))
                    {
                        methods.insert(id.to_owned(), method);
                    }
                }
                RecordKind::Response => {
                    let Some(url) = record.target_uri().and_then(http_url) else {
                        continue;
                    };
                    let response =
                        RecordedResponse::parse(&record.block).map_err(|fault| LoadError::Response {
                            record: record.number,
                            fault,
                        })?;
                    let id = record.field("WARC-Record-ID").unwrap_or_default().to_owned();
                    responses.push((id, url, response));
                }
                RecordKind::Other => {}
            }
        }
        for (id, url, response) in responses {
            let method = methods.remove(&id).unwrap_or(Method::GET);
            recording.insert(Exchange {
                method,
                url,
                response,
            });
        }
        if recording.exchanges.is_empty() {
            return Err(LoadError::Empty);
        }
        recording.page = page.filter(|page| recording.answer(&Method::GET, page).is_some());
        Ok(recording)
    }

    /// All exchanges in the order of the file.
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// Returns the recorded page: the one that the file's `warcinfo` names, else the first HTML response that
    /// is neither a redirect nor an error, else the first HTML response.
    pub fn main_page(&self) -> Option<&Url> {
        let html = |exchange: &&Exchange| {
            exchange.method == Method::GET && exchange.response.media_type() == "text/html"
        };
        let first = |successful: bool| {
            let mut pages = self.exchanges.iter().filter(html);
            pages.find(|exchange| !successful || exchange.response.status.is_success())
        };
        self.page
            .as_ref()
            .or_else(|| Some(&first(true).or_else(|| first(false))?.url))
    }

    /// Returns the recorded response to a request, by method, host, path and query.
    ///
    /// Percent-encoding is decoded for the comparison. A response recorded with the other scheme matches,
    /// unless it redirects to the requested scheme, which would loop. If exactly one query string is recorded
    /// for host and path, its response answers any query. A recorded `GET` answers `HEAD` if no `HEAD` was
    /// recorded.
    pub fn answer(&self, method: &Method, url: &Url) -> Option<&Exchange> {
        let found = self.lookup(method, url);
        if found.is_none() && method == Method::HEAD {
            return self.lookup(&Method::GET, url);
        }
        found
    }

    /// Returns true if the recording contains any exchange of this URL's host.
    pub fn knows_host(&self, url: &Url) -> bool {
        self.exchanges.iter().any(|exchange| {
            exchange.url.host() == url.host()
                && exchange.url.port_or_known_default() == url.port_or_known_default()
        })
    }

    fn insert(&mut self, exchange: Exchange) {
        let entry = Entry {
            scheme: exchange.url.scheme().to_owned(),
            query: exchange.url.query().map(decoded),
            exchange: self.exchanges.len(),
        };
        self.index
            .entry(location(&exchange.method, &exchange.url))
            .or_default()
            .push(entry);
        self.exchanges.push(exchange);
    }

    fn lookup(&self, method: &Method, url: &Url) -> Option<&Exchange> {
        let entries = self.index.get(&location(method, url))?;
        let usable: Vec<&Entry> = entries
            .iter()
            .filter(|entry| entry.scheme == url.scheme() || !self.redirects_to_scheme(entry, url.scheme()))
            .collect();
        let query = url.query().map(decoded);
        let same_query = || usable.iter().filter(|entry| entry.query == query);
        let exact = same_query().find(|entry| entry.scheme == url.scheme());
        let found = exact.or_else(|| same_query().next()).or_else(|| {
            let first = usable.first()?;
            usable
                .iter()
                .all(|entry| entry.query == first.query)
                .then_some(first)
        })?;
        self.exchanges.get(found.exchange)
    }

    fn redirects_to_scheme(&self, entry: &Entry, scheme: &str) -> bool {
        let Some(exchange) = self.exchanges.get(entry.exchange) else {
            return false;
        };
        let target = exchange.response.headers.get(header::LOCATION);
        let target = target.and_then(|target| exchange.url.join(target.to_str().ok()?).ok());
        exchange.response.status.is_redirection() && target.is_some_and(|target| target.scheme() == scheme)
    }
}

/// Returns the key of a request. The host has no default port, so that http and https of one host are equal.
fn location(method: &Method, url: &Url) -> Location {
    let host = url.host_str().unwrap_or_default();
    let host = url
        .port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    (method.as_str().to_owned(), host, decoded(url.path()))
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

fn http_url(uri: &str) -> Option<Url> {
    let mut url = Url::parse(uri).ok()?;
    url.set_fragment(None);
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

/// Returns the `page:` field that the shared recordings have in their `warcinfo`.
fn page_of(block: &[u8]) -> Option<Url> {
    let text = String::from_utf8_lossy(block);
    text.lines()
        .find_map(|line| http_url(line.strip_prefix("page:")?.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(exchanges: &[(&str, &str, &str)]) -> Recording {
        let mut recording = Recording::default();
        for (method, url, response) in exchanges {
            let block = format!("HTTP/1.1 {}\r\n\r\n", response.replace('|', "\r\n"));
            recording.insert(Exchange {
                method: method.parse().unwrap(),
                url: url.parse().unwrap(),
                response: RecordedResponse::parse(block.as_bytes()).unwrap(),
            });
        }
        recording
    }

    fn answer(recording: &Recording, method: &str, url: &str) -> Option<u16> {
        let found = recording.answer(&method.parse().unwrap(), &url.parse().unwrap());
        found.map(|exchange| exchange.response.status.as_u16())
    }

    #[test]
    fn method_host_path_and_query_decide() {
        let recording = recording(&[
            ("GET", "http://a.test/x?q=1", "201 A"),
            ("GET", "http://a.test/x?q=2", "202 A"),
            ("POST", "http://a.test/x?q=1", "203 A"),
            ("GET", "http://a.test/%7Euser/caf%c3%a9", "204 A"),
        ]);
        assert_eq!(answer(&recording, "GET", "http://a.test/x?q=2"), Some(202));
        assert_eq!(answer(&recording, "GET", "https://A.TEST:443/x?q=%32"), Some(202));
        assert_eq!(
            answer(&recording, "GET", "http://a.test/x?q=3"),
            None,
            "two queries are recorded"
        );
        assert_eq!(
            answer(&recording, "POST", "http://a.test/x"),
            Some(203),
            "one query is recorded"
        );
        assert_eq!(answer(&recording, "HEAD", "http://a.test/x?q=1"), Some(201));
        assert_eq!(answer(&recording, "GET", "http://a.test/~user/café"), Some(204));
        assert_eq!(answer(&recording, "GET", "http://a.test:8080/x?q=1"), None);
        assert_eq!(answer(&recording, "GET", "http://b.test/x?q=1"), None);
    }

    #[test]
    fn a_redirect_to_the_asked_scheme_does_not_answer() {
        let recording = recording(&[
            ("GET", "http://a.test/", "301 Moved|Location: https://a.test/"),
            ("GET", "http://b.test/", "301 Moved|Location: https://b.test/"),
            ("GET", "https://b.test/", "200 OK"),
        ]);
        assert_eq!(answer(&recording, "GET", "http://a.test/"), Some(301));
        assert_eq!(answer(&recording, "GET", "https://a.test/"), None);
        assert_eq!(answer(&recording, "GET", "http://b.test/"), Some(301));
        assert_eq!(answer(&recording, "GET", "https://b.test/"), Some(200));
    }

    #[test]
    fn main_page_is_the_one_named_or_the_first_html() {
        let file = |info: &str| {
            let mut file = format!(
                "WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: {}\r\n\r\n{info}\r\n\r\n",
                info.len()
            );
            for (url, media) in [
                ("a.test/1.png", "image/png"),
                ("a.test/frame", "text/html"),
                ("a.test/page", "text/html"),
            ] {
                let block = format!("HTTP/1.1 200 OK\r\nContent-Type: {media}\r\n\r\nx");
                file.push_str(&format!(
                    "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://{url}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
                    block.len()
                ));
            }
            Recording::read(file.into_bytes().as_slice()).unwrap()
        };
        let page = |recording: &Recording| recording.main_page().unwrap().to_string();
        assert_eq!(page(&file("software: x")), "http://a.test/frame");
        assert_eq!(page(&file("page: http://a.test/page\r\n")), "http://a.test/page");
        assert_eq!(page(&file("page: http://a.test/gone")), "http://a.test/frame");
    }

    #[test]
    fn a_record_without_http_is_named() {
        let file = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n";
        let error = Recording::read(&file[..]).unwrap_err();
        assert!(matches!(error, LoadError::Response { record: 1, .. }), "{error}");
        assert!(matches!(Recording::read(&b""[..]).unwrap_err(), LoadError::Empty));
    }
}
