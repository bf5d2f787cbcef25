//! TUN devices.
use std::{fs, io, path::Path};

use tun_rs::{DeviceBuilder, SyncDevice};

/// Queue length of a device towards its reader: 15 MB with packets of 1500 bytes. The driver reads a device
/// within a millisecond, or within some tens of milliseconds on a loaded machine; the packets of 100 ms at 1
/// Gbit/s still fit, so that packets are dropped only by the model and never by the kernel.
const READER_QUEUE: u32 = 10_000;

/// Returns the commands for `ip` that activate a device. The library's call for the queue length needs root
/// of the whole machine; netlink accepts root of the namespace.
pub(crate) fn bring_up(name: &str, mtu: u16) -> String {
    format!("link set {name} mtu {mtu} txqueuelen {READER_QUEUE} up\n")
}

/// Creates the device `name` in the namespace of the calling thread, down and without an address.
pub(crate) fn create(name: &str) -> io::Result<SyncDevice> {
    // Checked first because the library would create the missing node and leave it behind.
    if !Path::new("/dev/net/tun").exists() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "/dev/net/tun is missing: load the kernel module with `modprobe tun`, or hand the device to the container \
             (`--device /dev/net/tun`)",
        ));
    }
    let device = DeviceBuilder::new().name(name).enable(false).build_sync()?;
    device.set_nonblocking(true)?;
    Ok(device)
}

/// Returns the number of packets that the kernel dropped on their way into the devices of the calling
/// thread's namespace, except `lo`.
pub(crate) fn kernel_drops() -> io::Result<u64> {
    /// Position of the count in a line of the table: eight counts of reception precede those of transmission.
    const SENDING_DROPPED: usize = 8 + 3;
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    let devices = table.lines().filter_map(|line| line.split_once(':'));
    let drops = devices
        .filter(|(name, _)| name.trim() != "lo")
        .filter_map(|(_, counts)| {
            counts
                .split_whitespace()
                .nth(SENDING_DROPPED)?
                .parse::<u64>()
                .ok()
        });
    Ok(drops.sum())
}
