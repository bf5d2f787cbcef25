//! The process of the gateway, by the names that Prometheus' client libraries use. Linux only: other systems have only
//! the time of the start.
use std::time::SystemTime;

use prometheus_client::{
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

/// Adds the metrics to a registry without prefix.
pub fn register(registry: &mut Registry, started: SystemTime) {
    let since = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    registry.register_with_unit(
        "process_start_time",
        "Start of the process, in seconds since 1970",
        Unit::Seconds,
        ConstGauge::new(since.as_secs_f64()),
    );
    #[cfg(target_os = "linux")]
    linux::register(registry);
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    use rustix::{
        process::{Resource, getrlimit},
        time::{ClockId, clock_gettime},
    };

    use super::{ConstCounter, ConstGauge, Registry, Unit};

    /// Registers the metrics of the process.
    pub(super) fn register(registry: &mut Registry) {
        registry.register_with_unit(
            "process_cpu",
            "Processor time of the process, without those of picture workers",
            Unit::Seconds,
            ConstCounter::new(processor_seconds()),
        );
        if let Some(bytes) = resident_bytes() {
            registry.register_with_unit(
                "process_resident_memory",
                "Memory of the process, without that of picture workers",
                Unit::Bytes,
                ConstGauge::new(bytes),
            );
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // Listing them opens one.
            let open = i64::try_from(files.count()).unwrap_or(i64::MAX);
            registry.register("process_open_fds", "Open files", ConstGauge::new(open - 1));
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            registry.register("process_max_fds", "Files that may be open", ConstGauge::new(most));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of a process")]
    fn processor_seconds() -> f64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    fn resident_bytes() -> Option<i64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    }
}
