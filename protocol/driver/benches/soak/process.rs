//! Resources of this process.
use std::fmt;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) resident: u64,
    pub(crate) descriptors: usize,
}

impl Usage {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        Self {
            resident: kib * 1024,
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count(),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.resident * 10 / (1 << 20);
        write!(
            f,
            "{}.{} MiB, {} descriptors",
            tenths / 10,
            tenths % 10,
            self.descriptors
        )
    }
}
