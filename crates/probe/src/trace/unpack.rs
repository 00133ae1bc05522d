//! Decompression of captures, which hands out what comes before damage.

use super::capture::CaptureError;
use flate2::bufread::GzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The file as it is stored, and how much of it was used: what a decompressor has not taken is not.
pub(super) struct Stored<R> {
    source: BufReader<R>,
    used: u64,
}

impl<R: Read> Stored<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source: BufReader::new(source), used: 0 }
    }
    /// Octets used, and how many follow; counted until they are more than that. What cannot be read ends them.
    pub(super) fn rest(mut self) -> (u64, u64) {
        let (used, mut rest) = (self.used, 0);
        while let Ok(piece) = self.source.fill_buf() {
            let here = piece.len();
            if here == 0 || rest > used {
                break;
            }
            self.source.consume(here);
            rest += here as u64;
        }
        (used, rest)
    }
}

impl<R: Read> Read for Stored<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.used += read as u64;
        Ok(read)
    }
}

impl<R: Read> BufRead for Stored<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.source.fill_buf()
    }
    fn consume(&mut self, octets: usize) {
        self.source.consume(octets);
        self.used += octets as u64;
    }
}

/// Requested from a decompressor at once: an error loses the whole piece.
const PIECE: usize = 1 << 16;

/// Fills the caller's buffer as far as the file reaches, which the parser's format detection needs with a decompressor. A read or
/// decompression error ends it and is recorded: the data before it is still good.
pub(super) struct Full<R> {
    source: R,
    delivered: bool,
    pub(super) broken: Arc<AtomicBool>,
}

impl<R: Read> Full<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, delivered: false, broken: Arc::default() }
    }
}

impl<R: Read> Read for Full<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() && !self.broken.load(Ordering::Relaxed) {
            let piece = buffer.len().min(filled + PIECE);
            match self.source.read(&mut buffer[filled..piece]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if filled > 0 || self.delivered => self.broken.store(true, Ordering::Relaxed),
                Err(e) => return Err(e),
            }
        }
        self.delivered |= filled > 0;
        Ok(filled)
    }
}

/// The concatenated frames of a Zstandard file (RFC 8878, section 3): parallel compressors write many, some with skippable frames between
/// them.
struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    /// Within a frame.
    is_open: bool,
}

impl<R: BufRead> Frames<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_open: false }
    }
    /// Starts the next frame, or skips one; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        if self.source.fill_buf()?.is_empty() {
            return Ok(false);
        }
        match self.decoder.init(&mut self.source) {
            Ok(()) => self.is_open = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = io::copy(&mut (&mut self.source).take(length.into()), &mut io::sink())?;
                if skipped < u64::from(length) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(why) => return Err(io::Error::other(why)),
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_open {
                if !self.begin()? {
                    break;
                }
            } else if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            } else if self.decoder.is_finished() {
                self.is_open = false;
                let stored = self.decoder.get_checksum_from_data();
                if stored.is_some() && stored != self.decoder.get_calculated_checksum() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            }
        }
        Ok(0)
    }
}

/// The members of a gzip file (RFC 1952, section 2.2). Zeros may follow the last, to fill a block: they are no rest, as for gzip.
struct Members<R> {
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(source: R) -> Self {
        Self { member: Some(GzDecoder::new(source)) }
    }
}

/// Whether another member begins; zeros at the end are passed over.
fn goes_on(source: &mut impl BufRead) -> io::Result<bool> {
    let mut is_filled = false;
    loop {
        let here = source.fill_buf()?;
        let zeros = here.iter().take_while(|octet| **octet == 0).count();
        match (here.is_empty(), zeros) {
            (true, _) => return Ok(false),
            (false, 0) if is_filled => return Err(io::ErrorKind::InvalidData.into()),
            (false, 0) => return Ok(true),
            _ => {}
        }
        is_filled = true;
        source.consume(zeros);
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let goes_on = goes_on(member.get_mut())?;
            self.member = self.member.take().filter(|_| goes_on).map(|ended| GzDecoder::new(ended.into_inner()));
        }
        Ok(0)
    }
}

/// Decompresses gzip (RFC 1952) and Zstandard (RFC 8878), detected by their first bytes.
pub(super) fn decompressed<'a>(mut file: impl BufRead + Send + 'a) -> Result<Box<dyn Read + Send + 'a>, CaptureError> {
    let mut magic = [0; 4];
    let known = Full::new(&mut file).read(&mut magic)?;
    let whole = io::Cursor::new(magic).take(known as u64).chain(file);
    Ok(match magic {
        [0x1F, 0x8B, ..] => Box::new(Members::new(whole)),
        // A frame, or a skippable one.
        [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18] => Box::new(Frames::new(whole)),
        _ => Box::new(whole),
    })
}
