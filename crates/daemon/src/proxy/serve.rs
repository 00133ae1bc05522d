//! The proxy's loop: what either engine needs, changes of the file, and the end.

use super::{
    Beside, Proxy, ProxyError, TICK, TOKEN_BESIDE, TOKEN_CONTROL, TOKEN_GAP, TOKEN_GAP_OVER, TOKEN_KERNEL,
    TOKEN_RELOAD, TOKEN_SIGNAL, config, pair_config, pair_marks,
};
use crate::changes::{Changes, gone};
use crate::system::installed::Change;
use crate::system::kernel::Kernel;
use config::{DEVICE, Settings};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use wavelane_base::{Instant, Span};
use wavelane_host::has_ipv6;
use wavelane_host::nft::ToolError;
use wavelane_host::poller::Ready;

/// A gap that was told of lasts no longer: whoever was told to stop goes on then, if nobody says before that it is over.
const GAP_MAX: Span = Span::from_secs(60);

/// What an engine does in the proxy's loop.
pub(super) trait Body: Sized {
    /// Moves what can be moved. Returns whether more could be done at once.
    fn settle(proxy: &mut Proxy<Self>) -> io::Result<bool>;
    /// One of its descriptors is ready.
    fn ready(proxy: &mut Proxy<Self>, ready: Ready);
    /// Time has passed.
    fn look(proxy: &mut Proxy<Self>);
    /// When [`Body::look`] is to be called.
    fn deadline(&self) -> Option<Instant>;
    /// Whether [`Body::tick`] has anything to do.
    fn waits(&self) -> bool;
    /// Housekeeping, every [`TICK`].
    fn tick(proxy: &mut Proxy<Self>);
    /// Resets every connection.
    fn stop(proxy: &mut Proxy<Self>);
    /// Whether it can do what a file says.
    fn check(settings: &Settings) -> Result<(), ProxyError>;
    /// Does what it says from now on.
    fn tune(proxy: &mut Proxy<Self>, settings: &Settings);
    /// A gap of the links is near, or over.
    fn note_gap(proxy: &mut Proxy<Self>, is_near: bool);
    /// The status.
    fn document(proxy: &Proxy<Self>) -> String;
}

/// Which of two signals came, of each once.
fn heard(signals: &[UnixStream; 2]) -> [bool; 2] {
    signals.each_ref().map(|mut signal| {
        let mut came = false;
        while matches!(signal.read(&mut [0; 64]), Ok(n) if n > 0) {
            came = true;
        }
        came
    })
}

impl<B: Body> Proxy<B> {
    /// Runs until SIGTERM or SIGINT, then resets every connection and removes everything.
    pub(super) fn run(mut self) -> io::Result<()> {
        loop {
            let timeout = if B::settle(&mut self)? { Some(Duration::ZERO) } else { self.patience() };
            let ready = self.poller.wait(timeout)?;
            self.now = self.clock.now();
            self.supervisor.tick(self.now);
            for r in ready {
                match r.token {
                    TOKEN_SIGNAL => {
                        if let Some(why) = self.signals.end()? {
                            self.stop(&why);
                            return Ok(());
                        }
                    }
                    TOKEN_BESIDE => self.hear_beside()?,
                    _ => self.dispatch(r),
                }
            }
            if self.gap_until.is_some_and(|until| until <= self.now) {
                self.note_gap(false);
            }
            B::look(&mut self);
            if self.now.since(self.ticked) >= TICK {
                self.tick();
            }
        }
    }
    fn stop(mut self, why: &str) {
        self.supervisor.stopping();
        B::stop(&mut self);
        let last = self.beside.take().and_then(Beside::end);
        last.iter().for_each(|text| self.say(text));
        self.say(&format!("stopped ({why})"));
        let pen = self.log.pen();
        self.kernel.remove();
        pen.flush();
    }
    fn patience(&self) -> Option<Duration> {
        let waits = self.body.waits() || self.control.may_wait();
        let ticking = waits.then(|| self.ticked + TICK);
        let next: Option<Instant> =
            [ticking, self.supervisor.deadline(), self.body.deadline(), self.gap_until].into_iter().flatten().min();
        next.map(|at| self.clock.until(at))
    }
    fn answer_clients(&mut self) {
        let document = B::document(self);
        self.control.answer(self.now, || document.clone());
    }
    fn tick(&mut self) {
        self.ticked = self.now;
        if self.control.may_wait() {
            self.answer_clients();
        }
        B::tick(self);
    }
    fn dispatch(&mut self, ready: Ready) {
        match ready.token {
            TOKEN_CONTROL => self.answer_clients(),
            TOKEN_RELOAD => self.reload(),
            TOKEN_KERNEL => self.kernel_answers(),
            TOKEN_GAP | TOKEN_GAP_OVER => {
                // Of two that wait the kernel may show the later first: a gap that is over stops nobody.
                let heard = heard(&self.signals.gap);
                for is_near in [true, false].into_iter().zip(heard).filter_map(|(is_near, is)| is.then_some(is_near)) {
                    self.note_gap(is_near);
                }
            }
            _ => B::ready(self, ready),
        }
    }

