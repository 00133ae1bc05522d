use crate::chat::{Chat, Outcome, SCRIPT_MAX, Script, ScriptError};
use crate::dialer::{self, DialEvent, Dialer, Past};
use crate::modem::{Config, Exchange, Modem};
use proptest::prelude::*;
use wavelane_base::{Instant, Span};

const START: Instant = Instant::from_secs(10);
const DIAL: &str =
    r"ABORT BUSY ABORT 'NO CARRIER' ABORT 'NO DIALTONE' TIMEOUT 5 '' ATZ OK ATDT5552 TIMEOUT 60 CONNECT ''";

fn said(modem: &mut Modem) -> String {
    let mut out = Vec::new();
    modem.poll_computer(&mut out);
    String::from_utf8(out).expect("text")
}

fn type_in(modem: &mut Modem, line: &str) -> String {
    modem.push(START, line.as_bytes());
    said(modem)
}

#[test]
fn commands_are_echoed_and_answered() {
    let mut modem = Modem::new(Config::default());
    assert_eq!(type_in(&mut modem, "AT\r"), "AT\r\r\nOK\r\n");
    assert_eq!(type_in(&mut modem, "ate0 q0 v1 x4 &c1 &d2 s0=0\r"), "ate0 q0 v1 x4 &c1 &d2 s0=0\r\r\nOK\r\n");
    assert_eq!(type_in(&mut modem, "ATS7?\r"), "\r\n050\r\n\r\nOK\r\n");
    assert_eq!(type_in(&mut modem, "A/"), "\r\n050\r\n\r\nOK\r\n", "the line before, again");
    assert_eq!(type_in(&mut modem, "ATS7=30\r"), "\r\nOK\r\n");
    assert_eq!(type_in(&mut modem, "ATS7?S99?\r"), "\r\n030\r\n\r\nERROR\r\n");
    assert_eq!(type_in(&mut modem, "AT!\r"), "\r\nERROR\r\n");
    assert_eq!(type_in(&mut modem, "ATS7=300\r"), "\r\nERROR\r\n");
    assert_eq!(type_in(&mut modem, "hello\r"), "", "not for the modem");
    assert_eq!(type_in(&mut modem, "AX\x08T\r"), "\r\nOK\r\n", "taken back");
    assert_eq!(type_in(&mut modem, "ATV0\r"), "0\r");
    assert_eq!(type_in(&mut modem, "ATO\r"), "3\r", "there is no call");
    assert_eq!(type_in(&mut modem, "ATQ1\r"), "");
    assert_eq!(type_in(&mut modem, &format!("AT{}\r", "L".repeat(5_000))), "", "bounded");
    assert_eq!(type_in(&mut modem, "ATZ\r"), "\r\nOK\r\n");
}

/// Two computers and their modems.
struct World {
    now: Instant,
    exchange: Exchange,
    heard: [Vec<u8>; 2],
    dialer: Option<Dialer>,
    events: Vec<DialEvent>,
    data: Vec<u8>,
}

impl World {
    fn new() -> Self {
        let config = Config { rate: 33_600, training: Span::from_secs(10) };
        let exchange = Exchange::new(&[("5551", config), ("5552", config)]);
        Self { now: START, exchange, heard: Default::default(), dialer: None, events: Vec::new(), data: Vec::new() }
    }
    fn dialled(script: &str, proof_max: Option<Span>) -> Self {
        let mut world = Self::new();
        let script = Script::parse(script).expect("a script");
        let config = dialer::Config { proof_max, ..dialer::Config::new(script) };
        world.dialer = Some(Dialer::new(world.now, &config, Past::NONE));
        world.settle();
        world
    }
    fn settle(&mut self) {
        for _ in 0..20 {
            let mut out = Vec::new();
            if let Some(dialer) = &mut self.dialer {
                while let Some(event) = dialer.poll_event() {
                    if let DialEvent::Dtr(on) = event {
                        self.exchange.set_dtr(self.now, 0, on);
                    } else {
                        self.events.push(event);
                    }
                }
                dialer.poll_transmit(&mut out);
                self.exchange.push(self.now, 0, &out);
            }
            for at in 0..2 {
                let mut octets = Vec::new();
                self.exchange.poll_computer(at, &mut octets);
                if let (0, Some(dialer)) = (at, &mut self.dialer) {
                    dialer.push(self.now, &octets, |data| self.data.extend(data));
                }
                self.heard[at].extend(octets);
            }
        }
    }
    fn type_in(&mut self, at: usize, text: &str) {
        self.exchange.push(self.now, at, text.as_bytes());
        self.settle();
    }
    fn run(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            let dialer = self.dialer.as_ref().and_then(Dialer::poll_timeout);
            let due = [self.exchange.poll_timeout(), dialer].into_iter().flatten().map(|due| due.at).min();
            match due.filter(|due| *due <= until) {
                Some(due) => {
                    assert!(due >= self.now, "a stale deadline");
                    self.now = due;
                    self.exchange.handle_timeout(due);
                    self.dialer.iter_mut().for_each(|dialer| dialer.handle_timeout(due));
                    self.settle();
                }
                None => break self.now = until,
            }
        }
    }
    fn heard(&mut self, at: usize) -> String {
        String::from_utf8_lossy(&core::mem::take(&mut self.heard[at])).into_owned()
    }
}

