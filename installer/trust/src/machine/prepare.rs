//! Computes what a change does, without doing it.
use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Machine, proof, read_text, unsuitable};
use crate::{
    command,
    disk::{self, permissions},
    error::ChangeError,
    firefox_policies, firefox_preferences, keyed_lines,
    nss::{self, Work},
    step::Change,
};

/// Mode of new files in a home directory.
const PRIVATE: u32 = 0o600;
/// Mode of new files that other users' programs read.
const PUBLIC: u32 = 0o644;

/// The effects of a change.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    /// Files to write, in this order.
    pub(super) files: Vec<NewFile>,
    /// Files that are only read when the change is undone.
    pub(super) remembered: Vec<PathBuf>,
    /// Directories to create, outermost first, and their mode.
    pub(super) directories: Vec<PathBuf>,
    pub(super) directory_mode: u32,
    /// Directories that a command may create.
    pub(super) foreign_directories: Vec<PathBuf>,
    /// Value of a setting before the change.
    pub(super) earlier: Option<String>,
}

/// A file to write.
#[derive(Debug)]
pub(super) struct NewFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// Mode if there is no file yet.
    pub(super) mode: u32,
}

impl Machine<'_> {
    /// Computes the effects of a change from the present state.
    pub(super) fn prepare(&self, change: &Change) -> Result<Prepared, ChangeError> {
        Ok(match change {
            Change::File { path, content, .. } => one_file(path, content.clone(), PUBLIC),
            Change::Keys {
                path,
                section,
                form,
                keys,
                ..
            } => {
                let mut text = read_text(path)?.unwrap_or_default();
                for (key, value) in keys {
                    text = keyed_lines::set(&text, section, key, value, *form)
                        .map_err(|why| unsuitable(path, why))?;
                }
                one_file(path, text, PRIVATE)
            }
            Change::FirefoxPreferences { profile, preferences } => {
                let path = profile.join("user.js");
                let text = read_text(&path)?.unwrap_or_default();
                let mut prepared = one_file(
                    &path,
                    firefox_preferences::with_block(&text, preferences),
                    PRIVATE,
                );
                prepared.remembered.push(profile.join("prefs.js"));
                prepared
            }
            Change::FirefoxPolicies { path, policies, .. } => {
                let text = read_text(path)?.unwrap_or_default();
                let text =
                    firefox_policies::with_ours(&text, policies).map_err(|why| unsuitable(path, why))?;
                one_file(path, text, PUBLIC)
            }
            Change::NssCertificate {
                directory,
                nickname,
                certificate,
            } => {
                let path = self.journal.work();
                let files = nss::with(
                    self.runner.0,
                    &Work { path: &path },
                    directory,
                    (nickname, certificate),
                )?;
                let files = files.into_iter().map(|(name, bytes)| NewFile {
                    path: real_path(&directory.join(name)),
                    bytes,
                    mode: PRIVATE,
                });
                Prepared {
                    files: files.collect(),
                    directories: disk::missing_directories(directory),
                    directory_mode: disk::PRIVATE_DIRECTORY,
                    ..Prepared::default()
                }
            }
            Change::GnomeSetting { schema, key, .. } => Prepared {
                earlier: Some(command::run(self.runner.0, &proof::gnome_get(schema, key))?),
                ..Prepared::default()
            },
            Change::Command { directories, .. } => Prepared {
                foreign_directories: directories
                    .iter()
                    .filter(|path| !path.exists())
                    .cloned()
                    .collect(),
                ..Prepared::default()
            },
        })
    }
}

fn one_file(path: &Path, text: String, mode: u32) -> Prepared {
    let path = real_path(path);
    Prepared {
        directories: disk::missing_directories(disk::parent(&path)),
        directory_mode: disk::DIRECTORY,
        files: vec![NewFile {
            path,
            bytes: text.into_bytes(),
            mode,
        }],
        ..Prepared::default()
    }
}

/// Follows symbolic links, so that a linked file is changed and not its link.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Mode of a file, if it exists.
pub(super) fn mode_of(path: &Path) -> Option<u32> {
    fs::metadata(path)
        .ok()
        .map(|metadata| permissions::mode(&metadata))
}
