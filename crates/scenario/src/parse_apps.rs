//! Applications that follow a model of people: `web`, `voice`, `on-off`, `telnet`. The models are in `docs/models/traffic.md`.

use crate::ScenarioError;
use crate::factor::parse_factor;
use crate::model::{App, ChannelKind, Codec, Flow, Scenario, Spurts, Voice, Web};
use crate::word;
use crate::{Table, Value};
use core::fmt::Write;
use wavelane_base::Quantity;
use wavelane_base::{Octets, Rate, Span};

/// Largest mean size of an object, and most objects of a page, at once, and pages of a session.
const OBJECT_MAX: Octets = Octets::new(100_000_000);
const OBJECTS_MAX: u64 = 1_000;
const PARALLEL_MAX: u64 = 64;
const PAGES_MAX: u64 = 1_000_000;
/// Shapes of the size distribution: at 1 there is no mean, at 100 it is nearly exponential.
const SHAPE_MIN: f64 = 1.01;
const SHAPE_MAX: f64 = 100.0;
/// Longest mean of a random time.
const MEAN_MAX: Span = Span::from_secs(3_600);
/// Shortest mean interval between sends.
const MEAN_MIN: Span = Span::from_millis(1);
/// Smallest and largest datagram: it carries a number, and fits any channel's frames.
const DATAGRAM_MIN: u64 = 16;
const DATAGRAM_MAX: u64 = 2_200;
/// Shortest interval between datagrams of a spurt.
const EVERY_MIN: Span = Span::from_micros(10);
/// Maximum ratio of a datagram's interval to the mean spurt: spurts without a datagram are drawn again, and for a longer interval one in
/// 22,000 or fewer has one.
const EVERY_PER_SPURT: u64 = 10;
/// Largest keystroke: larger ones are transfers.
const KEYSTROKE_MAX: u64 = 1_400;
/// Headers of a datagram.
const UDP_IP: usize = 28;

const CODECS: &[(&str, Codec)] = &[("g726-32", Codec::G726), ("g711", Codec::G711)];

/// `PagePool/WebTraf` of ns-2 with the settings of its examples, sizes in bytes (packets there: mean 10 of 1 kB).
fn webtraf_2001() -> Web {
    Web {
        document: None,
        objects: 1,
        size: Octets::new(10_000),
        shape: 1.2,
        parallel: 1,
        gap: Span::from_millis(10),
        think: Span::from_secs(1),
        pages: None,
    }
}

/// The median desktop page of October 2024 (HTTP Archive, Web Almanac 2024, chapter Page Weight: 2,652 kB, 71 requests, 18 kB of HTML),
/// read like pages of 3GPP2 C.R1002-0 (30 s), over six connections as in browsers with HTTP/1.1.
fn almanac_2024() -> Web {
    Web {
        document: Some(Octets::new(18_000)),
        objects: 70,
        size: Octets::new(37_600),
        shape: 1.2,
        parallel: 6,
        gap: Span::ZERO,
        think: Span::from_secs(30),
        pages: None,
    }
}

/// Constructor of a page model's values.
type PageModel = fn() -> Web;

const MODELS: &[(&str, PageModel)] = &[("webtraf-2001", webtraf_2001), ("almanac-2024", almanac_2024)];

/// The keys of an application that is parsed here; `None` for others.
pub(crate) fn keys(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "web" => &["model", "document", "objects", "size", "shape", "parallel", "gap", "think", "pages", "control"],
        "voice" => &["rate", "size", "talk", "silence", "deadline", "codec"],
        "on-off" => &["rate", "size", "on", "off"],
        "telnet" => &["every", "size", "control"],
        _ => return None,
    })
}

/// Parses such an application.
pub(crate) fn app(kind: &str, table: &Table<'_>) -> Result<App, ScenarioError> {
    match kind {
        "web" => web(table).map(|web| App::Web(Box::new(web))),
        "voice" => voice(table).map(App::Voice),
        "on-off" => {
            let on = mean(table, "on", Span::from_secs(1), MEAN_MIN)?;
            spurts(table, on, mean(table, "off", Span::from_secs(1), MEAN_MIN)?).map(App::OnOff)
        }
        _ => {
            let every = mean(table, "every", Span::from_secs(1), MEAN_MIN)?;
            Ok(App::Telnet { every, size: size(table, "size", Octets::new(1), 1, KEYSTROKE_MAX)? })
        }
    }
}

