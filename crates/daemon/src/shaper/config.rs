//! The file of a daemon that shapes: tables `[[shaper]]` and nothing else. It needs no key, for it has no peer.

use super::reflector::Target;
use crate::config::{ConfigError, has_table, is_interface_name, value, with_root};
use std::path::Path;
use wavelane_base::{Quantity, Rate};
use wavelane_measure::{AutorateTerms, RISE_DEFAULT};
use wavelane_queue::{Cells, Framing, RATE_MIN};
use wavelane_settings::{CellsWord, File, LogLevel, SHAPER, SHAPERS, ShaperTable};
pub(crate) use wavelane_settings::{DelayDirection, How};

/// Most interfaces that are shaped at once.
pub(crate) const SHAPERS_MAX: usize = 4;
/// The rate of a shaper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Pace {
    /// As written.
    Fixed(Rate),
    /// As the delay to a reflector allows.
    Auto {
        /// Its bounds.
        terms: AutorateTerms,
        /// Who answers.
        reflector: Target,
        /// Which delay counts.
        way: DelayDirection,
    },
}

impl Pace {
    /// The rate to begin with.
    pub(crate) fn first(self) -> Rate {
        match self {
            Self::Fixed(rate) => rate,
            Self::Auto { terms, .. } => terms.middle,
        }
    }
}

/// One shaped interface.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) pace: Pace,
    pub(crate) framing: Framing,
    pub(crate) how: How,
}

/// Whether a TOML text is that of a daemon that shapes.
pub(crate) fn is_shaper(text: &str) -> bool {
    has_table(text, "shaper")
}

/// Reads the file.
pub(crate) fn load(path: &Path) -> Result<Vec<Interface>, ConfigError> {
    load_all(path).map(|(_, interfaces)| interfaces)
}

/// The same with the level of its log.
pub(crate) fn load_all(path: &Path) -> Result<(LogLevel, Vec<Interface>), ConfigError> {
    let text = crate::load::read_text(path).map_err(|source| ConfigError::Unreadable { path: path.into(), source })?;
    let place = path.display().to_string();
    read(&text, &place).map_err(|why| why.in_file(&text, &place))
}

/// Reads a text; `place` names it in messages.
pub(crate) fn parse(text: &str, place: &str) -> Result<Vec<Interface>, ConfigError> {
    read(text, place).map(|(_, interfaces)| interfaces).map_err(|why| why.in_file(text, place))
}

fn read(text: &str, place: &str) -> Result<(LogLevel, Vec<Interface>), ConfigError> {
    if toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("gateway")) {
        return Err(value("shaper", "stands beside [gateway]: give the shaper a file and a wavelaned of its own"));
    }
    let (above, tables) = with_root(text, place, |root| {
        // In TOML what stands below a title is its table's.
        for table in root.parts("shaper")? {
            if let Some((key, value)) = SHAPERS.keys(File::Daemon).iter().find_map(|key| Some((key, table.get(key)?))) {
                return Err(
                    value.impossible(format!("`{key}` is the whole file's: write it above the first [[shaper]]"))
                );
            }
        }
        Ok((SHAPERS.whole(File::Daemon, root, &["shaper"])?, SHAPER.each(root, "shaper")?))
    })?;
    if tables.is_empty() || tables.len() > SHAPERS_MAX {
        return Err(value("shaper", format!("takes 1 to {SHAPERS_MAX} tables, not {}", tables.len())));
    }
    let all = tables.into_iter().map(interface).collect::<Result<Vec<_>, _>>()?;
    for (i, one) in all.iter().enumerate() {
        if all[..i].iter().any(|other| other.name == one.name) {
            return Err(value("shaper.interface", format!("{} is named twice: remove one table", one.name)));
        }
    }
    Ok((above.log.unwrap_or_default(), all))
}

fn interface(t: ShaperTable) -> Result<Interface, ConfigError> {
    let pace = pace(&t)?;
    let name = t.interface.unwrap_or_default();
    if !is_interface_name(&name) {
        return Err(value("shaper.interface", format!("'{name}' is not an interface name (see `ip link`)")));
    }
    let cells = match t.cells.unwrap_or_default() {
        CellsWord::None => Cells::None,
        CellsWord::Atm => Cells::Atm,
        CellsWord::Ptm => Cells::Ptm,
    };
    let framing = Framing { overhead: t.overhead.unwrap_or(0), least: t.packet_min.unwrap_or(0), cells };
    Ok(Interface { pace, framing, how: t.how.unwrap_or_default(), name })
}

