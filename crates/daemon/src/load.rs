//! Files of gateways, read on this machine.

use crate::config::{Config, ConfigError, LaneMedium, Surroundings};
use crate::{keys, memory};
use std::path::{Path, PathBuf};
use wavelane_gateway as gateway;

/// No configuration is longer, in octets.
const FILE_MAX: u64 = 4 << 20;

const HERE: Surroundings = Surroundings {
    private_text: keys::read_private,
    is_same,
    medium: LaneMedium::named,
    memory: || (memory::pool_default(), memory::flows_default(gateway::Config::default().flows_max)),
    control: default_control,
    state: default_state,
};

impl Config {
    /// Reads the file and the key files it names (relative names count from the file's folder).
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_text(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder)
    }

    /// Reads a text; `place` names it in messages, `folder` is where relative key paths count from.
    pub fn parse(text: &str, place: &str, folder: &Path) -> Result<Self, ConfigError> {
        let read = Self::read(text, place, folder, &HERE).and_then(|config| {
            config.to_gateway(&[]).check()?;
            Ok(config)
        });
        read.map_err(|why| why.in_file(text, place))
    }

    /// What of this gateway lies at `path`, or will once it runs; nothing if another file may be made there.
    pub(crate) fn own_file(&self, path: &Path) -> Option<&'static str> {
        let made = self.made().into_iter().find(|(_, made)| is_same(made, path)).map(|(key, _)| key);
        made.or_else(|| self.reads.iter().any(|read| is_same(read, path)).then_some("a file that it reads"))
    }
}

/// A configuration's text: it is read on the thread that moves packets, so from a plain file of bounded length only.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    let octets = wavelane_host::files::read_small(path, FILE_MAX)?;
    let text =
        String::from_utf8(octets).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.to_string()))?;
    Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned))
}

/// Whether two paths are one file's, also before it is there.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let in_folder = || {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Some(folder.canonicalize().ok()?.join(path.file_name()?))
        };
        path.canonicalize().ok().or_else(in_folder)
    };
    a == b || place(a).is_some_and(|a| place(b) == Some(a))
}

/// The folder that systemd makes for a service (RuntimeDirectory= in our unit), in which `status` looks, too.
pub const SERVICE_FOLDER: &str = "/run/wavelane";

/// Where the control socket lies if the file does not say.
pub fn default_control(name: &str) -> PathBuf {
    let file = format!("wavelane-{name}.sock");
    if let Some(folder) = first_folder("RUNTIME_DIRECTORY") {
        return folder.join(file);
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if !wavelane_host::is_root() => PathBuf::from(dir).join(file),
        _ if wavelane_host::is_root() => PathBuf::from("/run").join(file),
        _ => std::env::temp_dir().join(file),
    }
}

/// The first of the folders that systemd lists in a variable (systemd.exec(5)).
fn first_folder(variable: &str) -> Option<PathBuf> {
    let folders = std::env::var_os(variable).filter(|d| !d.is_empty())?;
    std::env::split_paths(&folders).next()
}

/// Where the boot epoch is remembered if the file does not say: systemd's folder for state, else beside the key.
fn default_state(name: &str, key: &Path) -> PathBuf {
    match first_folder("STATE_DIRECTORY") {
        Some(folder) => folder.join(format!("{name}.epoch")),
        None => key.with_extension("epoch"),
    }
}
