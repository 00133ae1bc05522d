//! The file that the datagrams of serial lanes are appended to: no other program can see them pass.

use crate::start::StartError;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wavelane_host::clock::wall_nanos;
use wavelane_host::files;
use wavelane_measure::pcapng::{BEGINNING, LINKTYPE_PDU, PDU_TAGS, PortDirection, put_head, put_packet};

/// Most octets of the file: days of a line.
const FILE_MAX: u64 = 1 << 30;

/// An open capture, of which a section began.
pub(crate) struct LineCapture {
    file: File,
    path: PathBuf,
    octets: u64,
    /// No more is written.
    ended: bool,
    block: Vec<u8>,
}

impl LineCapture {
    /// Opens it. A file that is there must be a capture already.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::KeyLog { path: path.to_owned(), source };
        let mut file = files::append(path).map_err(failed)?;
        let mut start = [0; BEGINNING.len()];
        let read = File::open(path).and_then(|file| file.read_at(&mut start, 0)).map_err(failed)?;
        if read > 0 && start != BEGINNING {
            let why = "it holds something else than a pcapng capture: name another path";
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, why)));
        }
        let mut block = Vec::new();
        put_head(&mut block, LINKTYPE_PDU, "serial lanes", 0);
        file.write_all(&block).map_err(failed)?;
        let octets = file.metadata().map_err(failed)?.len();
        Ok(Self { file, path: path.to_owned(), octets, ended: false, block })
    }
    /// Appends datagrams of `segment` octets each, of which the last may be shorter. Returns why nothing is appended from now on.
    pub(crate) fn note(&mut self, way: PortDirection, datagrams: &[u8], segment: Option<u16>) -> Option<String> {
        if self.ended || datagrams.is_empty() {
            return None;
        }
        self.block.clear();
        for datagram in datagrams.chunks(segment.map_or(datagrams.len(), usize::from).max(1)) {
            let whole = [&PDU_TAGS[..], datagram].concat();
            put_packet(&mut self.block, wall_nanos(), Some(way), &whole, whole.len());
        }
        self.octets += self.block.len() as u64;
        let full = || io::Error::other(format!("it has reached {} MiB", FILE_MAX >> 20));
        let fits = if self.octets > FILE_MAX { Err(full()) } else { Ok(()) };
        let why = fits.and_then(|()| self.file.write_all(&self.block)).err()?;
        self.ended = true;
        Some(format!("the capture of lines {} ends: {why}; traffic goes on", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_capture_is_appended_to_and_nothing_else_is() {
        let place = std::env::temp_dir().join(format!("wavelane-line-capture-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let path = place.join("line.pcapng");
        let len = || std::fs::metadata(&path).unwrap().len();
        let mut capture = LineCapture::open(&path).unwrap();
        let head = len();
        assert_eq!(capture.note(PortDirection::Out, &[4; 60], Some(40)), None);
        let two = len() - head;
        drop(capture);
        let mut again = LineCapture::open(&path).unwrap();
        assert_eq!(len(), 2 * head + two, "a section begins");
        again.octets = FILE_MAX;
        let why = again.note(PortDirection::In, &[4; 40], None).unwrap();
        assert!(why.contains("ends: it has reached 1024 MiB"), "{why}");
        assert_eq!((again.note(PortDirection::In, &[4; 40], None), len()), (None, 2 * head + two));
        for other in ["L13drvVlAxBLzAfv/pVMBde6DeqIT6euqGRJHCALlAE=\n", "\n"] {
            std::fs::write(&path, other).unwrap();
            let error = LineCapture::open(&path).err().unwrap().to_string();
            assert!(error.contains("something else than a pcapng capture"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
