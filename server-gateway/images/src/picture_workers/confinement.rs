//! Sandbox of a worker: it can only compute, read its standard input and write its standard output.
//!
//! A compromised decoder is confined as well: it can open no file and no socket, start no process, has no
//! capabilities, and is limited in memory and processor time. It can still make system calls that need no
//! descriptor.
#[cfg(target_os = "linux")]
pub(super) use self::linux::Confinement;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Confinement;

/// Memory of the program itself in bytes, in addition to a job's: its data, and memory that the allocator
/// retains. Measured: 1 MiB at the start, up to 9 MiB after a small image.
#[cfg(target_os = "linux")]
const PROGRAM: u64 = 12 << 20;
/// Address space of the file-backed program and libraries in bytes; unoptimised builds need the most.
#[cfg(target_os = "linux")]
const PROGRAM_FILES: u64 = 512 << 20;
/// Seconds of processor time beyond a job's time limit, because aborting a job takes time.
#[cfg(target_os = "linux")]
const SLACK: u64 = 4;

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, time::Duration};

    use rustix::{
        process::{
            DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior,
            set_parent_process_death_signal, setrlimit,
        },
        thread::{CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs},
        time::{ClockId, clock_gettime},
    };

    use super::{PROGRAM, PROGRAM_FILES, SLACK};

    /// The highest file descriptor of a worker.
    const STANDARD_ERROR: i32 = 2;

    /// Proof that this process is confined.
    #[derive(Debug)]
    pub(in super::super) struct Confinement {
        most_memory: u64,
    }

    /// Sets the soft and hard limit of a resource.
    fn limit(resource: Resource, most: u64) -> io::Result<()> {
        limit_within(resource, most, Some(most))
    }

    /// Sets the soft limit and the hard limit, but never above the limit that an operator has set.
    fn limit_within(resource: Resource, current: u64, maximum: Option<u64>) -> io::Result<()> {
        let before = getrlimit(resource).maximum;
        let maximum = maximum.into_iter().chain(before).min();
        let limits = Rlimit {
            current: Some(maximum.map_or(current, |maximum| current.min(maximum))),
            maximum,
        };
        Ok(setrlimit(resource, limits)?)
    }

    /// Closes descriptors that the gateway inherited from its parent. The gateway's own descriptors are
    /// close-on-exec.
    fn close_inherited() -> io::Result<()> {
        let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        for descriptor in open.into_iter().filter(|number| *number > STANDARD_ERROR) {
            // One of them was the directory listing's own, which is already closed.
            let _closed = nix::unistd::close(descriptor);
        }
        Ok(())
    }

    impl Confinement {
        /// Confines the process irrevocably.
        pub(in super::super) fn enter(most_memory: u64) -> io::Result<Self> {
            std::env::set_current_dir("/")?;
            close_inherited()?;
            // For the case that the gateway is killed while the worker computes; otherwise the end of
            // standard input ends the worker.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let data = PROGRAM.saturating_add(most_memory);
            limit(Resource::Data, data)?;
            limit(Resource::As, PROGRAM_FILES.saturating_add(data))?;
            limit(Resource::Fsize, 0)?;
            // A core file would put users' images on disk.
            limit(Resource::Core, 0)?;
            limit(Resource::Nproc, 0)?;
            limit(Resource::Memlock, 0)?;
            // Best effort: kernels and containers differ.
            let _older_kernel = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _older_kernel = set_no_new_privs(true);
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            let _without_any_before = set_capabilities(None, none);
            // Open descriptors stay open, but no further file or socket can be opened.
            limit(Resource::Nofile, 0)?;
            Ok(Self { most_memory })
        }

        /// Sets the limits of memory and processor time for one job; exceeding either ends the process.
        pub(in super::super) fn allow(&self, memory: u64, time: Duration) -> io::Result<()> {
            let spent = u64::try_from(clock_gettime(ClockId::ProcessCPUTime).tv_sec).unwrap_or(0);
            let seconds = spent.saturating_add(time.as_secs()).saturating_add(SLACK);
            limit_within(Resource::Cpu, seconds, None)?;
            self.limit_data(memory.min(self.most_memory))
        }

        /// Restores the maximum memory for the next job.
        pub(in super::super) fn relax(&self) -> io::Result<()> {
            self.limit_data(self.most_memory)
        }

        fn limit_data(&self, memory: u64) -> io::Result<()> {
            let most = PROGRAM.saturating_add(self.most_memory);
            limit_within(Resource::Data, PROGRAM.saturating_add(memory), Some(most))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::{io, time::Duration};

    /// Without these mechanisms the worker is only a separate process.
    #[derive(Debug)]
    pub(in super::super) struct Confinement;

    impl Confinement {
        pub(in super::super) fn enter(_most_memory: u64) -> io::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) fn allow(&self, _memory: u64, _time: Duration) -> io::Result<()> {
            Ok(())
        }

        pub(in super::super) fn relax(&self) -> io::Result<()> {
            Ok(())
        }
    }
}
