//! Certificates in NSS databases, by `certutil`.
//!
//! Databases are edited as copies, which then replace the files: at every moment a database is complete,
//! either as before or as after the change.
use std::{fs, path::Path};

use crate::{
    command::{self, CommandRunner},
    disk::{self, Disk, permissions},
    error::ChangeError,
    step::CommandLine,
};

/// The files of a database, in the order in which they are replaced: `key4.db` has the signatures of the
/// trust settings in `cert9.db`.
pub(crate) const FILES: [&str; 3] = ["pkcs11.txt", "key4.db", "cert9.db"];
/// SQLite's files of an unfinished transaction.
const UNFINISHED: [&str; 4] = [
    "cert9.db-journal",
    "cert9.db-wal",
    "key4.db-journal",
    "key4.db-wal",
];
/// Certificates of one name that are removed at most.
const MAX_COPIES: usize = 16;

/// A certificate of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) nickname: String,
    /// True if servers with certificates of this authority are trusted.
    pub(crate) is_trusted: bool,
}

/// Finds a certificate under whatever names the database has it.
pub(crate) fn find(
    runner: &dyn CommandRunner,
    directory: &Path,
    pem: &str,
) -> Result<Vec<Found>, ChangeError> {
    // A plan that is only shown may have no certificate yet.
    if pem.is_empty() || !directory.join("cert9.db").exists() {
        return Ok(Vec::new());
    }
    let table = command::run(runner, &certutil(directory, &["-L"]))?;
    let mut found = Vec::new();
    for line in table.lines() {
        // A line is a name, blanks, and the trust flags, which have two commas.
        let Some((name, flags)) = line.trim_end().rsplit_once(' ') else {
            continue;
        };
        let nickname = name.trim_end().to_owned();
        if flags.matches(',').count() != 2 || nickname.is_empty() {
            continue;
        }
        let shown = shown(runner, directory, &nickname)?;
        if shown.is_some_and(|shown| squeezed(&shown).contains(&squeezed(pem))) {
            let is_trusted = flags
                .split(',')
                .next()
                .is_some_and(|servers| servers.contains('C'));
            found.push(Found { nickname, is_trusted });
        }
    }
    Ok(found)
}

/// Changed files of a database.
pub(crate) type NewFiles = Vec<(&'static str, Vec<u8>)>;

/// Returns the files of the database with the certificate.
pub(crate) fn with(
    runner: &dyn CommandRunner,
    work: &Work<'_>,
    directory: &Path,
    (nickname, pem): (&str, &str),
) -> Result<NewFiles, ChangeError> {
    let copy = work.copy_of(directory)?;
    if !copy.path.join("cert9.db").exists() {
        command::run(runner, &certutil(copy.path, &["-N", "--empty-password"]))?;
    }
    let certificate = copy.path.join("certificate.pem");
    fs::write(&certificate, pem).map_err(ChangeError::file(&certificate, "written"))?;
    let input = certificate.display().to_string();
    command::run(
        runner,
        &certutil(copy.path, &["-A", "-n", nickname, "-t", "C,,", "-i", &input]),
    )?;
    copy.changed_files(directory)
}

/// Returns the files of the database without certificates of these names.
pub(crate) fn without(
    runner: &dyn CommandRunner,
    work: &Work<'_>,
    directory: &Path,
    nicknames: &[&str],
) -> Result<NewFiles, ChangeError> {
    let copy = work.copy_of(directory)?;
    for nickname in nicknames {
        for _ in 0..MAX_COPIES {
            if shown(runner, copy.path, nickname)?.is_none() {
                break;
            }
            command::run(runner, &certutil(copy.path, &["-D", "-n", nickname]))?;
        }
    }
    copy.changed_files(directory)
}

/// The command that shows a certificate.
pub(crate) fn show_command(directory: &Path, nickname: &str) -> CommandLine {
    certutil(directory, &["-L", "-n", nickname, "-a"])
}

/// The command that removes a certificate.
pub(crate) fn remove_command(directory: &Path, nickname: &str) -> CommandLine {
    certutil(directory, &["-D", "-n", nickname])
}

fn shown(
    runner: &dyn CommandRunner,
    directory: &Path,
    nickname: &str,
) -> Result<Option<String>, ChangeError> {
    let command = show_command(directory, nickname);
    if command::succeeds(runner, &command)? {
        command::run(runner, &command).map(Some)
    } else {
        Ok(None)
    }
}

fn certutil(directory: &Path, arguments: &[&str]) -> CommandLine {
    let database = format!("sql:{}", directory.display());
    let mut all = vec!["-d".to_owned(), database];
    all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    CommandLine {
        program: "certutil".to_owned(),
        arguments: all,
    }
}

/// The directory in which databases are edited.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    /// The directory; it does not exist between the calls.
    pub(crate) path: &'a Path,
}

impl Work<'_> {
    fn copy_of(&self, directory: &Path) -> Result<Copy<'_>, ChangeError> {
        for name in UNFINISHED {
            if directory.join(name).exists() {
                return Err(ChangeError::Unsuitable {
                    path: directory.to_owned(),
                    why: format!(
                        "a program uses it or died in it ({name} is there): start and close the browser"
                    ),
                });
            }
        }
        let copy = Copy { path: self.path };
        drop(fs::remove_dir_all(copy.path));
        permissions::create_directory(copy.path, disk::PRIVATE_DIRECTORY)
            .map_err(ChangeError::file(copy.path, "written"))?;
        for name in FILES {
            let from = directory.join(name);
            if let Some(bytes) = disk::read(&from).map_err(ChangeError::file(&from, "read"))? {
                let to = copy.path.join(name);
                Disk::default()
                    .write(&to, &bytes, 0o600)
                    .map_err(ChangeError::file(&to, "written"))?;
            }
        }
        Ok(copy)
    }
}

/// A copy of a database, which is removed in the end.
struct Copy<'a> {
    path: &'a Path,
}

impl Copy<'_> {
    fn changed_files(&self, directory: &Path) -> Result<NewFiles, ChangeError> {
        let mut changed = Vec::new();
        for name in FILES {
            let read = |path: &Path| disk::read(path).map_err(ChangeError::file(path, "read"));
            let (old, new) = (read(&directory.join(name))?, read(&self.path.join(name))?);
            if let Some(new) = new.filter(|new| old.as_ref() != Some(new)) {
                // A new `pkcs11.txt` names the directory that it was made in.
                let new = match String::from_utf8(new) {
                    Ok(text) => {
                        let (here, there) =
                            (self.path.display().to_string(), directory.display().to_string());
                        text.replace(&here, &there).into_bytes()
                    }
                    Err(error) => error.into_bytes(),
                };
                changed.push((name, new));
            }
        }
        Ok(changed)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.path));
    }
}

/// Removes blanks and line ends, in which programs differ.
fn squeezed(pem: &str) -> String {
    pem.split_whitespace().collect()
}
