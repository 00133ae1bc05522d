//! Unpredictable bytes from the operating system.
#![allow(unsafe_code, reason = "getrandom has no safe wrapper here")]

/// Number of bytes that the kernel always returns in one call (getrandom(2)).
const AT_ONCE: usize = 256;

/// Fills `out`. A copy of this process's memory, as in a cloned virtual machine, gets other bytes: they are drawn anew each time, and the
/// kernel is notified of cloning (VM generation ID).
///
/// # Panics
/// If the kernel has no getrandom(2), which every Linux since 3.17 has.
pub fn fill(out: &mut [u8]) {
    for part in out.chunks_mut(AT_ONCE) {
        loop {
            // SAFETY: `part` is live and writable memory of the stated length.
            let got = unsafe { libc::getrandom(part.as_mut_ptr().cast(), part.len(), 0) };
            if usize::try_from(got) == Ok(part.len()) {
                break;
            }
            let error = std::io::Error::last_os_error();
            assert!(error.kind() == std::io::ErrorKind::Interrupted, "the system gives no random bytes: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_draw_differs_and_every_byte_is_drawn() {
        let (mut one, mut other) = ([0; 1000], [0; 1000]);
        super::fill(&mut one);
        super::fill(&mut other);
        assert_ne!(one, other);
        assert!(one.chunks(40).all(|part| part.iter().any(|byte| *byte != 0)));
    }
}
