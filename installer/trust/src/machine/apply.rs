//! Applies a step.
use super::{
    Machine, Outcome,
    prepare::{Prepared, mode_of},
};
use crate::{
    command, disk,
    error::ChangeError,
    journal::{Entry, FileRecord, State},
    step::{Change, Step},
};

impl Machine<'_> {
    /// Applies a step. A step that fails is undone.
    ///
    /// # Errors
    /// The change cannot be made.
    pub fn apply(&mut self, step: &Step) -> Result<Outcome, ChangeError> {
        let present = self
            .journal
            .contents
            .entries
            .iter()
            .find(|entry| entry.step.change == step.change);
        if let Some(number) = present
            .filter(|entry| entry.state != State::Applied)
            .map(|entry| entry.number)
        {
            self.undo(number)?;
        }
        if self.is_in_effect(step)? {
            return Ok(Outcome::InEffect);
        }
        let present = self
            .journal
            .contents
            .entries
            .iter()
            .find(|entry| entry.step.change == step.change);
        // Somebody reverted the change: what is there now is what a later undo restores.
        if let Some(number) = present.map(|entry| entry.number) {
            self.undo(number)?;
        }
        self.journal.create(&self.disk)?;
        let prepared = self.prepare(&step.change)?;
        let number = self.begin(step, &prepared)?;
        let done = self.perform(step, &prepared).and_then(|()| {
            if has_proof(&step.change) && !self.is_in_effect(step)? {
                return Err(ChangeError::NoEffect);
            }
            self.set_state(number, State::Applied)
        });
        if let Err(error) = done {
            #[cfg(test)]
            if super::tests::is_death(&error) {
                return Err(error);
            }
            self.undo(number)?;
            return Err(error);
        }
        Ok(Outcome::Applied)
    }

    /// Stores the state before the change, and enters the change into the journal.
    fn begin(&mut self, step: &Step, prepared: &Prepared) -> Result<u32, ChangeError> {
        let number = self.journal.next_number();
        let mut files = Vec::new();
        for new in &prepared.files {
            let before = disk::read(&new.path).map_err(ChangeError::file(&new.path, "read"))?;
            let sides = [before.as_deref(), Some(new.bytes.as_slice())];
            self.journal.keep(&self.disk, (number, files.len()), sides)?;
            let earlier_mode = before.and_then(|_| mode_of(&new.path));
            files.push(FileRecord {
                path: new.path.clone(),
                earlier_mode,
                mode: earlier_mode.unwrap_or(new.mode),
                only_remembered: false,
            });
        }
        for path in &prepared.remembered {
            let before = disk::read(path).map_err(ChangeError::file(path, "read"))?;
            self.journal
                .keep(&self.disk, (number, files.len()), [before.as_deref(), None])?;
            files.push(FileRecord {
                path: path.clone(),
                earlier_mode: before.and_then(|_| mode_of(path)),
                mode: 0,
                only_remembered: true,
            });
        }
        let directories = prepared.directories.iter().chain(&prepared.foreign_directories);
        self.journal.contents.directories.extend(directories.cloned());
        self.journal.contents.entries.push(Entry {
            number,
            state: State::Applying,
            step: step.clone(),
            files,
            earlier: prepared.earlier.clone(),
        });
        self.journal.save(&self.disk)?;
        Ok(number)
    }

    fn perform(&self, step: &Step, prepared: &Prepared) -> Result<(), ChangeError> {
        for directory in &prepared.directories {
            self.disk
                .create_directory(directory, prepared.directory_mode)
                .map_err(ChangeError::file(directory, "written"))?;
        }
        for new in &prepared.files {
            let mode = mode_of(&new.path).unwrap_or(new.mode);
            self.disk
                .write(&new.path, &new.bytes, mode)
                .map_err(ChangeError::file(&new.path, "written"))?;
        }
        let command = step.change.command();
        command.map_or(Ok(()), |command| command::run(self.runner.0, &command).map(drop))
    }

    pub(super) fn set_state(&mut self, number: u32, state: State) -> Result<(), ChangeError> {
        let entries = &mut self.journal.contents.entries;
        if let Some(entry) = entries.iter_mut().find(|entry| entry.number == number) {
            entry.state = state;
        }
        self.journal.save(&self.disk)
    }
}

fn has_proof(change: &Change) -> bool {
    !matches!(change, Change::Command { proof: None, .. })
}