fn pace(t: &ShaperTable) -> Result<Pace, ConfigError> {
    let text = t.rate.as_deref().unwrap_or_default();
    if text != "auto" {
        let rates = [t.rate_min, t.rate_idle, t.rate_max].iter().any(Option::is_some);
        if rates || t.reflector.is_some() || t.rise.is_some() || t.direction.is_some() {
            return Err(value(
                "shaper.rate",
                "is fixed, so rate_min, rate_idle, rate_max, reflector, direction and rise mean nothing: remove them, or write rate = \"auto\"",
            ));
        }
        let rate = Rate::parse(text).map_err(|e| value("shaper.rate", e.to_string()))?;
        if rate < RATE_MIN {
            return Err(value("shaper.rate", format!("'{text}' is below 8 kbit/s, the least that is shaped")));
        }
        return Ok(Pace::Fixed(rate));
    }
    let missing =
        |key: &str, example: &str| value(key, format!("is needed where rate = \"auto\", such as \"{example}\""));
    let least = t.rate_min.ok_or_else(|| missing("shaper.rate_min", "2 Mbit/s"))?;
    let most = t.rate_max.ok_or_else(|| missing("shaper.rate_max", "40 Mbit/s"))?;
    if least > most {
        return Err(value("shaper.rate_min", "must be at most rate_max"));
    }
    let quarter = || Rate::from_bps(least.as_bps() + (most.as_bps().saturating_sub(least.as_bps())) / 4);
    let middle = t.rate_idle.unwrap_or_else(quarter);
    if !(least <= middle && middle <= most) {
        return Err(value("shaper.rate_idle", "must lie between rate_min and rate_max"));
    }
    let text = t.reflector.as_deref().ok_or_else(|| missing("shaper.reflector", "192.0.2.1"))?;
    let reflector = text.parse().map_err(|_| {
        value("shaper.reflector", format!("'{text}' is not an IPv4 address of a machine beyond the slow link, nor ADDRESS:PORT of a `wavelane probe serve` or a gateway there"))
    })?;
    let rise = t.rise.unwrap_or(RISE_DEFAULT);
    let terms = AutorateTerms { least, middle, most, rise };
    Ok(Pace::Auto { terms, reflector, way: t.direction.unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Interface, String> {
        parse(&format!("[[shaper]]\n{text}"), "x").map(|mut all| all.remove(0)).map_err(|e| e.to_string())
    }

    #[test]
    fn a_fixed_rate_needs_two_keys() {
        let plain = one("interface = \"wan0\"\nrate = \"18 Mbit/s\"").expect("in order");
        assert_eq!((plain.name.as_str(), plain.pace.first()), ("wan0", Rate::from_bps(18_000_000)));
        assert_eq!((plain.how, plain.framing), (How::Auto, Framing::default()));
        let full = "interface = \"wan0\"\nrate = \"1 Mbit/s\"\noverhead = 40\ncells = \"atm\"\nhow = \"fq_codel\"";
        let full = one(full).expect("in order");
        assert_eq!(full.framing, Framing { overhead: 40, least: 0, cells: Cells::Atm });
        assert_eq!(full.how.word(), "fq_codel");
    }

    #[test]
    fn an_automatic_rate_needs_bounds_and_a_reflector() {
        let auto = "interface = \"lte0\"\nrate = \"auto\"\nrate_min = \"2 Mbit/s\"\nrate_max = \"42 Mbit/s\"\n";
        let whole = one(&format!("{auto}reflector = \"192.0.2.1\"\ndirection = \"down\"")).expect("in order");
        let Pace::Auto { terms, reflector, way } = whole.pace else { panic!("{whole:?}") };
        assert_eq!((terms.middle, way), (Rate::from_bps(12_000_000), DelayDirection::Down));
        assert_eq!(reflector, Target::Icmp([192, 0, 2, 1].into()));
        for (text, why) in [
            (auto.to_owned(), "reflector"),
            (format!("{auto}reflector = \"example.org\""), "IPv4"),
            (format!("{auto}reflector = \"192.0.2.1:0\""), "nor ADDRESS:PORT"),
            (format!("{auto}reflector = \"192.0.2.1\"\nrate_idle = \"1 Mbit/s\""), "rate_idle"),
            (format!("{auto}reflector = \"192.0.2.1\"\nrise = \"1 ms\""), "rise"),
            (auto.replace("42 Mbit/s", "1 Mbit/s") + "reflector = \"192.0.2.1\"", "rate_min: must be at most rate_max"),
            ("interface = \"a\"\nrate = \"auto\"".into(), "rate_min"),
            ("interface = \"a\"\nrate = \"1 Mbit/s\"\nreflector = \"192.0.2.1\"".into(), "fixed"),
            ("interface = \"a\"\nrate = \"1 kbit/s\"".into(), "8 kbit/s"),
            ("interface = \"a b\"\nrate = \"1 Mbit/s\"".into(), "interface"),
            ("interface = \"a\"\nrate = \"1 Mbit/s\"\noverhead = 300".into(), "overhead"),
        ] {
            let said = one(&text).expect_err(&text);
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    #[test]
    fn tables_are_few_and_of_different_interfaces() {
        let table = |n: usize| format!("[[shaper]]\ninterface = \"eth{n}\"\nrate = \"1 Mbit/s\"\n");
        let parse = |text: &str| parse(text, "x").map_err(|e| e.to_string());
        assert_eq!(parse(&(0..4).map(table).collect::<String>()).map(|all| all.len()), Ok(4));
        assert!(parse(&(0..5).map(table).collect::<String>()).is_err());
        assert!(parse(&(table(0) + &table(0))).expect_err("twice").contains("twice"));
        assert!(parse(&(table(0) + "[gateway]\nname = \"x\"\n")).expect_err("both").contains("[gateway]"));
        let below = parse(&(table(0) + "log = \"debug\"\n")).expect_err("below a table");
        assert!(
            below.starts_with("x, line 4: `log` is the whole file's: write it above the first [[shaper]]"),
            "{below}"
        );
        assert!(is_shaper(&table(0)) && !is_shaper("[gateway]\nname = \"x\"\n"));
    }
}
