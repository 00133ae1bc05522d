//! Work without the interpreter's lock that Ctrl-C ends.

use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often Python is asked whether a signal came.
const LOOK: Duration = Duration::from_millis(50);

/// Does `work` on another thread, with the interpreter's lock free. Once work is `unwanted` the flag is set. So it is by a signal
/// whose handler raises (KeyboardInterrupt), which is raised when the work has ended.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    unwanted: impl Fn() -> PyResult<bool>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
) -> PyResult<T> {
    let cancelled = AtomicBool::new(false);
    let caller = std::thread::current();
    std::thread::scope(|scope| {
        let flag = &cancelled;
        let worker = scope.spawn(move || {
            let result = work(flag);
            caller.unpark();
            result
        });
        let mut raised = Ok(());
        while raised.is_ok() && !worker.is_finished() {
            py.detach(|| std::thread::park_timeout(LOOK));
            raised = py.check_signals().and_then(|()| unwanted()).map(|stop| {
                if stop {
                    cancelled.store(true, Ordering::Relaxed);
                }
            });
        }
        if raised.is_err() {
            cancelled.store(true, Ordering::Relaxed);
        }
        let result = py.detach(|| worker.join());
        raised?;
        result.map_or_else(|panic| std::panic::resume_unwind(panic), Ok)
    })
}