    /// Whoever sends from a side with `freeze` stops ahead of a gap, and goes on after it.
    fn note_gap(&mut self, is_near: bool) {
        self.gap_until = is_near.then(|| self.now + GAP_MAX);
        if is_near {
            self.counters.one("gaps");
        }
        B::note_gap(self, is_near);
    }

    // ---- changes ----

    /// Reads the file again: as a whole or not at all. Open connections keep what they have.
    fn reload(&mut self) {
        // Several signals are one request.
        while matches!((&self.signals.reload).read(&mut [0; 64]), Ok(n) if n > 0) {}
        if self.pending.is_some() || self.kernel.is_busy() {
            self.reload_again = true;
            return;
        }
        let new = match config::load(&self.file) {
            Ok(new) => new,
            Err(e) => return self.refuse_reload(&e.to_string()),
        };
        if let Some(key) = self.settings.fixed_difference(&new) {
            let why = format!("{key} cannot change while wavelaned runs: restart it, or put the old value back");
            return self.refuse_reload(&why);
        }
        if let Err(e) = B::check(&new) {
            return self.refuse_reload(&e.to_string());
        }
        self.kernel.lead(&new.rules(has_ipv6()));
        self.pending = Some(Box::new(new));
    }
    fn refuse_reload(&mut self, why: &str) {
        self.counters.one("reloads_refused");
        self.warn(&format!("reload refused, the configuration before it is in force: {why}"));
        self.reload_refused = Some(why.to_owned());
    }
    fn kernel_answers(&mut self) {
        while let Some((change, result)) = Kernel::answered(&mut self.kernel) {
            self.kernel_answered(change, result);
        }
        if std::mem::take(&mut self.reload_again) {
            // Still busy, it waits again.
            self.reload();
        }
        for note in self.kernel.notes() {
            if let Some(unsaid) = self.notes_told.take(self.now) {
                self.say(&format!("{note}{}", Changes::unsaid(unsaid)));
            }
        }
        for hindrance in self.kernel.new_hindrances() {
            self.warn(&hindrance);
        }
    }
    fn kernel_answered(&mut self, change: Change, result: Result<(), ToolError>) {
        match (change, result) {
            (Change::Config, Ok(())) => {
                let Some(new) = self.pending.take() else { return };
                B::tune(self, &new);
                self.pair.set_config(pair_config(&new));
                self.pair.set_marks(pair_marks(&new));
                self.settings = *new;
                self.log.set_level(self.settings.log);
                self.reload_refused = None;
                self.counters.one("reloads");
                self.say("reloaded");
            }
            (Change::Config | Change::Down, Err(e)) => {
                self.pending = None;
                self.refuse_reload(&e.to_string());
            }
            (Change::Down, Ok(())) => {}
            (Change::Gone, result) => {
                let (count, line) = gone(result.map_err(|e| e.to_string()));
                count.into_iter().for_each(|count| self.counters.one(count));
                self.warn(&line);
            }
            (Change::Back(part), result) => {
                self.lost(part.words(DEVICE), result.map_err(|e| e.to_string()));
            }
        }
    }
    /// Another program took away what was installed.
    fn lost(&mut self, words: (String, String), result: Result<(), String>) {
        let (count, line) = self.losses.told(self.now, words, result);
        self.counters.one(count);
        if let Some(line) = line {
            self.warn(&line);
        }
    }
    fn hear_beside(&mut self) -> io::Result<()> {
        let heard = self.beside.as_mut().map_or(Ok(Vec::new()), Beside::heard)?;
        heard.into_iter().for_each(|(words, result)| self.lost(words, result));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::io::Write;

    #[test]
    fn neither_of_two_signals_hides_the_other() {
        let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        let [(mut near, one), (mut over, other)] = pairs;
        let signals = [one, other];
        signals.iter().for_each(|signal| signal.set_nonblocking(true).unwrap());
        near.write_all(&[1; 3]).unwrap();
        over.write_all(&[1]).unwrap();
        assert_eq!(heard(&signals), [true, true]);
        over.write_all(&[1; 200]).unwrap();
        assert_eq!((heard(&signals), heard(&signals)), ([false, true], [false, false]));
    }
}
