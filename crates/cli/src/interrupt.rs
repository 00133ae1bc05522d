//! Ctrl-C, SIGTERM and a closed terminal as a flag that the backends poll.

use crate::Failure;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A file over the limit on file sizes fails with EFBIG, as on a full disk, instead of a signal that ends the program with its
/// drafts on disk. Programs that are started keep the signal.
pub(crate) fn ignore_file_size_signal() {
    // Without it, the signal ends the program: worse manners, no wrong result.
    drop(signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()));
}

/// A flag that the first signal sets. A second Ctrl-C ends the program at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // In this order: the shutdown fires only if the flag was set by an earlier signal.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|e| Failure::refused(format!("cannot watch for Ctrl-C: {e}")))?;
    }
    Ok(flag)
}
