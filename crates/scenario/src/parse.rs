//! Parses the file's text into a [`Scenario`].

use crate::factor::parse_factor;
use crate::model::{App, Bound, Check, Flow, Metric, Node, Routing, Scenario, Side, Stack};
use crate::parse_apps;
use crate::parse_channel;
use crate::parse_edca::CATEGORIES;
use crate::parse_trace::Base;
use crate::settings::{self, Setting};
use crate::sweep::Sweep;
use crate::validate;
use crate::words::{CONTROLS, METRICS, NODE_KINDS, ROUTINGS, STACKS};
use crate::{Lines, Table, Value, word};
use crate::{Problem, ScenarioError};
use std::path::Path;
use toml::de::DeTable;
use wavelane_base::text::ShownPath;
use wavelane_base::{Octets, Rate, Seed, Span};
use wavelane_base::{Quantity, UnitError};

/// Largest scenario file.
const FILE_MAX: u64 = 4 << 20;

/// Default interval between echo probes (design of the latency figures: 64 B every 100 ms).
const ECHO_EVERY: Span = Span::from_millis(100);
/// Default size of an echo probe.
const ECHO_SIZE: Octets = Octets::new(64);
/// Default interval of ping's requests, and their data (as in the program of that name).
const PING_EVERY: Span = Span::from_secs(1);
const PING_SIZE: Octets = Octets::new(56);
/// Default size of a datagram: it fills an Ethernet frame.
const DATAGRAM_SIZE: Octets = Octets::new(1472);
/// Maximum number of datagrams of a fixed window.
const WINDOW_MAX: u32 = 4096;

const TOP: &[&str] = &[
    "title", "seed", "duration", "stacks", "nodes", "channels", "flows", "timeline", "checks", "tcp", "routing",
    "sweep", "gateways", "links", "routes", "mobility",
];

/// Keys that distinguish a scenario from a gateway's configuration.
const SCENARIO_ONLY: &[&str] = &["nodes", "channels", "flows", "stacks", "checks", "timeline", "duration"];

/// Whether the text looks like a scenario: it has a top-level key that only scenarios have. `None` if it is not TOML.
pub fn is_scenario(text: &str) -> Option<bool> {
    let table = DeTable::parse(text).ok()?;
    Some(table.get_ref().keys().any(|k| SCENARIO_ONLY.contains(&k.get_ref().as_ref())))
}

/// The line, from 1, of a review's clause such as `flows.page` in a scenario's text: the line of its deepest existing key. `None` if not
/// even the first key exists, or the text is not TOML.
pub fn line_of_clause(text: &str, clause: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = Some(document.get_ref());
    let mut line = None;
    let lines = Lines::of(text);
    for word in clause.split('.') {
        let Some((key, value)) = table.and_then(|t| t.iter().find(|(key, _)| key.get_ref().as_ref() == word)) else {
            break;
        };
        line = Some(lines.at(key.span().start));
        table = value.get_ref().as_table();
    }
    line
}

/// Where the traffic of a scenario comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Traffic {
    /// From its flows: it has at least one.
    OfFlows,
    /// Or from a program, as in the Record of `wavelane over`.
    Any,
}

