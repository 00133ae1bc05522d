//! The file that the datagrams of serial lanes are appended to: no other program can see them pass.

use crate::start::StartError;
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wavelane_host::clock::wall_nanos;
use wavelane_host::files;
use wavelane_measure::pcapng::{BEGINNING, LINKTYPE_PDU, PDU_TAGS, PortDirection, put_head, put_packet};

/// Most octets of the file: days of a line.
const FILE_MAX: u64 = 1 << 30;
/// More than a block of ours has: what claims more than this and more than the file has is no torn tail.
const TAIL_MAX: u64 = 1 << 20;
/// The magic number of a section in our byte order (draft-ietf-opsawg-pcapng, section 4.1), and the least length of a block.
const SECTION: [u8; 4] = 0x1A2B_3C4D_u32.to_le_bytes();
const BLOCK_MIN: u64 = 12;

/// The octets of the whole blocks that a capture begins with; behind them a full disk or a power failure left part of one, or nothing.
fn whole_blocks(file: &File, octets: u64) -> io::Result<u64> {
    let (mut reader, mut at) = (BufReader::with_capacity(1 << 16, file), 0);
    while octets - at >= BLOCK_MIN {
        let mut head = [0; BLOCK_MIN as usize];
        reader.read_exact(&mut head)?;
        let [kind, first, next] = [0, 4, 8].map(|i| [head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let len = u64::from(u32::from_le_bytes(first));
        let is_ours = len >= BLOCK_MIN && len % 4 == 0 && (kind != BEGINNING || next == SECTION);
        if is_ours && len > octets - at && len <= TAIL_MAX {
            break;
        }
        // The length stands at both ends; in the shortest block the second is read already.
        let mut last = next;
        if is_ours && len > BLOCK_MIN && len <= octets - at {
            reader.seek_relative(len as i64 - BLOCK_MIN as i64 - 4)?;
            reader.read_exact(&mut last)?;
        }
        if !is_ours || last != first {
            let why = format!("it is damaged behind octet {at}, or of another byte order: name another path");
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        at += len;
    }
    Ok(at)
}

/// Appends behind `octets`; of what cannot be written whole nothing stays.
fn append(mut file: &File, octets: u64, blocks: &[u8]) -> io::Result<()> {
    file.write_all(blocks).inspect_err(|_| {
        if file.metadata().is_ok_and(|about| about.len() > octets) {
            let _ = file.set_len(octets);
        }
    })
}

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
    /// Opens it. A file that is there must be a capture already, of which a torn last block is cut off.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::KeyLog { path: path.to_owned(), source };
        let file = files::append(path).map_err(failed)?;
        // Two that append would cut off and overwrite each other's blocks.
        file.try_lock().map_err(|why| match why {
            TryLockError::WouldBlock => {
                failed(io::Error::new(ErrorKind::WouldBlock, "another gateway appends to it: name another path"))
            }
            TryLockError::Error(source) => failed(source),
        })?;
        let mut start = [0; BEGINNING.len()];
        let readable = File::open(path).map_err(failed)?;
        let read = readable.read_at(&mut start, 0).map_err(failed)?;
        if read > 0 && start != BEGINNING {
            let why = "it holds something else than a pcapng capture: name another path";
            return Err(failed(io::Error::new(ErrorKind::AlreadyExists, why)));
        }
        let found = file.metadata().map_err(failed)?.len();
        let whole = whole_blocks(&readable, found).map_err(failed)?;
        if whole < found {
            file.set_len(whole).map_err(failed)?;
        }
        let mut block = Vec::new();
        put_head(&mut block, LINKTYPE_PDU, "serial lanes", 0);
        append(&file, whole, &block).map_err(failed)?;
        let octets = whole + block.len() as u64;
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
        let before = self.octets;
        self.octets += self.block.len() as u64;
        let full = || io::Error::other(format!("it has reached {} MiB", FILE_MAX >> 20));
        let fits = if self.octets > FILE_MAX { Err(full()) } else { Ok(()) };
        let why = fits.and_then(|()| append(&self.file, before, &self.block)).err()?;
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
        let error = LineCapture::open(&path).err().unwrap().to_string();
        assert!(error.contains("another gateway appends to it"), "{error}");
        assert_eq!(len(), head + two);
        drop(capture);
        let mut again = LineCapture::open(&path).unwrap();
        assert_eq!(len(), 2 * head + two, "a section begins");
        again.octets = FILE_MAX;
        let why = again.note(PortDirection::In, &[4; 40], None).unwrap();
        assert!(why.contains("ends: it has reached 1024 MiB"), "{why}");
        assert_eq!((again.note(PortDirection::In, &[4; 40], None), len()), (None, 2 * head + two));
        drop(again);
        // Wherever a full disk cut the last block off, whole blocks and the new section stay.
        let whole = std::fs::read(&path).unwrap();
        let packet = (head + two) as usize - 80;
        for torn in [packet + 1, packet + 11, packet + 12, (head + two) as usize - 1] {
            std::fs::write(&path, &whole[..torn]).unwrap();
            drop(LineCapture::open(&path).unwrap());
            let now = std::fs::read(&path).unwrap();
            let kept = now.len() - head as usize;
            assert!(kept < torn && torn - kept < 200, "{kept} of {torn}");
            assert_eq!((&now[..kept], &now[kept..]), (&whole[..kept], &whole[..head as usize]), "{torn}");
            assert_eq!(whole_blocks(&File::open(&path).unwrap(), now.len() as u64).unwrap(), now.len() as u64);
        }
        // What is no torn tail of ours is not cut: damage within, and another byte order.
        for (at, octet) in [(8, 0x1a), (head as usize + 4, 13), (head as usize + 7, 1), (whole.len() - 4, 0)] {
            let mut damaged = whole.clone();
            damaged[at] = octet;
            std::fs::write(&path, &damaged).unwrap();
            let error = LineCapture::open(&path).err().unwrap().to_string();
            assert!(error.contains("it is damaged behind octet"), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
        for other in ["L13drvVlAxBLzAfv/pVMBde6DeqIT6euqGRJHCALlAE=\n", "\n"] {
            std::fs::write(&path, other).unwrap();
            let error = LineCapture::open(&path).err().unwrap().to_string();
            assert!(error.contains("something else than a pcapng capture"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
        }
        std::fs::remove_dir_all(&place).unwrap();
    }
}
