//! What the tests of the built program share: a directory that goes away, and running the command.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "tests; not every test file uses every part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program.
pub const WAVELANE: &str = env!("CARGO_BIN_EXE_wavelane");

/// The repository's scenarios.
pub fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// A small scenario that passes.
pub fn smoke() -> String {
    scenarios().join("smoke/one_hop.toml").display().to_string()
}

/// A bound for its check that slow links meet too.
pub const EASY: [&str; 2] = ["--set", "page-fills-the-link.at-least=1 Mbit/s"];

/// Runs the program.
pub fn wavelane(args: &[&str]) -> Output {
    Command::new(WAVELANE).args(args).stdin(Stdio::null()).output().unwrap()
}

/// What it wrote to standard output.
pub fn out(o: &Output) -> String {
    String::from_utf8_lossy(&o.stdout).into_owned()
}

/// What it wrote to standard error.
pub fn err(o: &Output) -> String {
    String::from_utf8_lossy(&o.stderr).into_owned()
}

/// A directory that goes away with the test.
pub struct Place(pub PathBuf);

impl Place {
    /// An empty one, of the test program's own.
    pub fn new(name: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let program = program.file_stem().unwrap_or_default().to_string_lossy();
        let program = program.split('-').next().unwrap_or_default();
        let dir = std::env::temp_dir().join(format!("wavelane-{program}-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
    /// A file with this content; its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
    /// What lies in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let name = |e: std::io::Result<std::fs::DirEntry>| e.unwrap().file_name().to_string_lossy().into_owned();
        let mut names: Vec<String> = std::fs::read_dir(&self.0).unwrap().map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
