//! The form of a backup: a line with the version and the hash of the rest, then JSON with the files in base64.
use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

/// First word of the first line.
const KIND: &str = "longhaul-gateway-backup";
/// Version of the form.
const VERSION: u32 = 1;

/// Why a text is no usable backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The contents do not match their hash, or are malformed.
    #[error("the backup is damaged: {0}; use another copy")]
    Damaged(String),
    /// The file begins otherwise.
    #[error("the file is no backup of a gateway")]
    NoBackup,
    /// The version is unknown.
    #[error(
        "the backup has version {0}, and this program reads version {VERSION}; use the program that wrote it"
    )]
    Version(u32),
}

/// Files and their contents.
#[derive(Debug, Default)]
pub(super) struct Archive(BTreeMap<String, Vec<u8>>);

#[derive(Deserialize, Serialize)]
struct Document {
    /// Program and version that wrote the backup.
    software: String,
    files: BTreeMap<String, String>,
}

impl Archive {
    pub(super) fn add(&mut self, name: &str, contents: Vec<u8>) {
        self.0.insert(name.to_owned(), contents);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<(&str, &[u8])> {
        let found = self.0.get_key_value(name);
        found.map(|(name, contents)| (name.as_str(), contents.as_slice()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0
            .iter()
            .map(|(name, contents)| (name.as_str(), contents.as_slice()))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let files = self.iter();
        let document = Document {
            software: concat!("longhaul-gateway/", env!("CARGO_PKG_VERSION")).to_owned(),
            files: files
                .map(|(name, contents)| (name.to_owned(), STANDARD.encode(contents)))
                .collect(),
        };
        // Maps of strings always serialise.
        let rest = serde_json::to_vec_pretty(&document).unwrap_or_default();
        let mut bytes = format!("{KIND} {VERSION} {}\n", blake3::hash(&rest).to_hex()).into_bytes();
        bytes.extend_from_slice(&rest);
        bytes
    }

    /// Parses a backup whose files have only these names.
    pub(super) fn parse(bytes: &[u8], allowed: impl Fn(&str) -> bool) -> Result<Self, ArchiveError> {
        let damaged = |problem: &str| ArchiveError::Damaged(problem.to_owned());
        let end = bytes.iter().take(200).position(|byte| *byte == b'\n');
        let (line, rest) = end
            .and_then(|end| Some((bytes.get(..end)?, bytes.get(end + 1..)?)))
            .ok_or(ArchiveError::NoBackup)?;
        let line = std::str::from_utf8(line).map_err(|_| ArchiveError::NoBackup)?;
        let mut words = line.split(' ');
        if words.next() != Some(KIND) {
            return Err(ArchiveError::NoBackup);
        }
        let version: u32 = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| damaged("it has no version"))?;
        if version != VERSION {
            return Err(ArchiveError::Version(version));
        }
        if words.next() != Some(blake3::hash(rest).to_hex().as_str()) {
            return Err(damaged("its contents do not match their hash"));
        }
        let document: Document =
            serde_json::from_slice(rest).map_err(|error| ArchiveError::Damaged(error.to_string()))?;
        let mut archive = Self::default();
        for (name, contents) in document.files {
            if !allowed(&name) {
                return Err(damaged("it has a file that no gateway has"));
            }
            let contents = STANDARD
                .decode(contents)
                .map_err(|_| damaged("a file is no base64"))?;
            archive.add(&name, contents);
        }
        Ok(archive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outside_of_the_state_directory_is_refused() {
        let mut archive = Archive::default();
        archive.add("../.ssh/authorized_keys", vec![1]);
        let error = Archive::parse(&archive.to_bytes(), |name| name == "gateway.key").unwrap_err();
        assert!(matches!(error, ArchiveError::Damaged(_)), "{error}");
    }
}
