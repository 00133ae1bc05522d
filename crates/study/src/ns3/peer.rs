//! The programs of `benches/ns3`, compiled against the packaged builds of ns-3 that this machine has.

use crate::child;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use wavelane_base::text::ShownPath;

/// Where the wheel's virtual environment lies, if not in the cache.
pub const VENV_VARIABLE: &str = "WAVELANE_NS3_VENV";
/// How to get what is missing.
pub const INSTALL: &str = "apt-get install libns3-dev ns3 g++ and python3 -m venv ~/.cache/wavelane/ns3-venv && \
                           ~/.cache/wavelane/ns3-venv/bin/pip install ns3==3.44.post0";

/// The script and the sources it compiles; the study needs no checkout beside it.
const FILES: &[(&str, &str)] = &[
    ("build.sh", include_str!("../../../../benches/ns3/build.sh")),
    ("seed_bulk.cc", include_str!("../../../../benches/ns3/seed_bulk.cc")),
    ("dcf_sat.cc", include_str!("../../../../benches/ns3/dcf_sat.cc")),
    ("chain_tcp.cc", include_str!("../../../../benches/ns3/chain_tcp.cc")),
    ("ampdu.cc", include_str!("../../../../benches/ns3/ampdu.cc")),
    ("people_cell.cc", include_str!("../../../../benches/ns3/people_cell.cc")),
    ("common.h", include_str!("../../../../benches/ns3/common.h")),
    ("ge_channel.h", include_str!("../../../../benches/ns3/ge_channel.h")),
];

/// A packaged build of ns-3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Build {
    /// Debian's 3.37.
    Debian,
    /// The Python package's 3.44.
    Wheel,
}

impl Build {
    /// Its word among the stacks.
    pub fn stack(self) -> &'static str {
        match self {
            Self::Debian => "ns3-debian",
            Self::Wheel => "ns3-wheel",
        }
    }
    /// The end of its programs' names.
    fn suffix(self) -> &'static str {
        match self {
            Self::Debian => "deb",
            Self::Wheel => "whl",
        }
    }
}

/// What one run of a program printed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    /// Simulated seconds, warm-up included.
    pub simulated_s: f64,
    /// Processor time of the simulation proper, without start and set-up.
    pub cpu_s: f64,
}

/// The compiled programs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programs {
    folder: PathBuf,
}

impl Programs {
    /// Compiles what is not compiled yet, into the user's cache.
    ///
    /// # Errors
    /// One line with the cause.
    pub fn prepare(cancelled: &AtomicBool) -> Result<Self, String> {
        let home = std::env::var_os("HOME").map(PathBuf::from).ok_or("HOME is not set")?;
        let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
        let folder = cache.join("wavelane").join("ns3-build");
        let venv = std::env::var_os(VENV_VARIABLE).map_or_else(|| cache.join("wavelane/ns3-venv"), PathBuf::from);
        std::fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.shown()))?;
        for (name, text) in FILES {
            let path = folder.join(name);
            if std::fs::read_to_string(&path).is_ok_and(|old| old == *text) {
                continue;
            }
            std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.shown()))?;
        }
        let mut build = Command::new("sh");
        let built = child::output(build.arg(folder.join("build.sh")).arg(&folder).arg(&venv), cancelled);
        let built = built.map_err(|e| format!("cannot run sh: {e}"))?.ok_or("cancelled")?;
        if !built.status.success() {
            let said = String::from_utf8_lossy(&built.stderr);
            let last = said.lines().last().unwrap_or("no message").to_owned();
            return Err(format!("build.sh failed: {last}"));
        }
        Ok(Self { folder })
    }

    /// Whether a program exists for a build.
    pub fn has(&self, program: &str, build: Build) -> bool {
        self.path(program, build).exists()
    }
    fn path(&self, program: &str, build: Build) -> PathBuf {
        self.folder.join(format!("{program}.{}", build.suffix()))
    }

    /// Runs a program once.
    ///
    /// # Errors
    /// One line with the cause; a crash is one.
    pub fn run(
        &self,
        program: &str,
        build: Build,
        arguments: &[String],
        cancelled: &AtomicBool,
    ) -> Result<Outcome, String> {
        let path = self.path(program, build);
        let output = child::output(Command::new(&path).args(arguments), cancelled);
        let output = output.map_err(|e| format!("cannot run {}: {e}", path.shown()))?.ok_or("cancelled")?;
        if !output.status.success() {
            return Err(format!("{} ended with {}", path.shown(), output.status));
        }
        read(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| format!("{} printed no result", path.shown()))
    }
}

/// The one JSON line of a program.
fn read(text: &str) -> Option<Outcome> {
    let value: serde_json::Value = serde_json::from_str(text.lines().last()?).ok()?;
    let number = |key: &str| value.get(key)?.as_f64().filter(|n| *n > 0.0);
    Some(Outcome { simulated_s: number("simsec")?, cpu_s: number("cpu")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_line_is_read_and_a_broken_one_is_not() {
        let line = "warning\n{\"n\":5,\"total_kbps\":1.0,\"cpu\":2.5,\"simsec\":100}\n";
        assert_eq!(read(line), Some(Outcome { simulated_s: 100.0, cpu_s: 2.5 }));
        for broken in ["", "{}", "{\"cpu\":0,\"simsec\":1}", "Segmentation fault"] {
            assert_eq!(read(broken), None, "{broken}");
        }
    }
}