impl Scenario {
    /// Reads and validates a file. Files it names (loss traces) are looked up relative to it.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        Self::load_with(path, &[])
    }

    /// Reads and validates a file, then replaces some of its values by `settings`.
    pub fn load_with(path: &Path, settings: &[Setting]) -> Result<Self, ScenarioError> {
        let named = |mut error: ScenarioError| {
            error.file = Some(path.display().to_string());
            error
        };
        let text = read_scenario(path)?;
        let base = path.parent().unwrap_or(Path::new("."));
        let plain = Self::parse(&text, base).map_err(named)?;
        if settings.is_empty() {
            return Ok(plain);
        }
        // Line numbers refer to the file, which does not contain the values.
        Self::parse_with(&text, base, settings).map_err(|error| ScenarioError {
            file: Some(format!("{} with --set", path.shown())),
            line: None,
            ..error
        })
    }

    /// Reads the `scenario.toml` of a record, which must be a regular file.
    pub fn load_recorded(record: &Path) -> Result<Self, ScenarioError> {
        let path = record.join("scenario.toml");
        let named = |error: ScenarioError| ScenarioError { file: Some(path.display().to_string()), ..error };
        let text = read_regular(&path, FILE_MAX).map_err(|why| ScenarioError {
            file: None,
            line: None,
            problem: Box::new(Problem::Unreadable(why)),
        });
        text.and_then(|text| Self::parse_text(&text, record, &[], Traffic::Any)).map_err(named)
    }

    /// Reads and validates a text. `base` is the folder in which files it names are looked up.
    pub fn parse(text: &str, base: &Path) -> Result<Self, ScenarioError> {
        Self::parse_with(text, base, &[])
    }

    /// Reads and validates a text, with some of its values replaced by `settings`.
    pub fn parse_with(text: &str, base: &Path, settings: &[Setting]) -> Result<Self, ScenarioError> {
        Self::parse_text(text, base, settings, Traffic::OfFlows)
    }

    fn parse_text(text: &str, base: &Path, settings: &[Setting], traffic: Traffic) -> Result<Self, ScenarioError> {
        let lines = Lines::of(text);
        let mut document = DeTable::parse(text).map_err(|e| {
            let line = e.span().map_or(1, |s| lines.at(s.start));
            Problem::Syntax(e.message().lines().next().unwrap_or_default().to_owned()).at(line)
        })?;
        settings::refuse_twice(settings).map_err(|problem| problem.at(1))?;
        let mut made = settings::Made::new(text.len());
        for setting in settings {
            settings::apply(document.get_mut(), TOP, setting, &mut made).map_err(|problem| problem.at(1))?;
        }
        Self::of_document(&Table::root(&lines, document.get_ref()), base, traffic).map_err(|error| made.explain(error))
    }

    /// Reads and validates a document.
    fn of_document(root: &Table<'_>, base: &Path, traffic: Traffic) -> Result<Self, ScenarioError> {
        root.only(TOP)?;
        // Its keys are those of other tables; `Sweep` parses them.
        Sweep::parse_in(root)?;
        let stacks = stacks(root)?;
        let duration_at = root.need("duration", "\"45 s\"")?;
        let mut scenario = Self {
            title: root.get("title").map(|v| v.str("a text", "\"A bad link\"")).transpose()?.unwrap_or_default().into(),
            seed: Seed(root.get("seed").map(|v| v.whole()).transpose()?.unwrap_or(1)),
            duration: duration_at.quantity()?,
            stacks,
            nodes: nodes(root)?,
            channels: Vec::new(),
            flows: Vec::new(),
            timeline: Vec::new(),
            checks: Vec::new(),
            gateways: Vec::new(),
            links: Vec::new(),
            routes: Vec::new(),
            moves: Vec::new(),
            routing: match root.get("routing") {
                Some(value) => word(&value, "routing", ROUTINGS, "\"etx\"")?,
                None => Routing::default(),
            },
            tcp: root.get("tcp").map(|v| crate::parse_tcp::knobs(&v)).transpose()?.unwrap_or_default(),
        };
        validate::duration(scenario.duration, &duration_at)?;
        for (name, value) in sections(root, "gateways")? {
            let settings = crate::parse_gateway::settings(&scenario.nodes, &name, &value)?;
            scenario.gateways.push(settings);
        }
        let base = &Base::new(base);
        for (name, value) in sections(root, "channels")? {
            let channel = parse_channel::channel(&name, &value, base)?;
            validate::channel(&scenario, &channel, &value)?;
            scenario.channels.push(channel);
        }
        for (name, value) in sections(root, "mobility")? {
            let of = crate::parse_mobility::of(&scenario, &name, &value)?;
            scenario.moves.push(of);
        }
        validate::answers(&scenario, &sections(root, "channels")?)?;
        for (name, value) in sections(root, "links")? {
            let link = crate::parse_link::knobs(&scenario, &name, &value)?;
            scenario.links.push(link);
        }
        if let Some(value) = root.get("routes") {
            scenario.routes = crate::parse_route::routes(&scenario, &value)?;
        }
        for (name, value) in sections(root, "flows")? {
            let flow = flow(&name, &value)?;
            validate::flow(&scenario, &flow, &value)?;
            scenario.flows.push(flow);
        }
        validate::echoes(&mut scenario, &sections(root, "flows")?)?;
        if scenario.flows.is_empty() && traffic == Traffic::OfFlows {
            let key = "[flows.NAME]".into();
            return Err(Problem::Missing { table: root.title(), key, example: "{ app, from, to }" }.at(1));
        }
        if let Some(list) = root.get("timeline") {
            for value in list.list("a list of tables", "[[timeline]]")? {
                let change = parse_channel::change(&scenario, &value, base)?;
                validate::change(&mut scenario, change, &value)?;
            }
            scenario.timeline.sort_by_key(|c| c.at);
        }
        for (name, value) in sections(root, "checks")? {
            let check = check(&scenario, &name, &value)?;
            scenario.checks.push(check);
        }
        Ok(scenario)
    }
}

