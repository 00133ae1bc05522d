//! Where a capture is read from: a file, a pipe with a name, or standard input.
//!
//! What waits for data waits for the user's Ctrl-C too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wavelane_host::files::NONBLOCKING;
use wavelane_host::poller::{Poller, Watch};

/// Interval at which `stop` is looked at while nothing comes.
const TURN: Duration = Duration::from_millis(100);
/// Octets copied at once.
const PIECE: usize = 1 << 16;
/// Largest stream that is kept on disk to be read twice.
const KEPT_MAX: u64 = 8 << 30;
/// The name of standard input.
const STDIN: &str = "-";

/// A capture that can be read.
pub struct Input {
    file: File,
    /// For what may have nothing to read yet.
    poller: Option<Poller>,
    stop: Arc<AtomicBool>,
}

impl Input {
    /// Opens `path`, or standard input for `-`. `stop` ends reading as the end of the file does.
    pub fn open(path: &Path, stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let file = if path == Path::new(STDIN) {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else if std::fs::metadata(path)?.file_type().is_fifo() {
            // Otherwise opening waits for a writer, whatever signals come.
            OpenOptions::new().read(true).custom_flags(NONBLOCKING).open(path)?
        } else {
            File::open(path)?
        };
        let poller = Poller::new()?;
        // A regular file has always something to read, so the kernel does not watch it.
        let waits = poller.add(&file, 0, Watch::Readable).is_ok();
        Ok(Self { file, poller: waits.then_some(poller), stop: Arc::clone(stop) })
    }

    /// Whether it can be read only once.
    pub fn is_stream(&self) -> bool {
        self.poller.is_some() || (&self.file).stream_position().is_err()
    }

    /// Copies it into a file without a name, in the folder of temporary files, so that it can be read again.
    pub fn kept(mut self) -> io::Result<Self> {
        let place = std::env::temp_dir().join(format!("wavelane-trace-{}", std::process::id()));
        let mut kept = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&place)?;
        std::fs::remove_file(&place)?;
        let mut piece = vec![0; PIECE];
        let mut octets = 0;
        loop {
            let n = self.read(&mut piece)?;
            octets += n as u64;
            if n == 0 {
                break;
            }
            if octets > KEPT_MAX {
                return Err(io::Error::other(format!(
                    "a stream of more than {KEPT_MAX} bytes: write it to a file first"
                )));
            }
            kept.write_all(&piece[..n])?;
        }
        kept.rewind()?;
        Ok(Self { file: kept, poller: None, stop: self.stop })
    }

    /// The same file; not of a stream. Both have one place in it: see [`Self::rewind`].
    pub fn twin(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()?, poller: None, stop: Arc::clone(&self.stop) })
    }

    /// Goes back to the beginning.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.file.rewind()
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(poller) = &mut self.poller
                && poller.wait(Some(TURN))?.is_empty()
            {
                continue;
            }
            match self.file.read(buffer) {
                Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                done => return done,
            }
        }
        Ok(0)
    }
}
