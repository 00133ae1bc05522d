//! Ctrl-C, SIGTERM and a closed terminal as a flag that the backends poll.

use crate::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A terminal that takes nothing any more does not keep a program that is to end.
const GIVE_BACK_PATIENCE: Duration = Duration::from_millis(200);

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
            .map_err(unwatched)?;
    }
    Ok(flag)
}

fn unwatched(why: std::io::Error) -> Failure {
    Failure::refused(format!("cannot watch for Ctrl-C: {why}"))
}

/// The same for a program that has changed the terminal: `give_back` is called before the second signal ends it.
pub(crate) fn flag_before(give_back: fn()) -> Result<Arc<AtomicBool>, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(unwatched)?;
    let theirs = Arc::clone(&flag);
    let watch = move || {
        for _ in signals.forever() {
            if theirs.swap(true, Ordering::Relaxed) {
                let (tell, told) = channel();
                let giver = std::thread::Builder::new().spawn(move || {
                    give_back();
                    let _ = tell.send(());
                });
                if giver.is_ok() {
                    let _ = told.recv_timeout(GIVE_BACK_PATIENCE);
                }
                signal_hook::low_level::exit(i32::from(crate::EXIT_INTERRUPTED));
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch).map_err(unwatched)?;
    Ok(flag)
}