/// The text of a scenario's file.
pub(crate) fn read_scenario(path: &Path) -> Result<String, ScenarioError> {
    read_bounded(path, FILE_MAX).map_err(|why| ScenarioError {
        file: Some(path.display().to_string()),
        line: None,
        problem: Box::new(Problem::Unreadable(why)),
    })
}

/// Reads a text file of at most `most` bytes. The error gives cause and remedy.
pub fn read_bounded(path: &Path, most: u64) -> Result<String, String> {
    use std::io::Read;
    let unreadable = |e: std::io::Error| format!("{e}; check the path and its permissions");
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {}; name a smaller file", Octets::new(most).write()));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text; check the path".into())
}

/// The same for a file written by a run, which must be a regular file: opening a pipe would block until it has a writer.
pub fn read_regular(path: &Path, most: u64) -> Result<String, String> {
    let found = std::fs::metadata(path).map_err(|e| format!("{e}; check the path and its permissions"))?;
    if !found.is_file() {
        return Err("it is no regular file".into());
    }
    read_bounded(path, most)
}

/// The named tables under `key`, in file order; empty if it is absent.
fn sections<'a>(root: &Table<'a>, key: &'static str) -> Result<Vec<(String, Value<'a>)>, ScenarioError> {
    let Some(value) = root.get(key) else { return Ok(Vec::new()) };
    let entries = value.table(&format!("[{key}.NAME]"))?.entries();
    for (name, value) in &entries {
        validate::name(name, value)?;
    }
    Ok(entries)
}

fn stacks(root: &Table<'_>) -> Result<Vec<Stack>, ScenarioError> {
    let value = root.need("stacks", "[\"tcp-cubic\", \"wavelane\"]")?;
    let mut stacks = Vec::new();
    for item in value.list("a list of stacks", "[\"tcp-cubic\", \"wavelane\"]")? {
        let stack = word(&item, "stack", &STACKS, "\"wavelane\"")?;
        if stacks.contains(&stack) {
            return Err(item.impossible(format!("stack '{stack}' is listed twice: name each once")));
        }
        stacks.push(stack);
    }
    if stacks.is_empty() {
        return Err(value.impossible("no stack to run: list at least one, such as stacks = [\"wavelane\"]"));
    }
    Ok(stacks)
}

fn nodes(root: &Table<'_>) -> Result<Vec<Node>, ScenarioError> {
    let value = root.need("nodes", "{ client = \"endpoint\", a = \"gateway\" }")?;
    let mut nodes = Vec::new();
    for (name, value) in value.table("[nodes]")?.entries() {
        validate::name(&name, &value)?;
        nodes.push(Node { name, kind: word(&value, "kind of node", NODE_KINDS, "\"gateway\"")? });
    }
    validate::nodes(&nodes, &value)?;
    Ok(nodes)
}