fn web(table: &Table<'_>) -> Result<Web, ScenarioError> {
    let model = table.get("model").map(|v| word(&v, "model of pages", MODELS, "\"webtraf-2001\"")).transpose()?;
    let usual = model.unwrap_or(webtraf_2001)();
    let count = |key: &str, usual: u32, most: u64| -> Result<u32, ScenarioError> {
        let Some(value) = table.get(key) else { return Ok(usual) };
        let number = value.whole()?;
        let why = || format!("{} = {number}: choose 1 to {most}", value.path);
        u32::try_from(number)
            .ok()
            .filter(|n| (1..=most).contains(&u64::from(*n)))
            .ok_or_else(|| value.impossible(why()))
    };
    let document = match (table.get("document"), usual.document) {
        (None, None) => None,
        (_, usual) => Some(size(table, "document", usual.unwrap_or(Octets::ZERO), 1, OBJECT_MAX.get())?),
    };
    Ok(Web {
        document,
        objects: count("objects", usual.objects, OBJECTS_MAX)?,
        size: size(table, "size", usual.size, 1, OBJECT_MAX.get())?,
        shape: table.get("shape").map(|v| shape(&v)).transpose()?.unwrap_or(usual.shape),
        parallel: count("parallel", usual.parallel, PARALLEL_MAX)?,
        gap: mean(table, "gap", usual.gap, Span::ZERO)?,
        think: mean(table, "think", usual.think, MEAN_MIN)?,
        pages: table.get("pages").map(|_| count("pages", 1, PAGES_MAX)).transpose()?,
    })
}

fn shape(value: &Value<'_>) -> Result<f64, ScenarioError> {
    let text = value.str("a number as text", "\"1.2\"")?;
    let number = parse_factor(text).ok().filter(|shape| (SHAPE_MIN..=SHAPE_MAX).contains(shape));
    let why = || format!("{} = \"{text}\": write a number from {SHAPE_MIN} (heaviest tail) to {SHAPE_MAX}", value.path);
    number.ok_or_else(|| value.impossible(why()))
}

fn voice(table: &Table<'_>) -> Result<Voice, ScenarioError> {
    // ITU-T P.59 gives 1.004 and 1.587 s; these values are from the source document.
    let talk = mean(table, "talk", Span::from_secs(1), MEAN_MIN)?;
    let silence = mean(table, "silence", Span::from_millis(1_350), MEAN_MIN)?;
    let deadline = table.quantity("deadline")?.unwrap_or(Span::from_millis(500));
    if let Some(value) = table.get("deadline").filter(|_| deadline > MEAN_MAX) {
        return Err(value.impossible(format!("{}: choose at most {}", value.path, MEAN_MAX.write())));
    }
    let codec = table.get("codec").map(|v| word(&v, "codec", CODECS, "\"g726-32\"")).transpose()?.unwrap_or_default();
    Ok(Voice { spurts: spurts_at(table, talk, silence, codec.rate())?, deadline, codec })
}

fn spurts(table: &Table<'_>, on: Span, off: Span) -> Result<Spurts, ScenarioError> {
    table.need("rate", "\"100 kbit/s\"")?;
    spurts_at(table, on, off, Rate::default())
}

fn spurts_at(table: &Table<'_>, on: Span, off: Span, usual: Rate) -> Result<Spurts, ScenarioError> {
    let rate = table.quantity("rate")?.unwrap_or(usual);
    let size = size(table, "size", Octets::new(200), DATAGRAM_MIN, DATAGRAM_MAX)?;
    let spurts = Spurts { rate, size, on, off };
    if rate == Rate::default() || spurts.every() < EVERY_MIN || spurts.every() > MEAN_MAX {
        let at = table.get("rate").or_else(|| table.get("size"));
        let every = if rate == Rate::default() { "never".into() } else { format!("every {}", spurts.every().write()) };
        let why = format!("{}: {} in datagrams of {} B sends one {every}", table.title(), rate.write(), size.get());
        let why = format!("{why}, outside {} to {}", EVERY_MIN.write(), MEAN_MAX.write());
        return Err(match at {
            Some(at) => at.impossible(format!("{why}, so change rate or size")),
            None => table.need("rate", "\"32 kbit/s\"")?.impossible(why),
        });
    }
    if spurts.every() > on.times(EVERY_PER_SPURT) {
        let keys = ["talk", "on", "rate", "size"];
        let why = format!(
            "{}: a spurt lasts {} on average and a datagram goes every {}, so that hardly any spurt has one: have spurts last {} at least, or \
             raise rate, or lower size",
            table.title(),
            on.write(),
            spurts.every().write(),
            Span::from_nanos(spurts.every().as_nanos().div_ceil(EVERY_PER_SPURT)).write()
        );
        return Err(match keys.iter().find_map(|key| table.get(key)) {
            Some(at) => at.impossible(why),
            None => table.need("rate", "\"32 kbit/s\"")?.impossible(why),
        });
    }
    Ok(spurts)
}

