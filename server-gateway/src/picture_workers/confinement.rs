//! What a worker may do: compute, read its standard input and write its standard output.
//!
//! A decoder that is made to run an attacker's code could do no more either: it can open no file and no socket, start no
//! process, has no capability, and memory and time have an end. What remains to it are system calls that need no
//! descriptor.
#[cfg(target_os = "linux")]
pub(super) use self::linux::Confinement;
#[cfg(not(target_os = "linux"))]
pub(super) use self::other::Confinement;

/// Bytes that the program itself takes, beside a job's: its data and what the allocator keeps. Measured: 1 MiB at the start,
/// up to 9 MiB behind a small picture.
#[cfg(target_os = "linux")]
const PROGRAM: u64 = 12 << 20;
/// Bytes of address space of the program and its libraries, which files back: an unoptimised build's are the largest.
#[cfg(target_os = "linux")]
const PROGRAM_FILES: u64 = 512 << 20;
/// A job's processor time cannot be longer than its time by the clock, but for what passes before it is given up: seconds.
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

    /// The last of the descriptors that a worker has.
    const STANDARD_ERROR: i32 = 2;

    /// The proof that this process is confined.
    #[derive(Debug)]
    pub(in super::super) struct Confinement {
        most_memory: u64,
    }

    /// Sets both limits of a resource for good.
    fn limit(resource: Resource, most: u64) -> io::Result<()> {
        limit_within(resource, most, Some(most))
    }

    /// Sets a limit, and the most that it may be set to later. An operator may have set less.
    fn limit_within(resource: Resource, current: u64, maximum: Option<u64>) -> io::Result<()> {
        let before = getrlimit(resource).maximum;
        let maximum = maximum.into_iter().chain(before).min();
        let limits = Rlimit {
            current: Some(maximum.map_or(current, |maximum| current.min(maximum))),
            maximum,
        };
        Ok(setrlimit(resource, limits)?)
    }

    /// Closes what the gateway was started with and did not know of. Its own descriptors are closed on execution.
    fn close_inherited() -> io::Result<()> {
        let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect();
        for descriptor in open.into_iter().filter(|number| *number > STANDARD_ERROR) {
            // One of them was the list's own, which is closed by now.
            let _closed = nix::unistd::close(descriptor);
        }
        Ok(())
    }

    impl Confinement {
        /// Confines the process for the rest of its life.
        pub(in super::super) fn enter(most_memory: u64) -> io::Result<Self> {
            std::env::set_current_dir("/")?;
            close_inherited()?;
            // Should the gateway be killed while a picture is computed; standard input ends in any other case.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            let data = PROGRAM.saturating_add(most_memory);
            limit(Resource::Data, data)?;
            limit(Resource::As, PROGRAM_FILES.saturating_add(data))?;
            limit(Resource::Fsize, 0)?;
            // Users' pictures do not belong on the disk.
            limit(Resource::Core, 0)?;
            limit(Resource::Nproc, 0)?;
            limit(Resource::Memlock, 0)?;
            // The best that can be had: kernels and containers differ.
            let _older_kernel = set_dumpable_behavior(DumpableBehavior::NotDumpable);
            let _older_kernel = set_no_new_privs(true);
            let none = CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            };
            let _without_any_before = set_capabilities(None, none);
            // Those that are open stay so; no number is left for another: neither files nor sockets.
            limit(Resource::Nofile, 0)?;
            Ok(Self { most_memory })
        }

        /// Allows one job its memory and its processor time: more of either ends the process.
        pub(in super::super) fn allow(&self, memory: u64, time: Duration) -> io::Result<()> {
            let spent = u64::try_from(clock_gettime(ClockId::ProcessCPUTime).tv_sec).unwrap_or(0);
            let seconds = spent.saturating_add(time.as_secs()).saturating_add(SLACK);
            limit_within(Resource::Cpu, seconds, None)?;
            self.limit_data(memory.min(self.most_memory))
        }

        /// The job is done: the next one may take as much as any.
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

    /// Here the process is only apart from the gateway.
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