fn flow(name: &str, value: &Value<'_>) -> Result<Flow, ScenarioError> {
    // Keys of every application; each also has its own.
    const COMMON: &[&str] = &["app", "from", "to", "start", "stop", "category", "no-ack"];
    let table = value.table("[flows.page]")?;
    let kind = word(&table.need("app", "\"download\"")?, "application", crate::words::APPS, "\"download\"")?;
    let modelled = parse_apps::keys(kind);
    let own: &[&str] = match kind {
        _ if modelled.is_some() => modelled.unwrap_or_default(),
        "echo" => &["every", "size", "while", "control"],
        "fetch" => &["every", "size", "control"],
        "cbr" | "ping" => &["every", "size"],
        "window" => &["size", "packets"],
        "saturate" => &["size"],
        _ => &["size", "rate", "control"],
    };
    table.only(&[own, COMMON].concat())?;
    let text = |key, example| table.need(key, example)?.str("a node's name", example).map(str::to_owned);
    let start = table.quantity("start")?.unwrap_or(Span::ZERO);
    let size: Option<Octets> = table.quantity("size")?;
    if let Some(rate) = table.get("rate").filter(|_| modelled.is_none()) {
        let _: Rate = rate.quantity()?;
        return Err(rate.impossible(match size {
            Some(_) => format!("[{}] has both size and rate: keep size, it ends when all bytes arrived", value.path),
            None => format!("[{}]: {kind} takes a size, or neither for a fixed-time flow; remove rate", value.path),
        }));
    }
    let app = match kind {
        _ if modelled.is_some() => parse_apps::app(kind, &table)?,
        "download" => App::Download { size },
        "upload" => App::Upload { size },
        "quic" => App::Quic { size },
        "cbr" => App::Cbr { every: table.need("every", "\"20 ms\"")?.quantity()?, size: size.unwrap_or(DATAGRAM_SIZE) },
        "saturate" => App::Saturate { size: size.unwrap_or(DATAGRAM_SIZE) },
        "window" => {
            let packets = table.need("packets", "5")?;
            let count = u32::try_from(packets.whole()?).ok().filter(|n| (1..=WINDOW_MAX).contains(n));
            let why = || packets.impossible(format!("{} lies between 1 and {WINDOW_MAX}", packets.path));
            App::Window { size: size.unwrap_or(DATAGRAM_SIZE), packets: count.ok_or_else(why)? }
        }
        "ping" => App::Ping { every: table.quantity("every")?.unwrap_or(PING_EVERY), size: size.unwrap_or(PING_SIZE) },
        "fetch" => App::Fetch {
            every: table.need("every", "\"200 ms\"")?.quantity()?,
            size: table.need("size", "\"10 kB\"")?.quantity()?,
        },
        _ => App::Echo {
            every: table.quantity("every")?.unwrap_or(ECHO_EVERY),
            size: size.unwrap_or(ECHO_SIZE),
            during: table.get("while").map(|v| v.str("a bulk flow's name", "\"page\"")).transpose()?.map(str::to_owned),
        },
    };
    Ok(Flow {
        name: name.to_owned(),
        app,
        from: text("from", "\"client\"")?,
        to: text("to", "\"server\"")?,
        start,
        stop: table.quantity("stop")?,
        control: table.get("control").map(|v| word(&v, "congestion control", CONTROLS, "\"cubic\"")).transpose()?,
        category: table.get("category").map(|v| word(&v, "access category", CATEGORIES, "\"voice\"")).transpose()?,
        no_ack: table.get("no-ack").map(|v| v.bool()).transpose()?.unwrap_or(false),
    })
}

fn check(scenario: &Scenario, name: &str, value: &Value<'_>) -> Result<Check, ScenarioError> {
    const KEYS: &[&str] = &["flow", "stack", "metric", "at-least", "at-most", "than", "times", "if-goodput-at-least"];
    let table = value.table("[checks.fast]")?;
    table.only(KEYS)?;
    let metric = word(&table.need("metric", "\"goodput_bps\"")?, "metric", METRICS, "\"goodput_bps\"")?;
    let flow_value = table.need("flow", "\"page\"")?;
    let flow = flow_value.str("a flow's name", "\"page\"")?.to_owned();
    validate::metric(scenario, &flow, metric, &flow_value)?;
    let stack = judged_stack(scenario, &table, value)?;
    let (side, limit) = match (table.get("at-least"), table.get("at-most")) {
        (Some(limit), None) => (Side::AtLeast, limit),
        (None, Some(limit)) => (Side::AtMost, limit),
        _ => {
            return Err(value.impossible(format!("[{}] needs either at-least or at-most, and not both", value.path)));
        }
    };
    let bound = match table.get("than") {
        Some(than) => relative(scenario, &table, &than, &limit, stack)?,
        None => {
            for key in ["times", "if-goodput-at-least"] {
                if let Some(extra) = table.get(key) {
                    return Err(extra.impossible(format!("{key} needs than = \"STACK\" beside it, or remove it")));
                }
            }
            Bound::Value(absolute(metric, &limit)?)
        }
    };
    Ok(Check { name: name.to_owned(), stack, flow, metric, side, bound })
}

