//! Bodies on disk that a device cannot take while its hop is away.
//!
//! A body in progress is part of one response, and so is what is here: only the readers of that body read it. Its
//! file has no name and ends with the body: when it was read or cancelled, when the session ends, or with the gateway.
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use longhaul_types::{ByteCount, PublicKey};
use parking_lot::Mutex;

/// Limits of what is kept for devices whose hop is away.
#[derive(Clone, Debug)]
pub struct OverflowLimits {
    /// Directory of the files.
    pub dir: PathBuf,
    /// Maximum bytes for one device.
    pub per_device: ByteCount,
    /// Maximum bytes for all devices together.
    pub total: ByteCount,
}

/// Bytes on disk, by device.
#[derive(Debug)]
pub(super) struct Overflow {
    limits: OverflowLimits,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: u64,
    by_device: BTreeMap<PublicKey, u64>,
}

/// Reasons why bytes are not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum OverflowError {
    #[error("the limit for devices whose hop is away is reached")]
    Full,
    #[error("bytes for a device whose hop is away cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// The part of a body that is on disk.
#[derive(Debug)]
pub(super) struct OverflowFile {
    overflow: Arc<Overflow>,
    device: PublicKey,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    file: File,
    length: u64,
}

/// Consecutive bytes of a file.
#[derive(Clone, Debug)]
pub(super) struct OverflowPart {
    file: Arc<OverflowFile>,
    offset: u64,
    length: usize,
}

impl Overflow {
    pub(super) fn new(limits: OverflowLimits) -> Self {
        Self {
            limits,
            used: Mutex::default(),
        }
    }

    /// Bytes that are kept for all devices.
    pub(super) fn bytes(&self) -> u64 {
        self.used.lock().total
    }

    fn reserve(&self, device: PublicKey, bytes: u64) -> Result<(), OverflowError> {
        let mut used = self.used.lock();
        let own = used.by_device.get(&device).copied().unwrap_or_default() + bytes;
        if own > self.limits.per_device.bytes() || used.total + bytes > self.limits.total.bytes() {
            return Err(OverflowError::Full);
        }
        used.total += bytes;
        used.by_device.insert(device, own);
        Ok(())
    }

    fn release(&self, device: PublicKey, bytes: u64) {
        let mut used = self.used.lock();
        used.total -= bytes;
        if let Some(own) = used.by_device.get_mut(&device) {
            *own -= bytes;
            if *own == 0 {
                used.by_device.remove(&device);
            }
        }
    }
}

impl OverflowFile {
    /// Creates a file for a body of a device. Blocks.
    pub(super) fn create(overflow: Arc<Overflow>, device: PublicKey) -> Result<Self, OverflowError> {
        let file = unnamed_file(&overflow.limits.dir)?;
        Ok(Self {
            overflow,
            device,
            contents: Mutex::new(Contents { file, length: 0 }),
        })
    }

    /// Appends bytes within the limits. Blocks.
    pub(super) fn append(self: &Arc<Self>, bytes: &[u8]) -> Result<OverflowPart, OverflowError> {
        let count = bytes.len() as u64;
        self.overflow.reserve(self.device, count)?;
        let mut contents = self.contents.lock();
        let offset = contents.length;
        // Reserved until the file is dropped, whether it was written or not.
        contents.length += count;
        contents.file.seek(SeekFrom::Start(offset))?;
        contents.file.write_all(bytes)?;
        drop(contents);
        Ok(OverflowPart {
            file: Arc::clone(self),
            offset,
            length: bytes.len(),
        })
    }
}

impl Drop for OverflowFile {
    fn drop(&mut self) {
        self.overflow.release(self.device, self.contents.get_mut().length);
    }
}

impl OverflowPart {
    /// Reads the bytes. Cancel safe.
    pub(super) async fn read(&self) -> io::Result<Bytes> {
        let part = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; part.length];
            let mut contents = part.file.contents.lock();
            contents.file.seek(SeekFrom::Start(part.offset))?;
            contents.file.read_exact(&mut bytes)?;
            Ok(Bytes::from(bytes))
        });
        read.await.map_err(io::Error::other)?
    }
}

/// Creates a file that only this process can open and that ends with its handle.
fn unnamed_file(dir: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let path = dir.join(format!("away-{}-{number}", std::process::id()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overflow(dir: &Path) -> Arc<Overflow> {
        Arc::new(Overflow::new(OverflowLimits {
            dir: dir.to_owned(),
            per_device: ByteCount::new(100),
            total: ByteCount::new(150),
        }))
    }

    #[tokio::test]
    async fn parts_are_read_as_they_were_written_and_within_the_limits() {
        let dir = tempfile::tempdir().unwrap();
        let overflow = overflow(dir.path());
        let create = |device: u8| {
            let device = PublicKey::from_bytes([device; 32]);
            Arc::new(OverflowFile::create(Arc::clone(&overflow), device).unwrap())
        };
        let (one, other) = (create(1), create(2));
        let parts = [one.append(&[1; 60]).unwrap(), one.append(&[2; 40]).unwrap()];
        assert!(
            matches!(create(1).append(&[3]), Err(OverflowError::Full)),
            "the limit of the device, whichever the file"
        );
        assert!(other.append(&[4; 50]).is_ok());
        assert!(
            matches!(other.append(&[4]), Err(OverflowError::Full)),
            "the limit of all"
        );
        assert_eq!(parts[1].read().await.unwrap(), vec![2; 40]);
        assert_eq!(parts[0].read().await.unwrap(), vec![1; 60]);
        assert_eq!(overflow.bytes(), 150);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no names");
        drop((one, parts));
        assert_eq!(overflow.bytes(), 50);
        assert!(create(1).append(&[3]).is_ok(), "released");
        assert_eq!(overflow.bytes(), 50);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_an_error() {
        let overflow = overflow(Path::new("/nonexistent"));
        let created = OverflowFile::create(overflow, PublicKey::from_bytes([1; 32]));
        assert!(matches!(created, Err(OverflowError::Write(_))));
    }

    #[test]
    fn the_end_of_one_body_leaves_the_others_of_its_device_counted() {
        let dir = tempfile::tempdir().unwrap();
        let overflow = overflow(dir.path());
        let create = || {
            let device = PublicKey::from_bytes([1; 32]);
            Arc::new(OverflowFile::create(Arc::clone(&overflow), device).unwrap())
        };
        let (one, other) = (create(), create());
        let parts = (one.append(&[1; 60]).unwrap(), other.append(&[2; 40]).unwrap());
        drop((other, parts.1));
        assert_eq!(overflow.bytes(), 60);
        assert!(matches!(create().append(&[3; 41]), Err(OverflowError::Full)));
        assert!(create().append(&[3; 40]).is_ok());
        drop((one, parts.0));
        assert!(overflow.used.lock().by_device.is_empty());
    }
}
