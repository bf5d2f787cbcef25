//! Detection of a connection to the journal of systemd, on Unix.
use std::{
    fs::File,
    os::{
        fd::{AsFd as _, BorrowedFd},
        unix::fs::MetadataExt as _,
    },
};

/// True if standard error is connected to the journal: systemd.exec(5) describes the variable. A program whose
/// standard error is redirected inherits the variable, so the file has to match.
pub(crate) fn is_stderr() -> bool {
    let stream = std::env::var("JOURNAL_STREAM");
    stream.is_ok_and(|stream| is_stream(&stream, std::io::stderr().as_fd()))
}

/// True if `stream` is the device and inode of this file, as `DEVICE:INODE`.
fn is_stream(stream: &str, file: BorrowedFd<'_>) -> bool {
    let numbers = stream.split_once(':');
    let numbers = numbers.and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    let found = file.try_clone_to_owned().map(File::from);
    let found = found.and_then(|file| file.metadata());
    match (numbers, found) {
        (Some(expected), Ok(found)) => expected == (found.dev(), found.ino()),
        (_, Err(_)) | (None, Ok(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn only_the_same_device_and_inode_are_the_journal() {
        let (socket, other) = UnixDatagram::pair().unwrap();
        let name = |socket: &UnixDatagram| {
            let file = File::from(socket.as_fd().try_clone_to_owned().unwrap());
            let found = file.metadata().unwrap();
            format!("{}:{}", found.dev(), found.ino())
        };
        assert!(is_stream(&name(&socket), socket.as_fd()));
        for stream in [name(&other).as_str(), "", ":", "1", "1:x", "-1:1"] {
            assert!(!is_stream(stream, socket.as_fd()), "{stream}");
        }
    }
}