/// The stack that a check refers to: the one it names, else `wavelane`, else the only one.
fn judged_stack(scenario: &Scenario, table: &Table<'_>, value: &Value<'_>) -> Result<Stack, ScenarioError> {
    match table.get("stack") {
        Some(named) => {
            let stack = word(&named, "stack", &STACKS, "\"wavelane\"")?;
            validate::listed(scenario, stack, &named)?;
            Ok(stack)
        }
        None if scenario.stacks.contains(&Stack::WAVELANE) => Ok(Stack::WAVELANE),
        None => match scenario.stacks.as_slice() {
            [only] => Ok(*only),
            _ => Err(value.impossible(format!("[{}] must say which stack it judges: add stack = \"...\"", value.path))),
        },
    }
}

/// `at-least = true, than = "tcp-bbr", times = "1.2"`.
fn relative(
    scenario: &Scenario,
    table: &Table<'_>,
    than: &Value<'_>,
    limit: &Value<'_>,
    judged: Stack,
) -> Result<Bound, ScenarioError> {
    if !limit.bool()? {
        return Err(limit.impossible(format!("{} = false says nothing: with than, write true", limit.path)));
    }
    let stacks: Vec<Stack> = if than.as_str() == Some("tcp-*") {
        scenario.stacks.iter().copied().filter(|s| s.is_plain_tcp() && *s != judged).collect()
    } else {
        let stack = word(than, "stack", &STACKS, "\"tcp-bbr\"")?;
        validate::listed(scenario, stack, than)?;
        if stack == judged {
            return Err(than.impossible(format!("'{stack}' cannot be compared with itself: name another stack")));
        }
        vec![stack]
    };
    if stacks.is_empty() {
        return Err(than.impossible("no tcp-* stack is listed in stacks: add one or compare with another stack"));
    }
    let factor = |key| table.get(key).map(|v| read_factor(&v)).transpose();
    let times = factor("times")?.unwrap_or(1.0);
    Ok(Bound::Than { stacks, times, if_goodput_at_least: factor("if-goodput-at-least")? })
}

fn read_factor(value: &Value<'_>) -> Result<f64, ScenarioError> {
    let text = value.str("a factor", "\"1.2\"")?;
    parse_factor(text).map_err(|error| Problem::Unit { key: value.path.clone(), error }.at(value.line))
}

/// A bound in the metric's own unit.
fn absolute(metric: Metric, limit: &Value<'_>) -> Result<f64, ScenarioError> {
    Ok(match metric {
        Metric::GoodputBps => limit.quantity::<Rate>()?.as_bps() as f64,
        Metric::DurationMs | Metric::RttP50Ms | Metric::RttP95Ms | Metric::RttP99Ms | Metric::AgeP95Ms => {
            limit.quantity::<Span>()?.as_nanos() as f64 / 1e6
        }
        Metric::Bytes => limit.quantity::<Octets>()?.get() as f64,
        Metric::Completed | Metric::Intact => f64::from(u8::from(limit.bool()?)),
        Metric::Lost | Metric::WireBytesPerDeliveredByte | Metric::RepairShare => {
            let text = limit.str("a number as text", "\"1.2\"")?;
            let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            text.parse().ok().filter(|_| plain).ok_or_else(|| {
                let error =
                    UnitError { text: text.into(), expected: "a number from 0", example: "1.2", detail: String::new() };
                Problem::Unit { key: limit.path.clone(), error }.at(limit.line)
            })?
        }
    })
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
