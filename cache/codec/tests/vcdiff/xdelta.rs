//! The program `xdelta3`, which `make tools` installs.
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// xdelta3 with a folder for its files.
pub(crate) struct Xdelta {
    folder: tempfile::TempDir,
}

impl Xdelta {
    /// Panics if the program is missing.
    pub(crate) fn new() -> Self {
        assert!(
            Command::new("xdelta3").arg("-V").output().is_ok(),
            "the program xdelta3 is missing: run `make tools`, or install the package xdelta3"
        );
        Self {
            folder: tempfile::tempdir().expect("a folder for temporary files"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file in the temporary folder");
        path
    }

    fn run(&self, arguments: &[&str], source: &Path, input: &Path) -> Result<Vec<u8>, String> {
        let output = self.path("output");
        let run = Command::new("xdelta3")
            .args(arguments)
            .args(["-f", "-s"])
            .args([source, input, &output])
            .output()
            .expect("xdelta3 runs");
        if !run.status.success() {
            return Err(String::from_utf8_lossy(&run.stderr).into_owned());
        }
        Ok(std::fs::read(&output).expect("its output"))
    }

    /// Encodes without secondary compression, with further options.
    pub(crate) fn encode(&self, options: &[&str], source: &[u8], target: &[u8]) -> Vec<u8> {
        let (source, target) = (self.write("source", source), self.write("target", target));
        let mut arguments = vec!["-e", "-S", "none"];
        arguments.extend(options);
        self.run(&arguments, &source, &target).expect("xdelta3 encodes")
    }

    /// Decodes, or returns xdelta3's error output.
    pub(crate) fn decode(&self, source: &[u8], delta: &[u8]) -> Result<Vec<u8>, String> {
        let (source, delta) = (self.write("source", source), self.write("delta", delta));
        self.run(&["-d"], &source, &delta)
    }
}