#[test]
fn a_call_rings_trains_carries_and_ends() {
    let world = &mut World::new();
    world.type_in(0, "ATE0DT5552\r");
    world.run(Span::from_secs(7));
    assert_eq!(world.heard(1), "\r\nRING\r\n\r\nRING\r\n");
    world.type_in(1, "ATE0A\r");
    world.run(Span::from_secs(9));
    assert!(!world.exchange.modem(0).carrier(), "training");
    world.run(Span::from_secs(2));
    assert!(world.heard(0).ends_with("\r\nCONNECT 33600\r\n") && world.heard(1).ends_with("\r\nCONNECT 33600\r\n"));
    world.type_in(0, "hello +++ATH\r");
    world.run(Span::from_secs(3));
    assert_eq!(world.heard(1), "hello +++ATH\r", "without silence around it, data");
    // An escape with its guard times, a command, back online; the other end hears only the characters themselves.
    world.type_in(0, "+++");
    world.run(Span::from_millis(900));
    assert_eq!(world.heard(0), "", "the guard time is not over");
    world.run(Span::from_millis(200));
    assert_eq!((world.heard(0), world.heard(1)), ("\r\nOK\r\n".into(), "+++".into()));
    world.type_in(0, "ATO\r");
    world.type_in(1, "back");
    assert_eq!(world.heard(0), "\r\nCONNECT 33600\r\nback");
    world.run(Span::from_secs(2));
    world.type_in(0, "++");
    world.run(Span::from_secs(2));
    world.type_in(0, "+");
    world.run(Span::from_secs(2));
    assert_eq!((world.heard(0), world.heard(1)), (String::new(), "+++".into()), "three, but not together");
    world.exchange.set_dtr(world.now, 0, false);
    world.settle();
    assert_eq!((world.heard(0), world.heard(1)), ("\r\nNO CARRIER\r\n".into(), "\r\nNO CARRIER\r\n".into()));
}

#[test]
fn calls_that_do_not_come_about_say_why() {
    let world = &mut World::new();
    for (typed, answer) in [("ATE0DT5551\r", "BUSY"), ("ATX1DT5551\r", "NO CARRIER"), ("ATX4DT9\r", "NO ANSWER")] {
        world.type_in(0, typed);
        assert!(world.heard(0).ends_with(&format!("\r\n{answer}\r\n")), "{typed:?}");
    }
    // Nobody answers: register 7 ends it; a key pressed ends it at once.
    world.type_in(0, "ATS7=20DT5552\r");
    world.run(Span::from_secs(21));
    assert_eq!(world.heard(0), "\r\nNO CARRIER\r\n");
    assert_eq!(world.heard(1).matches("RING").count(), 4);
    world.type_in(0, "ATDT5552\r");
    world.run(Span::from_secs(1));
    world.type_in(0, "x");
    assert_eq!(world.heard(0), "\r\nNO CARRIER\r\n");
    world.exchange.set_cut(true);
    world.type_in(0, "ATDT5552\r");
    assert_eq!(world.heard(0), "\r\nNO DIALTONE\r\n");
}

