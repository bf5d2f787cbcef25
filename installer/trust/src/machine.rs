//! Applies and undoes changes; each is in the journal before anything is touched.
mod apply;
mod prepare;
mod proof;
#[cfg(test)]
mod tests;
mod undo;

use std::path::{Path, PathBuf};

use crate::{
    command::CommandRunner,
    disk::{self, Disk},
    error::ChangeError,
    journal::{Journal, State},
    step::Step,
};

/// The changes of one state directory.
#[derive(Debug)]
pub struct Machine<'a> {
    journal: Journal,
    disk: Disk,
    runner: Commands<'a>,
}

/// Result of applying a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The step is applied, and in the journal.
    Applied,
    /// The step was in effect before; nothing changed.
    InEffect,
}

/// A change that is in the journal.
#[derive(Clone, Debug)]
pub struct JournalledStep {
    /// Number of the change.
    pub number: u32,
    /// The step.
    pub step: Step,
    /// False if the process died while it applied or undid the step.
    pub is_complete: bool,
}

impl<'a> Machine<'a> {
    /// Reads the journal of a state directory, which need not exist; nothing is written.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn open(state_dir: &Path, runner: &'a dyn CommandRunner) -> Result<Self, ChangeError> {
        Ok(Self {
            journal: Journal::read(state_dir)?,
            disk: Disk::default(),
            runner: Commands(runner),
        })
    }

    /// Creates the state directory and records which directories are new.
    ///
    /// # Errors
    /// A directory cannot be created.
    pub fn create_state_directory(&mut self) -> Result<(), ChangeError> {
        self.journal.create(&self.disk)
    }

    /// The changes that are not undone, in the order of their application.
    pub fn journalled(&self) -> Vec<JournalledStep> {
        let entries = self.journal.contents.entries.iter();
        let listed = entries.map(|entry| JournalledStep {
            number: entry.number,
            step: entry.step.clone(),
            is_complete: entry.state == State::Applied,
        });
        listed.collect()
    }

    /// Removes the journal, and then the state directory and the directories that were created for it, if they
    /// are empty. Also completes what a process that died in its midst began.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn end(mut self) -> Result<(), ChangeError> {
        self.journal.end(&self.disk)
    }

    /// The directory of files that were changed by somebody else and moved away, if it exists.
    pub fn kept_directory(&self) -> Option<PathBuf> {
        Some(self.journal.kept_directory()).filter(|directory| directory.exists())
    }

    /// Undoes the changes that a dead process left incomplete, the newest first, and removes its copies.
    ///
    /// # Errors
    /// A change cannot be undone.
    pub fn settle(&mut self) -> Result<(), ChangeError> {
        let incomplete = self
            .journalled()
            .into_iter()
            .rev()
            .filter(|step| !step.is_complete);
        for step in incomplete.collect::<Vec<_>>() {
            self.undo(step.number)?;
        }
        drop(std::fs::remove_dir_all(self.journal.work()));
        self.journal.clean(&self.disk)
    }

    /// Removes those of our directories that are empty.
    fn remove_empty_directories(&mut self) -> Result<(), ChangeError> {
        let mut left = Vec::new();
        let mut directories = self.journal.contents.directories.clone();
        directories.sort_by_key(|directory| std::cmp::Reverse(directory.components().count()));
        for directory in directories {
            let removed = self.disk.remove_if_empty(&directory);
            if !removed.map_err(ChangeError::file(&directory, "removed"))? {
                left.push(directory);
            }
        }
        self.journal.contents.directories = left;
        Ok(())
    }
}

/// The commands of the system.
#[derive(Clone, Copy)]
struct Commands<'a>(&'a dyn CommandRunner);

impl std::fmt::Debug for Commands<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Commands")
    }
}

/// Reads a text file; `None` if it does not exist.
fn read_text(path: &Path) -> Result<Option<String>, ChangeError> {
    let bytes = disk::read(path).map_err(ChangeError::file(path, "read"))?;
    bytes.map(|bytes| text(path, bytes)).transpose()
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, ChangeError> {
    String::from_utf8(bytes).map_err(|_| unsuitable(path, "it is not text in UTF-8".to_owned()))
}

fn unsuitable(path: &Path, why: String) -> ChangeError {
    let path = path.to_owned();
    ChangeError::Unsuitable { path, why }
}
