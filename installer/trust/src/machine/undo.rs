//! Undoes a change from the journal alone.
//!
//! A file that has the bytes of the change gets its earlier bytes back. If somebody changed the file since,
//! only what the change added is removed.
use std::path::Path;

use super::{Machine, proof, text};
use crate::{
    command,
    disk::{self, beside},
    error::ChangeError,
    firefox_policies, firefox_preferences,
    journal::{Entry, FileRecord, State, Which},
    keyed_lines,
    nss::{self, Work},
    step::{Change, CommandLine, FirefoxPolicies},
    survey,
};

/// Bytes of a file of a change.
struct Bytes {
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    now: Option<Vec<u8>>,
}

impl Bytes {
    /// True if nobody but this program wrote the file.
    fn is_ours(&self) -> bool {
        self.now == self.before || self.now == self.after || self.now.is_none()
    }

    /// True if the file must be written or removed to be as before; a file that somebody removed stays away.
    fn differs(&self) -> bool {
        self.now != self.before && self.now.is_some()
    }
}

impl Machine<'_> {
    /// Undoes a change and returns remarks for the user. A change that is not in the journal is undone already.
    ///
    /// # Errors
    /// The change cannot be undone; it stays in the journal.
    pub fn undo(&mut self, number: u32) -> Result<Vec<String>, ChangeError> {
        let entries = &self.journal.contents.entries;
        let Some(entry) = entries.iter().find(|entry| entry.number == number).cloned() else {
            return Ok(Vec::new());
        };
        if entry.state != State::Undoing {
            self.set_state(number, State::Undoing)?;
        }
        let mut remarks = Vec::new();
        self.undo_setting(&entry)?;
        self.undo_files(&entry, &mut remarks)?;
        if let Change::FirefoxPolicies { policies, homes, .. } = &entry.step.change {
            for home in homes {
                self.remove_from_profiles(home, policies, &mut remarks);
            }
        }
        if let Some(Err(error)) = entry
            .step
            .change
            .refresh()
            .map(|refresh| command::run(self.runner.0, refresh))
        {
            remarks.push(error.to_string());
        }
        self.remove_empty_directories()?;
        self.journal.remove(&self.disk, number)?;
        Ok(remarks)
    }

    fn undo_setting(&self, entry: &Entry) -> Result<(), ChangeError> {
        match &entry.step.change {
            Change::Command { undo, .. } => command::run(self.runner.0, undo).map(drop),
            Change::GnomeSetting { schema, key, value } => {
                let now = command::run(self.runner.0, &proof::gnome_get(schema, key))?;
                if &proof::gnome_value(&now) != value {
                    return Ok(());
                }
                let earlier = entry
                    .earlier
                    .as_deref()
                    .map(proof::gnome_value)
                    .unwrap_or_default();
                // These are the schema's defaults, and a default is not a value of the user.
                let undo = if earlier.is_empty() || earlier == "none" {
                    CommandLine::new("gsettings", ["reset", schema, key])
                } else {
                    CommandLine::new("gsettings", ["set", schema, key, &earlier])
                };
                command::run(self.runner.0, &undo).map(drop)
            }
            Change::File { .. }
            | Change::Keys { .. }
            | Change::FirefoxPreferences { .. }
            | Change::FirefoxPolicies { .. }
            | Change::NssCertificate { .. } => Ok(()),
        }
    }

    fn undo_files(&self, entry: &Entry, remarks: &mut Vec<String>) -> Result<(), ChangeError> {
        let mut files = Vec::new();
        for (index, record) in entry.files.iter().enumerate() {
            let left = beside(&record.path);
            if disk::read(&left).is_ok_and(|left| left.is_some()) {
                self.disk
                    .remove(&left)
                    .map_err(ChangeError::file(&left, "removed"))?;
            }
            let bytes = Bytes {
                before: self.journal.kept(entry.number, index, Which::Before)?,
                after: self.journal.kept(entry.number, index, Which::After)?,
                now: disk::read(&record.path).map_err(ChangeError::file(&record.path, "read"))?,
            };
            files.push((record, bytes));
        }
        let (remembered, written): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(record, _)| record.only_remembered);
        if written.iter().all(|(_, bytes)| bytes.is_ours()) {
            for (record, bytes) in written.iter().rev().filter(|(_, bytes)| bytes.differs()) {
                self.put(record, bytes.before.as_deref())?;
            }
        } else if let Change::NssCertificate {
            directory,
            certificate,
            ..
        } = &entry.step.change
        {
            self.remove_certificate(directory, certificate)?;
        } else {
            for (record, bytes) in &written {
                self.undo_in_changed_file(&entry.step.change, record, bytes, remarks)?;
            }
        }
        for (record, bytes) in remembered {
            self.undo_copied_preferences(&entry.step.change, record, bytes)?;
        }
        Ok(())
    }

    /// Removes our part of a file that somebody changed since.
    fn undo_in_changed_file(
        &self,
        change: &Change,
        record: &FileRecord,
        bytes: &Bytes,
        remarks: &mut Vec<String>,
    ) -> Result<(), ChangeError> {
        let path = &record.path;
        let Some(now) = bytes.now.clone() else {
            return Ok(());
        };
        let before = bytes
            .before
            .clone()
            .map(|before| text(path, before))
            .transpose()?;
        let blank_is_none =
            |text: String| Some(text).filter(|text| before.is_some() || !text.trim().is_empty());
        let left = match change {
            Change::Keys { section, keys, .. } => {
                let earlier = before.as_deref().unwrap_or_default();
                let mut left = text(path, now.clone())?;
                for (key, value) in keys.iter().rev() {
                    left = keyed_lines::restore(&left, earlier, section, key, value);
                }
                blank_is_none(left)
            }
            Change::FirefoxPreferences { .. } => {
                blank_is_none(firefox_preferences::without_block(&text(path, now.clone())?))
            }
            Change::FirefoxPolicies { policies, .. } => {
                let now = text(path, now.clone())?;
                let left = firefox_policies::without_ours(&now, before.as_deref(), policies);
                left.map_err(|why| super::unsuitable(path, why))?
            }
            Change::File { .. }
            | Change::NssCertificate { .. }
            | Change::GnomeSetting { .. }
            | Change::Command { .. } => {
                remarks.push(self.move_away(path, &now)?);
                before
            }
        };
        if left.as_ref().map(String::as_bytes) != Some(&now) {
            self.put(record, left.as_deref().map(str::as_bytes))?;
        }
        Ok(())
    }

    /// Copies a file of ours that somebody changed into the state directory.
    fn move_away(&self, path: &Path, now: &[u8]) -> Result<String, ChangeError> {
        let directory = self.journal.kept_directory();
        let kept = directory.join(path.file_name().unwrap_or_default());
        self.disk
            .create_directory(&directory, disk::PRIVATE_DIRECTORY)
            .and_then(|()| self.disk.write(&kept, now, 0o600))
            .map_err(ChangeError::file(&kept, "written"))?;
        Ok(format!(
            "{} had been changed; the changed file is now {}",
            path.display(),
            kept.display()
        ))
    }

    /// Firefox copies `user.js` into `prefs.js`: puts the earlier values back there.
    fn undo_copied_preferences(
        &self,
        change: &Change,
        record: &FileRecord,
        bytes: Bytes,
    ) -> Result<(), ChangeError> {
        let Change::FirefoxPreferences { preferences, .. } = change else {
            return Ok(());
        };
        let path = &record.path;
        // Without the file, Firefox has not run or the profile is gone.
        let Some(now) = bytes.now else { return Ok(()) };
        let now = text(path, now)?;
        let before = text(path, bytes.before.unwrap_or_default())?;
        let left = firefox_preferences::restore(&now, &before, preferences);
        if left != now {
            self.put(record, Some(left.as_bytes()))?;
        }
        Ok(())
    }

    /// Firefox keeps a certificate in each profile after the policy that installed it is gone.
    fn remove_from_profiles(&self, home: &Path, policies: &FirefoxPolicies, remarks: &mut Vec<String>) {
        let Some(authority) = &policies.authority else {
            return;
        };
        for profile in survey::firefox_profiles(home) {
            // The profile's own change is undone exactly.
            if self.has_own_change(&profile) {
                continue;
            }
            if let Err(error) = self.remove_certificate(&profile, &authority.certificate) {
                remarks.push(format!(
                    "the certificate may be left in the profile {}: {error}",
                    profile.display()
                ));
            }
        }
    }

    fn has_own_change(&self, profile: &Path) -> bool {
        let mut entries = self.journal.contents.entries.iter();
        entries.any(|entry| {
            matches!(&entry.step.change, Change::NssCertificate { directory, .. } if directory == profile)
        })
    }

    /// Removes a certificate from a database, whatever its name is.
    fn remove_certificate(&self, directory: &Path, certificate: &str) -> Result<(), ChangeError> {
        let found = nss::find(self.runner.0, directory, certificate)?;
        if found.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = found.iter().map(|found| found.nickname.as_str()).collect();
        let path = self.journal.work();
        for (name, bytes) in nss::without(self.runner.0, &Work { path: &path }, directory, &names)? {
            let path = directory.join(name);
            let mode = super::prepare::mode_of(&path).unwrap_or(0o600);
            self.disk
                .write(&path, &bytes, mode)
                .map_err(ChangeError::file(&path, "written"))?;
        }
        Ok(())
    }

    /// Writes a file, or removes it.
    fn put(&self, record: &FileRecord, bytes: Option<&[u8]>) -> Result<(), ChangeError> {
        let path = &record.path;
        match bytes {
            Some(bytes) => {
                let mode = record.earlier_mode.unwrap_or(record.mode);
                self.disk
                    .write(path, bytes, mode)
                    .map_err(ChangeError::file(path, "written"))
            }
            None => self.disk.remove(path).map_err(ChangeError::file(path, "removed")),
        }
    }
}