#[test]
fn a_dialer_connects_and_calls_again_when_the_carrier_is_lost() {
    let world = &mut World::dialled(DIAL, None);
    world.type_in(1, "ATS0=2\r");
    world.run(Span::from_secs(30));
    assert_eq!(world.events, [DialEvent::Connected("CONNECT 33600".into())]);
    world.type_in(1, "data at once\x7e");
    assert_eq!(world.data, "data at once\x7e".as_bytes());
    world.exchange.set_cut(true);
    world.settle();
    let now = world.now;
    world.dialer.as_mut().expect("a dialer").carrier_lost(now, "the carrier was lost");
    world.settle();
    let again = Span::from_secs(5);
    assert_eq!(world.events[1], DialEvent::Failed { why: "the carrier was lost".into(), again });
    // Each failure doubles the wait: 10, 20, 40, 80, 160, then 300 s.
    world.run(Span::from_secs(2_000));
    let waits: Vec<u64> = world.events[2..]
        .iter()
        .map(|event| match event {
            DialEvent::Failed { why, again } if why == "the modem says NO DIALTONE" => again.as_millis() / 1_000,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waits[..7], [10, 20, 40, 80, 160, 300, 300]);
    world.exchange.set_cut(false);
    world.run(Span::from_secs(400));
    assert_eq!(world.events.last(), Some(&DialEvent::Connected("CONNECT 33600".into())));
    // A call that lasted begins anew with the shortest wait.
    world.run(Span::from_secs(100));
    let now = world.now;
    world.dialer.as_mut().expect("a dialer").hang_up(now, "of no use");
    world.settle();
    assert_eq!(world.events.last(), Some(&DialEvent::Failed { why: "of no use".into(), again }));
    // What the owner knows holds the next call back further; a call that is made already goes on.
    let (hour, calls) = (Span::from_secs(3_600), world.events.len() + 1);
    world.dialer.as_mut().expect("a dialer").hold(now, now + hour, "a refused secret");
    world.settle();
    assert_eq!(world.events.last(), Some(&DialEvent::Failed { why: "a refused secret".into(), again: hour }));
    world.run(Span::from_secs(3_590));
    assert_eq!(world.events.len(), calls);
    world.run(Span::from_secs(60));
    assert!(matches!(world.events.last(), Some(DialEvent::Connected(_))), "{:?}", world.events.last());
    let now = world.now;
    world.dialer.as_mut().expect("a dialer").hold(now, now + hour, "late");
    world.settle();
    assert_eq!(world.events.len(), calls + 1);
}

#[test]
fn a_dead_call_is_hung_up_and_counts_as_a_failure_however_long_it_stood() {
    let proof_max = Span::from_secs(60);
    let world = &mut World::dialled(DIAL, Some(proof_max));
    world.type_in(1, "ATS0=1\r");
    // Nobody ever speaks at the other end: each call lasts a minute, and the waits between them double all the same.
    world.run(Span::from_secs(700));
    let waits: Vec<Span> = world
        .events
        .iter()
        .filter_map(|event| if let DialEvent::Failed { again, .. } = event { Some(*again) } else { None })
        .collect();
    assert_eq!(waits[..5], [5, 10, 20, 40, 80].map(Span::from_secs));
    assert!(
        matches!(&world.events[1], DialEvent::Failed { why, .. } if why.contains("nothing of the other end's came"))
    );
    // Who speaks keeps the call for as long as he does.
    while !matches!(world.events.last(), Some(DialEvent::Connected(_))) {
        world.run(Span::from_secs(1));
    }
    let connected = world.events.len();
    for _ in 0..20 {
        world.run(Span::from_secs(10));
        let now = world.now;
        world.dialer.as_mut().expect("a dialer").proved(now);
    }
    assert!(world.exchange.modem(0).carrier() && world.events.len() == connected);
    world.run(Span::from_secs(64));
    assert!(!world.exchange.modem(0).carrier() && !world.exchange.modem(1).carrier());
    assert!(matches!(world.events.last(), Some(DialEvent::Failed { again, .. }) if *again == Span::from_secs(5)));
}

#[test]
fn a_port_that_comes_back_is_not_dialled_by_sooner() {
    let config = dialer::Config::new(Script::parse(DIAL).expect("a script"));
    let mut past = Past::NONE;
    let mut now = START;
    // Each time the port is there for a second only: the waits double as after calls that fail.
    for seconds in [5, 10, 20, 40, 80, 160, 300, 300] {
        let mut dialer = Dialer::new(now, &config, past);
        assert_eq!(dialer.poll_event(), Some(DialEvent::Dtr(true)));
        now += Span::from_secs(1);
        past = dialer.past(now);
        let mut dialer = Dialer::new(now, &config, past);
        assert_eq!(dialer.poll_event(), Some(DialEvent::Dtr(false)));
        assert_eq!(dialer.past(now), past, "nothing was called");
        now += Span::from_secs(seconds);
        assert_eq!(dialer.poll_timeout().expect("the next call").at, now);
    }
}

#[test]
fn hanging_up_by_escape_needs_no_dtr() {
    let world = &mut World::new();
    let config = dialer::Config::new(Script::parse(DIAL).expect("a script"));
    world.dialer = Some(Dialer::new(world.now, &config, Past::NONE));
    world.settle();
    world.type_in(1, "ATS0=1\r");
    world.run(Span::from_secs(30));
    assert!(world.exchange.modem(0).carrier());
    let now = world.now;
    world.dialer.as_mut().expect("a dialer").hang_up(now, "of no use");
    world.run(Span::from_millis(3_000));
    assert!(!world.exchange.modem(0).carrier(), "before DTR was dropped");
}

fn chat(script: &str, lines: &[&str]) -> (Option<Outcome>, String, usize) {
    let mut chat = Chat::new(START, &Script::parse(script).expect("a script"));
    let (mut out, mut left) = (Vec::new(), 0);
    for line in lines {
        left += line.len() - chat.push(START, line.as_bytes());
        chat.poll_transmit(&mut out);
    }
    chat.poll_transmit(&mut out);
    (chat.outcome().cloned(), String::from_utf8(out).expect("text"), left)
}

#[test]
fn scripts_are_read_as_chat_reads_them() {
    let done = |said: &str| Some(Outcome::Done(said.into()));
    assert_eq!(chat("OK AT", &["OK"]), (done(""), "AT\r".into(), 0));
    assert_eq!(chat(r"'' 'AT\c' OK \s\\\t", &["OK"]), (done(""), "AT \\\t\r".into(), 0));
    assert_eq!(
        chat("CONNECT ''", &["\r\nCONN", "ECT 9600/ARQ\r\n\x7eframe"]),
        (done("CONNECT 9600/ARQ"), String::new(), 6)
    );
    let aborted = chat("ABORT BUSY CONNECT", &["\r\nBUSY\r\nCONNECT"]);
    assert_eq!(aborted.0.expect("an end").to_string(), "the modem says BUSY");
    // The echo of what was sent is no answer to it.
    let (outcome, out, _) = chat("'' ATOK OK ATD CONNECT", &["ATOK\r\r\nOK\r\n"]);
    assert_eq!((outcome, out.as_str()), (None, "ATOK\rATD\r"));
    let mut chat = Chat::new(START, &Script::parse(r"TIMEOUT 3 '' \d\pA OK B").expect("a script"));
    let mut out = Vec::new();
    for millis in [0, 999, 1_000, 1_099, 1_100] {
        assert!(out.is_empty(), "{millis}");
        chat.handle_timeout(START + Span::from_millis(millis));
        chat.poll_transmit(&mut out);
    }
    assert_eq!(out, b"A\r");
    chat.push(START + Span::from_millis(1_100), b"\x1b[2JEH?\r\n");
    chat.handle_timeout(START + Span::from_millis(4_100));
    let text = chat.outcome().expect("an end").to_string();
    assert!(text.starts_with("no `OK` from the modem, which said `") && !text.contains('\x1b'), "{text}");
}

#[test]
fn scripts_that_cannot_be_meant_are_refused() {
    let error = |script: &str| Script::parse(script).expect_err("refused");
    assert_eq!(error("'' 'AT"), ScriptError::Quote);
    assert_eq!(error(r"'' AT\q"), ScriptError::Escape('q'));
    assert_eq!(error(r"OK\d AT"), ScriptError::Escape('d'));
    assert_eq!(error("ABORT"), ScriptError::Missing("ABORT"));
    assert_eq!(error("TIMEOUT soon OK").to_string(), "the chat script has `TIMEOUT soon`: give seconds, 1 to 3600");
    assert_eq!(error(&"x".repeat(300)), ScriptError::Length(300));
    for (script, word) in [("SAY 'calling' '' AT OK", "SAY"), ("'' ECHO ON OK", "ECHO")] {
        let why = Script::parse(script);
        assert_eq!(why.is_err(), script.starts_with(word), "{script}: a word to send is a text");
    }
    for script in ["REPORT CONNECT '' AT CONNECT", "HANGUP OFF '' AT OK"] {
        assert!(error(script).to_string().contains("remove it"), "{script}");
    }
    assert_eq!(error("'' BREAK ogin:"), ScriptError::Break);
    assert_eq!(error("'' AT^S OK"), ScriptError::Control);
    assert_eq!(error(r"'' AT\9 OK"), ScriptError::Escape('9'));
    assert_eq!(error(r"'' AT\37 OK"), ScriptError::Escape('3'));
    assert_eq!(error("OK-ATZ ATDT1 CONNECT"), ScriptError::Others("OK-ATZ".into()));
    assert!(matches!(error(&format!("A{}", "-x-A".repeat(17))), ScriptError::Others(_)));
    for script in ["", "'' AT", "ABORT BUSY '' ATZ OK ATDT1", "'' ATZ OK ATDT1 '' '' ABORT BUSY"] {
        assert_eq!(error(script), ScriptError::Blind, "{script}");
    }
    assert!(Script::parse("ogin: me word: secret").is_ok(), "after a login the connection begins");
    assert_eq!(error(&" ".repeat(SCRIPT_MAX + 1)), ScriptError::Long);
}

proptest! {
    #[test]
    fn any_text_of_a_modem_is_data(text in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let mut modem = Modem::new(Config::default());
        modem.push(START, &text);
        let mut out = Vec::new();
        modem.poll_computer(&mut out);
        let mut chat = Chat::new(START, &Script::parse(DIAL).expect("a script"));
        prop_assert!(chat.push(START, &out) <= out.len());
        prop_assert!(chat.push(START, &text) <= text.len());
        chat.handle_timeout(START + Span::from_secs(100));
        chat.handle_timeout(START + Span::from_secs(200));
        prop_assert!(chat.outcome().is_some());
    }

    #[test]
    fn any_script_is_read_or_refused(script in "\\PC{0,200}") {
        let _ = Script::parse(&script);
    }
}

#[test]
fn who_waits_for_calls_is_ready_again_before_the_caller_dials() {
    let first = |script: &str| dialer::Config::new(Script::parse(script).expect("a script")).again_first;
    for script in ["'' atd5551 CONNECT", "'' ATE0DT5551 CONNECT", "'' ATZ OK ATDP5551 CONNECT"] {
        assert_eq!(first(script), Span::from_secs(5), "{script}");
    }
    assert_eq!(first("'' ATE0&D2S0=1 OK \\c CONNECT"), Span::from_secs(1));
}

#[test]
fn a_pause_at_the_end_of_what_is_sent_is_not_the_time_for_the_answer() {
    let script = Script::parse("'' \\d+++\\d\\c OK").expect("a script");
    let mut chat = Chat::new(START, &script);
    for second in 1..=20 {
        chat.handle_timeout(START + Span::from_secs(second));
    }
    assert_eq!(chat.outcome(), None);
    chat.push(START + Span::from_secs(21), b"\r\nOK\r\n");
    assert_eq!(chat.outcome(), Some(&Outcome::Done("OK".into())));
}

#[test]
fn the_whole_line_is_told_that_ends_a_chat() {
    let mut chat = Chat::new(START, &Script::parse("ABORT 'NO ' '' ATDT1 CONNECT").expect("a script"));
    chat.push(START, b"ATDT1\r\r\nNO DIALTONE\r\n");
    assert_eq!(chat.outcome(), Some(&Outcome::Aborted("NO DIALTONE".into())));
}

#[test]
fn a_text_that_does_not_come_is_asked_for_in_other_words() {
    let said = |seconds: u64, lines: &[&str]| {
        let script =
            Script::parse(r"TIMEOUT 5 ABORT NO OK-AT\-Z-OK--OK \101\^\b CLR_ABORT NO CONNECT").expect("a script");
        let mut chat = Chat::new(START, &script);
        let mut out = Vec::new();
        for second in 0..=seconds {
            chat.handle_timeout(START + Span::from_secs(second));
            chat.poll_transmit(&mut out);
        }
        for line in lines {
            chat.push(START + Span::from_secs(seconds), line.as_bytes());
        }
        chat.poll_transmit(&mut out);
        (chat.outcome().cloned(), String::from_utf8(out).expect("text"))
    };
    assert_eq!(said(4, &["OK\r\n"]), (None, "A^\x08\r".into()));
    assert_eq!(said(5, &["OK\r\n"]), (None, "AT-Z\rA^\x08\r".into()));
    let (outcome, out) = said(10, &["OK\r\n", "NO, CONNECT 9600\r\n"]);
    assert_eq!((outcome, out.as_str()), (Some(Outcome::Done("NO, CONNECT 9600".into())), "AT-Z\r\rA^\x08\r"));
    assert!(matches!(said(15, &[]).0, Some(Outcome::TimedOut { .. })));
    assert_eq!(said(5, &["NO CARRIER\r\n"]).0, Some(Outcome::Aborted("NO CARRIER".into())));
}
