//! The names and passwords of the password file.
use std::{fmt, sync::Arc};

/// Names with keyed hashes of their passwords.
#[derive(Clone, Default)]
pub struct Passwords {
    key: [u8; 32],
    entries: Vec<(Arc<str>, blake3::Hash)>,
}

/// Errors of parsing a password file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PasswordsError {
    /// The file contains no password.
    #[error("it contains no password; add a line `name:password`")]
    None,
    /// The line has no name or no password.
    #[error("line {0} is not `name:password`")]
    Line(usize),
    /// The password can be guessed.
    #[error("the password in line {line} is shorter than {least} characters: anyone who can reach the port could guess it", least = Passwords::MIN_LENGTH)]
    Short {
        /// The line number.
        line: usize,
    },
    /// Two lines have the same name.
    #[error("line {0} repeats the name of another line")]
    Twice(usize),
    /// The system has no randomness.
    #[error("the system provides no random numbers")]
    Randomness,
}

impl Passwords {
    /// Minimum length of a password: guessing twelve random characters over a network is infeasible, and
    /// users rarely type the password.
    pub const MIN_LENGTH: usize = 12;

    /// Parses lines of `name:password`. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`PasswordsError`] names the line and the problem.
    pub fn parse(text: &str) -> Result<Self, PasswordsError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|_| PasswordsError::Randomness)?;
        let mut entries: Vec<(Arc<str>, blake3::Hash)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, password) = line.split_once(':').ok_or(PasswordsError::Line(number))?;
            if name.is_empty() {
                return Err(PasswordsError::Line(number));
            }
            if password.chars().count() < Self::MIN_LENGTH {
                return Err(PasswordsError::Short { line: number });
            }
            if entries.iter().any(|(other, _)| **other == *name) {
                return Err(PasswordsError::Twice(number));
            }
            entries.push((name.into(), blake3::keyed_hash(&key, line.as_bytes())));
        }
        if entries.is_empty() {
            return Err(PasswordsError::None);
        }
        Ok(Self { key, entries })
    }

    /// True if there is no password.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the name for a `name:password`. The time depends only on the length of the input: all hashes
    /// are compared.
    pub(super) fn holder(&self, pair: &[u8]) -> Option<Arc<str>> {
        let credential = blake3::keyed_hash(&self.key, pair);
        let mut holder = None;
        for (name, hash) in &self.entries {
            // blake3 compares hashes in constant time.
            if *hash == credential {
                holder = Some(Arc::clone(name));
            }
        }
        holder
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.entries.iter().map(|(name, _)| name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_password_file_is_explained() {
        let problem = |text| Passwords::parse(text).unwrap_err();
        assert_eq!(problem("\n# none\n"), PasswordsError::None);
        assert_eq!(problem("\nmine"), PasswordsError::Line(2));
        assert_eq!(problem(":a long password"), PasswordsError::Line(1));
        assert_eq!(problem("me:short"), PasswordsError::Short { line: 1 });
        assert_eq!(
            problem("me:a long password\nme:b long password"),
            PasswordsError::Twice(2)
        );
    }
}
