//! The files of the setting `fetch.extra-ca`.
use std::{fs, io, path::PathBuf};

use crate::file_problem::file_problem;
use longhaul_origin::OriginConfigError;

/// Errors of the settings of the origin client, most of which are of a file with certificate authorities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginSettingsError {
    /// The file cannot be read.
    #[error("fetch.extra-ca: {path} {}", file_problem(source), path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file contains no certificate.
    #[error(
        "fetch.extra-ca: {path} contains no certificate in PEM form (lines between BEGIN CERTIFICATE and END CERTIFICATE)",
        path = .0.display()
    )]
    NoCertificate(PathBuf),
    /// A certificate of the file is damaged.
    #[error(
        "fetch.extra-ca: a certificate in {path} is damaged, or cannot be that of an authority: get the file again from \
         those who run the authority",
        path = .0.display()
    )]
    BadCertificate(PathBuf),
    /// Another error.
    #[error(transparent)]
    Client(OriginConfigError),
}

/// The contents of the files.
pub fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, OriginSettingsError> {
    let read = |path: &PathBuf| {
        fs::read(path).map_err(|source| OriginSettingsError::Read {
            path: path.clone(),
            source,
        })
    };
    files.iter().map(read).collect()
}

/// The error of the origin client, which knows these files by their numbers, with the path.
pub fn with_path(error: OriginConfigError, files: &[PathBuf]) -> OriginSettingsError {
    let path = |number: usize| {
        let index = number.checked_sub(1);
        index
            .and_then(|index| files.get(index))
            .cloned()
            .unwrap_or_default()
    };
    if let OriginConfigError::NoCertificate { file } = error {
        OriginSettingsError::NoCertificate(path(file))
    } else if let OriginConfigError::BadCertificate { file } = error {
        OriginSettingsError::BadCertificate(path(file))
    } else {
        OriginSettingsError::Client(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_name_the_file() {
        let files = ["/etc/one.pem", "/etc/two.pem"].map(PathBuf::from);
        let text = |error| with_path(error, &files).to_string();
        let absent = text(OriginConfigError::NoCertificate { file: 2 });
        assert!(
            absent.contains("/etc/two.pem contains no certificate"),
            "{absent}"
        );
        let damaged = text(OriginConfigError::BadCertificate { file: 1 });
        assert!(
            damaged.contains("a certificate in /etc/one.pem is damaged"),
            "{damaged}"
        );
        let directory = tempfile::tempdir().unwrap();
        let missing = [directory.path().join("missing.pem")];
        let error = read(&missing).unwrap_err().to_string();
        assert!(
            error.starts_with("fetch.extra-ca: ") && error.ends_with("missing.pem does not exist"),
            "{error}"
        );
    }
}
