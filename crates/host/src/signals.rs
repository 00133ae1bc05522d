//! Who sent a signal: whoever wonders why a daemon ended finds it in its log.
#![allow(unsafe_code, reason = "what the kernel says of a signal has no safe wrapper")]

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

/// The last of the signals that are noted, and the process that sent it.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
static SENDER: AtomicI32 = AtomicI32::new(0);

/// Notes from now on who sends a signal, before handlers that are registered later.
pub fn note_sender(signal: i32) -> io::Result<()> {
    let note = move |info: &libc::siginfo_t| {
        // SAFETY: each way to send one of these fills the member in, or leaves it 0.
        SENDER.store(unsafe { info.si_pid() }, Ordering::Relaxed);
        SIGNAL.store(signal, Ordering::Relaxed);
    };
    // SAFETY: the action stores numbers, which a signal's handler may do at any time.
    unsafe { signal_hook_registry::register_sigaction(signal, note) }.map(drop)
}

/// The last that came, in words.
pub fn last_sender() -> String {
    let (signal, sender) = (SIGNAL.load(Ordering::Relaxed), SENDER.load(Ordering::Relaxed));
    let name = match signal {
        libc::SIGTERM => "SIGTERM".into(),
        libc::SIGINT => "SIGINT".into(),
        other => format!("signal {other}"),
    };
    // The kernel's own, and those of other PID namespaces, have no sender.
    let by = (sender > 0).then(|| match std::fs::read_to_string(format!("/proc/{sender}/comm")) {
        Ok(program) => format!(" from process {sender}, {}", program.trim()),
        Err(_) => format!(" from process {sender}, which is gone"),
    });
    name + &by.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use nix::sys::signal::{Signal, raise};

    #[test]
    fn the_sender_is_named() {
        note_sender(libc::SIGTERM).unwrap();
        raise(Signal::SIGTERM).unwrap();
        let said = last_sender();
        assert!(said.starts_with(&format!("SIGTERM from process {}, ", std::process::id())), "{said}");
    }
}
