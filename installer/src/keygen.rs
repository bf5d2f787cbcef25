//! `longhaul keygen`: a static X25519 key pair.
use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use longhaul_types::SecretKey;

/// Errors of generating or storing a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeygenError {
    /// The system provides no randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(getrandom::Error),
    /// The file exists already.
    #[error("{} exists and keys are never overwritten: choose another file, or move it away", .0.display())]
    Exists(PathBuf),
    /// The file cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause reported by the system.
        source: io::Error,
    },
}

/// Generates a secret key from the system's randomness.
///
/// # Errors
/// The system provides no randomness.
pub fn generate() -> Result<SecretKey, KeygenError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(KeygenError::Randomness)?;
    Ok(SecretKey::from_bytes(bytes))
}

/// Writes the secret key to a new file that only its owner can read.
///
/// # Errors
/// The file exists or cannot be written.
pub fn write_secret(key: &SecretKey, path: &Path) -> Result<(), KeygenError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        writeln!(file, "{}", key.to_secret_text())?;
        file.sync_all()
    });
    written.map_err(|source| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::AlreadyExists {
            KeygenError::Exists(path)
        } else {
            KeygenError::Write { path, source }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_goes_to_a_new_private_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = generate().unwrap();
        assert_ne!(key.as_bytes(), generate().unwrap().as_bytes());
        write_secret(&key, &path).unwrap();
        let read: SecretKey = std::fs::read_to_string(&path).unwrap().parse().unwrap();
        assert_eq!(read.public(), key.public());
        assert!(matches!(write_secret(&key, &path), Err(KeygenError::Exists(_))));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(
                std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
                0o600
            );
        }
    }
}
