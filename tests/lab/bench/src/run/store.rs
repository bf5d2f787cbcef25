//! Incremental results file: no row is lost when the command is killed.
use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use longhaul_report::{Environment, Results, ResultsError, Row};

/// Maximum length of a results file: a full run with all details has about 60 MB.
const MAX_FILE: u64 = 512 * 1024 * 1024;

/// Errors of a results file.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system reports an error.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is not a results file.
    #[error("{}: {source}; without --resume the file is replaced", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// The error.
        source: ResultsError,
    },
    /// It exceeds the maximum length.
    #[error("{} is larger than {MAX_FILE} bytes; start a new file", .0.display())]
    TooLarge(PathBuf),
}

/// Properties that identify a load.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadKey(String);

impl LoadKey {
    /// Returns the key of an existing row.
    pub fn of(row: &Row) -> Self {
        Self(format!(
            "{}|{}|{}|{}|{}|{}|{}|{:.6}|{}|{}|{}",
            row.page,
            row.link,
            row.system,
            row.state,
            row.loader,
            row.image_level,
            row.run,
            row.internet_loss,
            row.conditions,
            row.scheme,
            row.without.join(",")
        ))
    }
}

/// An incremental results file: complete rows are appended to `FILE.partial`, a line each, and become `FILE`
/// at the end.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    partial: PathBuf,
    journal: File,
    results: Results,
    known: HashSet<LoadKey>,
}

impl Store {
    /// Opens the file: with `resume` with the rows of the file and of an interrupted run's partial file, else
    /// empty.
    ///
    /// # Errors
    /// A file cannot be read or written, or has other contents.
    pub fn open(path: &Path, environment: Environment, resume: bool) -> Result<Self, StoreError> {
        let partial = with_suffix(path, ".partial");
        let mut results = Results {
            environment,
            ..Results::default()
        };
        if resume {
            let earlier = read(path)?;
            if let Some(earlier) = earlier {
                results.rows = earlier.rows;
                results.bars = earlier.bars;
                results.series = earlier.series;
            }
            results.rows.extend(journalled(&partial)?);
        } else {
            remove(&partial)?;
        }
        let mut known = HashSet::new();
        results.rows.retain(|row| known.insert(LoadKey::of(row)));
        let journal = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&partial)
            .map_err(|source| file("write", &partial, source))?;
        Ok(Self {
            path: path.to_owned(),
            partial,
            journal,
            results,
            known,
        })
    }

    /// Returns true if this load has been measured.
    pub fn has(&self, key: &LoadKey) -> bool {
        self.known.contains(key)
    }

    /// Returns the results so far.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// Returns the rows so far, for fields that depend on other rows. The properties in the key must not be
    /// changed.
    pub fn rows_mut(&mut self) -> &mut [Row] {
        &mut self.results.rows
    }

    /// Adds a row; it is on disk when this returns.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn add(&mut self, row: Row) -> Result<(), StoreError> {
        let line = serde_json::to_string(&row).map_err(|source| StoreError::Content {
            path: self.partial.clone(),
            source: source.into(),
        })?;
        writeln!(self.journal, "{line}").map_err(|source| file("write", &self.partial, source))?;
        if self.known.insert(LoadKey::of(&row)) {
            self.results.rows.push(row);
        }
        Ok(())
    }

    /// Adds bars and curves of the transport.
    pub fn add_transport(&mut self, bars: Vec<longhaul_report::Bar>, series: Vec<longhaul_report::Series>) {
        self.results.bars.extend(bars);
        self.results.series.extend(series);
    }

    /// Writes the results file atomically and removes the partial one.
    ///
    /// # Errors
    /// The disk is full or fails; the partial file then still has every row.
    pub fn finish(mut self) -> Result<Results, StoreError> {
        self.results.rows.sort_by(|a, b| order(a).cmp(&order(b)));
        let text = self.results.to_json().map_err(|source| StoreError::Content {
            path: self.path.clone(),
            source,
        })?;
        let whole = with_suffix(&self.path, ".new");
        fs::write(&whole, text).map_err(|source| file("write", &whole, source))?;
        fs::rename(&whole, &self.path).map_err(|source| file("replace", &self.path, source))?;
        remove(&self.partial)?;
        Ok(self.results)
    }
}

/// Reads a results file.
///
/// # Errors
/// The file cannot be read, or is not a results file.
pub fn load(path: &Path) -> Result<Results, StoreError> {
    read(path)?.ok_or_else(|| file("read", path, io::Error::from(io::ErrorKind::NotFound)))
}

fn order(row: &Row) -> (&str, &str, &str, &str, &str, u64, u32) {
    let loss = (row.internet_loss * 1e6).round();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share below 1, in millionths"
    )]
    let loss = loss as u64;
    (
        &row.link,
        &row.loader,
        &row.state,
        &row.page,
        &row.system,
        loss,
        row.run,
    )
}

fn read(path: &Path) -> Result<Option<Results>, StoreError> {
    let Some(text) = text(path)? else { return Ok(None) };
    let results = Results::from_json(&text).map_err(|source| StoreError::Content {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some(results))
}

/// Returns the rows of a partial file. Its last line may be incomplete because the command was killed while
/// it wrote.
fn journalled(path: &Path) -> Result<Vec<Row>, StoreError> {
    let text = text(path)?.unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect())
}

fn text(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_FILE => return Err(StoreError::TooLarge(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(file("read", path, source)),
    }
    let text = fs::read_to_string(path).map_err(|source| file("read", path, source))?;
    Ok(Some(text))
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file("remove", path, error)),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn file(what: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::File {
        what,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(page: &str, run: u32) -> Row {
        Row {
            page: page.to_owned(),
            run,
            time_s: 1.5,
            ..Row::default()
        }
    }

    #[test]
    fn resume_keeps_the_rows_of_an_interrupted_run() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("results.json");
        let mut store = Store::open(&path, Environment::default(), false)?;
        store.add(row("a", 1))?;
        store.add(row("a", 2))?;
        drop(store);
        // The state after a kill in the middle of a line.
        let partial = folder.path().join("results.json.partial");
        let mut text = fs::read_to_string(&partial)?;
        text.push_str("{\"page\": \"b\", \"li");
        fs::write(&partial, text)?;

        let mut store = Store::open(&path, Environment::default(), true)?;
        assert!(store.has(&LoadKey::of(&row("a", 2))));
        assert!(!store.has(&LoadKey::of(&row("b", 1))));
        store.add(row("b", 1))?;
        let results = store.finish()?;
        assert_eq!(results.rows.len(), 3);
        assert!(!partial.exists());
        assert_eq!(load(&path)?, results);
        Ok(())
    }

    #[test]
    fn without_resume_an_older_file_is_replaced() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("results.json");
        let mut store = Store::open(&path, Environment::default(), false)?;
        store.add(row("a", 1))?;
        store.finish()?;
        let mut store = Store::open(&path, Environment::default(), false)?;
        assert!(!store.has(&LoadKey::of(&row("a", 1))));
        store.add(row("b", 1))?;
        assert_eq!(store.finish()?.rows.len(), 1);
        Ok(())
    }

    #[test]
    fn other_files_are_rejected() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("results.json");
        fs::write(&path, "[]")?;
        let error = Store::open(&path, Environment::default(), true)
            .unwrap_err()
            .to_string();
        assert!(error.contains("not a results file"), "{error}");
        let missing = folder.path().join("no/such/folder.json");
        let error = Store::open(&missing, Environment::default(), false)
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot write"), "{error}");
        Ok(())
    }
}
