//! The journal: which changes were begun, and what was there before.
use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    disk::{self, Disk},
    error::ChangeError,
    state_directories,
    step::Step,
};

/// Name of the journal in the state directory.
const FILE: &str = "changes.json";
/// Directory of the earlier bytes of changed files.
const EARLIER: &str = "changes";
/// Directory of files of Longhaul that somebody changed: they are moved here instead of being removed.
pub(crate) const KEPT: &str = "kept";

/// The journal of a state directory.
#[derive(Debug)]
pub(crate) struct Journal {
    state_dir: PathBuf,
    pub(crate) contents: Contents,
}

/// Contents of the journal's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// Changes that were begun and are not undone, in the order of their application.
    pub(crate) entries: Vec<Entry>,
    /// Directories that were created for changes, and are removed when they are empty.
    pub(crate) directories: Vec<PathBuf>,
    /// Directories that were created for the state directory itself, outermost first.
    pub(crate) state_directories: Vec<PathBuf>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) number: u32,
    pub(crate) state: State,
    pub(crate) step: Step,
    pub(crate) files: Vec<FileRecord>,
    /// Values before the change that are not files, such as settings; `None`: not set.
    pub(crate) earlier: Option<String>,
}

/// Progress of a change. An entry whose change is undone is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Applying,
    Applied,
    Undoing,
}

/// A file of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) path: PathBuf,
    /// Mode before the change; `None`: there was no file.
    pub(crate) earlier_mode: Option<u32>,
    /// Mode after the change.
    pub(crate) mode: u32,
    /// True for files that are only read when the change is undone.
    #[serde(default)]
    pub(crate) only_remembered: bool,
}

impl Journal {
    /// Reads the journal; an absent one is empty.
    pub(crate) fn read(state_dir: &Path) -> Result<Self, ChangeError> {
        let path = state_dir.join(FILE);
        let mut contents = match disk::read(&path).map_err(ChangeError::file(&path, "read"))? {
            Some(bytes) => {
                serde_json::from_slice(&bytes).map_err(|source| ChangeError::Journal { path, source })?
            }
            None => Contents::default(),
        };
        if contents.state_directories.is_empty() {
            contents.state_directories = state_directories::recorded(state_dir)?;
        }
        Ok(Self {
            state_dir: state_dir.to_owned(),
            contents,
        })
    }

    /// Creates the state directory, if necessary.
    pub(crate) fn create(&mut self, disk: &Disk) -> Result<(), ChangeError> {
        let missing = disk::missing_directories(&self.state_dir);
        let is_recorded = !state_directories::recorded(&self.state_dir)?.is_empty();
        if missing.is_empty() && !is_recorded {
            return Ok(());
        }
        let mut directories = self.contents.state_directories.clone();
        directories.extend(missing.iter().cloned());
        directories.sort_by_key(|directory| directory.components().count());
        directories.dedup();
        if !is_recorded {
            state_directories::record(disk, &self.state_dir, &directories)?;
        }
        for directory in &missing {
            disk.create_directory(directory, disk::PRIVATE_DIRECTORY)
                .map_err(ChangeError::file(directory, "written"))?;
        }
        self.contents.state_directories = directories;
        self.save(disk)?;
        state_directories::forget(disk, &self.state_dir)
    }

    /// Removes the journal, and then the directories that were created for it, if they are empty.
    pub(crate) fn end(&mut self, disk: &Disk) -> Result<(), ChangeError> {
        let mut directories = std::mem::take(&mut self.contents.state_directories);
        state_directories::record(disk, &self.state_dir, &directories)?;
        let path = self.state_dir.join(FILE);
        for path in [disk::beside(&path), path] {
            if path.exists() {
                disk.remove(&path).map_err(ChangeError::file(&path, "removed"))?;
            }
        }
        if !directories.contains(&self.state_dir) {
            directories.push(self.state_dir.clone());
        }
        for directory in directories.iter().rev() {
            let removed = disk.remove_if_empty(directory);
            removed.map_err(ChangeError::file(directory, "removed"))?;
        }
        state_directories::forget(disk, &self.state_dir)
    }

    /// Writes the journal, durably.
    pub(crate) fn save(&self, disk: &Disk) -> Result<(), ChangeError> {
        let path = self.state_dir.join(FILE);
        let text = serde_json::to_string_pretty(&self.contents).map_err(|source| ChangeError::Journal {
            path: path.clone(),
            source,
        })?;
        disk.write(&path, format!("{text}\n").as_bytes(), 0o600)
            .map_err(ChangeError::file(&path, "written"))
    }

    /// Number for a new entry; numbers name files, so a number in use is not given again.
    pub(crate) fn next_number(&self) -> u32 {
        self.contents
            .entries
            .iter()
            .map(|entry| entry.number + 1)
            .max()
            .unwrap_or_default()
    }

    /// Stores the bytes before and after a change.
    pub(crate) fn keep(
        &self,
        disk: &Disk,
        (entry, file): (u32, usize),
        bytes: [Option<&[u8]>; 2],
    ) -> Result<(), ChangeError> {
        let directory = self.state_dir.join(EARLIER);
        disk.create_directory(&directory, disk::PRIVATE_DIRECTORY)
            .map_err(ChangeError::file(&directory, "written"))?;
        for (which, bytes) in [Which::Before, Which::After].into_iter().zip(bytes) {
            let path = self.kept_path(entry, file, which);
            let done = match bytes {
                Some(bytes) => disk.write(&path, bytes, 0o600),
                None => disk.remove(&path),
            };
            done.map_err(ChangeError::file(&path, "written"))?;
        }
        Ok(())
    }

    /// The stored bytes before or after a change.
    pub(crate) fn kept(&self, entry: u32, file: usize, which: Which) -> Result<Option<Vec<u8>>, ChangeError> {
        let path = self.kept_path(entry, file, which);
        disk::read(&path).map_err(ChangeError::file(&path, "read"))
    }

    /// Removes an entry and, afterwards, its stored bytes.
    pub(crate) fn remove(&mut self, disk: &Disk, number: u32) -> Result<(), ChangeError> {
        self.contents.entries.retain(|entry| entry.number != number);
        self.save(disk)?;
        self.clean(disk)
    }

    /// Removes stored bytes that belong to no entry.
    pub(crate) fn clean(&self, disk: &Disk) -> Result<(), ChangeError> {
        let directory = self.state_dir.join(EARLIER);
        let Ok(files) = fs::read_dir(&directory) else {
            return Ok(());
        };
        for file in files.flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let number = name
                .split('.')
                .next()
                .and_then(|number| number.parse::<u32>().ok());
            let is_used =
                number.is_some_and(|number| self.contents.entries.iter().any(|entry| entry.number == number));
            if !is_used && file.path().is_file() {
                disk.remove(&file.path())
                    .map_err(ChangeError::file(&file.path(), "removed"))?;
            }
        }
        disk.remove_if_empty(&directory)
            .map_err(ChangeError::file(&directory, "removed"))?;
        Ok(())
    }

    /// The directory in which databases are edited.
    pub(crate) fn work(&self) -> PathBuf {
        self.state_dir.join("work")
    }

    /// The directory of files that were changed by somebody else and moved away.
    pub(crate) fn kept_directory(&self) -> PathBuf {
        self.state_dir.join(KEPT)
    }

    fn kept_path(&self, entry: u32, file: usize, which: Which) -> PathBuf {
        let which = match which {
            Which::Before => "before",
            Which::After => "after",
        };
        self.state_dir
            .join(EARLIER)
            .join(format!("{entry}.{file}.{which}"))
    }
}

/// Side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Before,
    After,
}