fn mean(table: &Table<'_>, key: &'static str, usual: Span, least: Span) -> Result<Span, ScenarioError> {
    let Some(value) = table.get(key) else { return Ok(usual) };
    let span: Span = value.quantity()?;
    if span < least || span > MEAN_MAX {
        let why = format!("{} = {}: choose {} to {}", value.path, span.write(), least.write(), MEAN_MAX.write());
        return Err(value.impossible(why));
    }
    Ok(span)
}

fn size(table: &Table<'_>, key: &'static str, usual: Octets, least: u64, most: u64) -> Result<Octets, ScenarioError> {
    let Some(value) = table.get(key) else { return Ok(usual) };
    let size: Octets = value.quantity()?;
    if !(least..=most).contains(&size.get()) {
        return Err(value.impossible(format!("{} = {}: choose {least} to {most} B", value.path, size.write())));
    }
    Ok(size)
}

/// Rejects a call none of whose datagrams can arrive in time.
pub(crate) fn deadline(scenario: &Scenario, flow: &Flow, value: &Value<'_>) -> Result<(), ScenarioError> {
    let App::Voice(voice) = &flow.app else { return Ok(()) };
    let least = least_delay(scenario, flow, voice.spurts.size.get() as usize);
    if voice.deadline > least {
        return Ok(());
    }
    let table = value.table("[flows.call]")?;
    let at = table.get("deadline").or_else(|| table.get("size"));
    let why = format!("[{}]: a datagram takes {} on the way alone", value.path, least.write());
    let why = format!("{why}, and the deadline is {}: lengthen it or send smaller ones", voice.deadline.write());
    Err(at.as_ref().unwrap_or(value).impossible(why))
}

/// Delay of a single datagram on the air and on wires, without any queueing.
fn least_delay(scenario: &Scenario, flow: &Flow, size: usize) -> Span {
    let way = scenario.path(&flow.from, &flow.to).unwrap_or_default();
    way.iter().fold(Span::ZERO, |sum, (channel, direction)| {
        sum + match &channel.kind {
            ChannelKind::Wifi(cell) => {
                let octets = size + UDP_IP + cell.rules.overhead;
                cell.phy.rate(cell.rate).map_or(Span::ZERO, |rate| rate.airtime(octets))
            }
            _ => channel.direction(*direction).map_or(Span::ZERO, |cable| {
                let octets = Octets::new((size + UDP_IP) as u64);
                cable.delay + cable.rate.map_or(Span::ZERO, |rate| rate.time_for(octets))
            }),
        }
    })
}

/// The keys of such an application, as [`app`] reads them.
pub(crate) fn write(app: &App) -> String {
    let mut out = String::new();
    let mut key = |key: &str, value: String| {
        let _ = write!(out, "\n{key} = {value}");
    };
    let text = |value: &dyn core::fmt::Display| format!("\"{value}\"");
    let spurts = |spurts: &Spurts, [on, off]: [&str; 2]| {
        [
            ("rate", spurts.rate.write()),
            ("size", spurts.size.write()),
            (on, spurts.on.write()),
            (off, spurts.off.write()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
    };
    match app {
        App::Web(web) => {
            if let Some(document) = &web.document {
                key("document", text(&document.write()));
            }
            key("objects", web.objects.to_string());
            key("size", text(&web.size.write()));
            key("shape", text(&web.shape));
            key("parallel", web.parallel.to_string());
            key("gap", text(&web.gap.write()));
            key("think", text(&web.think.write()));
            if let Some(pages) = web.pages {
                key("pages", pages.to_string());
            }
        }
        App::Voice(voice) => {
            spurts(&voice.spurts, ["talk", "silence"]).iter().for_each(|(k, value)| key(k, text(value)));
            key("deadline", text(&voice.deadline.write()));
            let codec = CODECS.iter().find(|(_, codec)| *codec == voice.codec).map_or("g726-32", |(word, _)| word);
            key("codec", text(&codec));
        }
        App::OnOff(of) => spurts(of, ["on", "off"]).iter().for_each(|(k, value)| key(k, text(value))),
        App::Telnet { every, size } => {
            key("every", text(&every.write()));
            key("size", text(&size.write()));
        }
        _ => {}
    }
    out
}

#[cfg(test)]
#[path = "parse_apps_tests.rs"]
mod tests;
