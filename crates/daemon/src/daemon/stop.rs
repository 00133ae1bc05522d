//! An orderly stop.

use super::Daemon;
use super::lane::LanePort;
use wavelane_base::{Machine, Span};

/// The longest time that an orderly stop spends on telling the peers what it reset.
const FAREWELL: Span = Span::from_millis(250);

impl Daemon {
    /// An orderly stop: held SYNs are let go unanswered, everything open is reset at both ends, and the rules go, those
    /// that refuse new connections after a failure among them.
    pub(super) fn stop(mut self) {
        self.supervisor.stopping();
        self.take_leave();
        if let Some(kernel) = self.kernel.take() {
            kernel.remove();
        }
        // The farewell may have gone by it.
        if let Some(line) = self.line.take() {
            line.stop();
        }
        self.say("stopped");
        self.log.pen().flush();
    }
    fn take_leave(&mut self) {
        let open = self.door.stop(self.now, &mut self.gateway);
        while self.transmit() {}
        if open > 0 {
            self.farewell();
        }
    }
    /// Resets that the pacer holds back leave within [`FAREWELL`]; peers detect the rest by our silence.
    fn farewell(&mut self) {
        let end = self.now + FAREWELL;
        while let Some(next) = self.gateway.poll_timeout().map(|w| w.at).filter(|at| *at < end) {
            if self.poller.wait(Some(self.clock.until(next))).is_err() {
                return;
            }
            self.now = self.clock.now();
            self.lanes.iter_mut().for_each(LanePort::try_again);
            self.receive();
            self.gateway.handle_timeout(self.now);
            while self.gateway.poll_event().is_some() {}
            while self.transmit() {}
        }
    }
}
