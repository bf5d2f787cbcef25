//! `INDEX.tsv`: tab-separated columns with a header line; `site`, `main_url` and `block_hosts` are used.
use std::{collections::BTreeMap, fs::File, io, io::Read as _, path::Path};

use url::Url;

/// Maximum bytes of an index: some thousand lines of a few hundred bytes.
const MAX_INDEX: u64 = 4 * 1024 * 1024;

/// Errors of an index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexFault {
    /// It cannot be read, or is not UTF-8.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// It exceeds the maximum length.
    #[error("is larger than {} MiB", MAX_INDEX / (1024 * 1024))]
    TooLarge,
    /// The header line lacks a column.
    #[error("line 1 has no column `{0}`")]
    Column(&'static str),
    /// The URL of a page is invalid.
    #[error("line {line}: `{url}` is not an http or https URL")]
    Url {
        /// Line in the file, from 1.
        line: usize,
        /// Text of the field.
        url: String,
    },
}

/// Entries of an index, by the stem of the WARC's file name.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) url: Option<Url>,
    pub(super) blocked: Vec<String>,
}

impl Index {
    /// Reads `file`; without the file, the index is empty.
    pub(super) fn read(file: &Path) -> Result<Self, IndexFault> {
        let file = match File::open(file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(IndexFault::Read(error)),
        };
        let mut text = String::new();
        let length = file
            .take(MAX_INDEX + 1)
            .read_to_string(&mut text)
            .map_err(IndexFault::Read)?;
        if u64::try_from(length).is_ok_and(|length| length > MAX_INDEX) {
            return Err(IndexFault::TooLarge);
        }
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, IndexFault> {
        let mut lines = text.lines().enumerate();
        let names: Vec<&str> = lines
            .next()
            .map_or_else(Vec::new, |(_, line)| line.split('\t').collect());
        let column = |name: &'static str| {
            let found = names.iter().position(|column| column.trim() == name);
            found.ok_or(IndexFault::Column(name))
        };
        let (site, url) = (column("site")?, column("main_url")?);
        let blocked = column("block_hosts").ok();
        let mut entries = BTreeMap::new();
        for (number, line) in lines {
            let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
            let cell = |column: usize| cells.get(column).copied().unwrap_or_default();
            if cell(site).is_empty() {
                continue;
            }
            let entry = Entry {
                url: parse_url(cell(url), number + 1)?,
                blocked: blocked.map(cell).map(hosts).unwrap_or_default(),
            };
            entries.insert(cell(site).to_owned(), entry);
        }
        Ok(Self { entries })
    }

    /// Returns the entry of the file with this stem (`heise.v1`).
    pub(super) fn entry(&self, stem: &str) -> Entry {
        self.entries.get(stem).cloned().unwrap_or_default()
    }
}

fn parse_url(cell: &str, line: usize) -> Result<Option<Url>, IndexFault> {
    if cell.is_empty() || cell == "-" {
        return Ok(None);
    }
    let url = Url::parse(cell).ok().filter(|url| {
        let scheme = url.scheme();
        matches!(scheme, "http" | "https") && url.has_host()
    });
    url.map(Some).ok_or_else(|| IndexFault::Url {
        line,
        url: cell.to_owned(),
    })
}

fn hosts(cell: &str) -> Vec<String> {
    let hosts = cell.split(',').map(str::trim).filter(|host| !host.is_empty());
    let mut hosts: Vec<String> = hosts.map(str::to_ascii_lowercase).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let index =
            Index::parse("kind\tsite\tblock_hosts\tmain_url\nx\ta\tB.test, c.test\thttp://a.test/\ny\tb\n\n")
                .unwrap();
        let entry = index.entry("a");
        assert_eq!(entry.url.unwrap().as_str(), "http://a.test/");
        assert_eq!(entry.blocked, ["b.test", "c.test"]);
        assert!(index.entry("b").url.is_none());
        assert!(index.entry("c").blocked.is_empty());
    }

    #[test]
    fn index_errors_contain_the_line_and_column() {
        let fault = |text| Index::parse(text).unwrap_err().to_string();
        assert_eq!(fault(""), "line 1 has no column `site`");
        assert_eq!(fault("site\turl"), "line 1 has no column `main_url`");
        let text = "site\tmain_url\na\thttp://a.test/\nb\tfile:///b";
        assert_eq!(fault(text), "line 3: `file:///b` is not an http or https URL");
    }
}
