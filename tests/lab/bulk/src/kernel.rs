//! Counters of the kernel, by thread and by network namespace.
use std::{fs, time::Duration};

/// Returns the processor time of this thread; `None` if the kernel does not report it.
pub(crate) fn thread_cpu() -> Option<Duration> {
    // Documentation/scheduler/sched-stats.rst of Linux: time on the processor in ns, waiting time, number of
    // time slices.
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = stat.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// TCP segments of this thread's network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpSegments {
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
}

/// Returns `None` if the kernel does not report them.
pub(crate) fn tcp_segments() -> Option<TcpSegments> {
    parse_snmp(&fs::read_to_string("/proc/thread-self/net/snmp").ok()?)
}

/// Parses RFC 4022's counters: a line of names, then a line of values.
fn parse_snmp(text: &str) -> Option<TcpSegments> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let names = lines.next()?.split_whitespace();
    let values = lines.next()?.split_whitespace();
    let mut segments = TcpSegments::default();
    for (name, value) in names.zip(values) {
        match name {
            // Retransmitted segments are not in OutSegs.
            "OutSegs" => segments.sent += value.parse::<u64>().ok()?,
            "RetransSegs" => segments.retransmitted = value.parse().ok()?,
            _ => {}
        }
    }
    segments.sent += segments.retransmitted;
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snmp_counters_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: RtoMax MaxConn OutSegs RetransSegs\nTcp: 120000 -1 50 3\n";
        assert_eq!(
            parse_snmp(text),
            Some(TcpSegments {
                sent: 53,
                retransmitted: 3
            })
        );
        assert_eq!(parse_snmp("Tcp: A\n"), None);
    }

    #[test]
    fn processor_time_grows_with_use() {
        let Some(before) = thread_cpu() else { return };
        let started = std::time::Instant::now();
        let mut after = before;
        // The kernel updates its value at each tick.
        while after <= before && started.elapsed() < Duration::from_secs(10) {
            after = thread_cpu().unwrap_or_default();
        }
        assert!(after > before);
    }
}
