//! A resolved scenario as TOML, for the Record: everything explicit, no references to other files.

use crate::model::{App, Bound, ChannelKind, Check, Direction, Flow, Metric, Routing, Scenario, Side};
use crate::parse_edca::category_word;
use core::fmt::Write;
use wavelane_base::{Instant, Octets, Ratio, Span};
use wavelane_channel::{DirectionConfig, LossConfig, LossTrace, Parameter, PerUnit, Policer, Queueing, Reorder};

pub(crate) use wavelane_settings::{text, unit};

impl Scenario {
    /// Writes the scenario as TOML that parses to the same scenario, in any folder.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line(format!("title = {}", text(&self.title)));
        line(format!("seed = {}", self.seed.0));
        line(format!("duration = {}", unit(&self.duration)));
        let stacks: Vec<String> = self.stacks.iter().map(|s| text(s.word())).collect();
        line(format!("stacks = [{}]", stacks.join(", ")));
        if self.routing != Routing::default() {
            line(format!("routing = {}", text(self.routing.word())));
        }
        crate::parse_tcp::write(&self.tcp).lines().for_each(|l| line(l.to_owned()));
        line("\n[nodes]".into());
        for node in &self.nodes {
            line(format!("{} = {}", node.name, text(node.kind.word())));
        }
        for settings in &self.gateways {
            crate::parse_gateway::write(settings).lines().for_each(|l| line(l.to_owned()));
        }
        for channel in &self.channels {
            let cable = match &channel.kind {
                ChannelKind::Cable(cable) => cable,
                ChannelKind::Wifi(cell) => {
                    crate::write_wifi::channel(channel, cell).lines().for_each(|l| line(l.to_owned()));
                    continue;
                }
                ChannelKind::Bluetooth(config) => {
                    crate::parse_pair::write_bluetooth(channel, config).lines().for_each(|l| line(l.to_owned()));
                    continue;
                }
                ChannelKind::Cellular(config) => {
                    crate::parse_pair::write_cellular(channel, config).lines().for_each(|l| line(l.to_owned()));
                    continue;
                }
                ChannelKind::Serial(serial) => {
                    crate::parse_serial::write(channel, serial).lines().for_each(|l| line(l.to_owned()));
                    continue;
                }
            };
            line(format!("\n[channels.{}]\nkind = \"cable\"", channel.name));
            line(format!("between = [{}, {}]", text(&channel.between[0]), text(&channel.between[1])));
            line(format!("forward = {}", direction(&cable.forward)));
            line(match channel.one_way {
                true => "reverse = \"none\"".into(),
                false => format!("reverse = {}", direction(&cable.reverse)),
            });
        }
        for link in &self.links {
            crate::parse_link::write(link).lines().for_each(|l| line(l.to_owned()));
        }
        for of in &self.moves {
            crate::parse_mobility::write(of).lines().for_each(|l| line(l.to_owned()));
        }
        crate::parse_route::write(&self.routes).lines().for_each(|l| line(l.to_owned()));
        for flow in &self.flows {
            line(format!("\n[flows.{}]\n{}", flow.name, flow_body(flow)));
        }
        for change in &self.timeline {
            let way = if change.direction == Direction::Forward { "forward" } else { "reverse" };
            let (key, value) = parameter(&change.parameter);
            line(format!("\n[[timeline]]\nat = {}", unit(&change.at)));
            line(format!("set = {}\nto = {value}", text(&format!("{}.{way}.{key}", change.channel))));
        }
        for check in &self.checks {
            check_body(check).lines().for_each(|l| line(l.to_owned()));
        }
        out
    }
}

fn check_body(check: &Check) -> String {
    let side = if check.side == Side::AtLeast { "at-least" } else { "at-most" };
    let head = format!(
        "\n[checks.{}]\nflow = {}\nstack = {}\nmetric = {}\n",
        check.name,
        text(&check.flow),
        text(check.stack.word()),
        text(check.metric.word())
    );
    match &check.bound {
        Bound::Value(value) => format!("{head}{side} = {}", absolute(check.metric, *value)),
        Bound::Than { stacks, times, if_goodput_at_least } => {
            // `than` holds one stack or every other plain TCP stack of the list; nothing else can be written.
            let than = match stacks.as_slice() {
                [one] => one.word(),
                _ => "tcp-*",
            };
            let mut out = format!("{head}{side} = true\nthan = {}\ntimes = \"{times}\"", text(than));
            if let Some(share) = if_goodput_at_least {
                let _ = write!(out, "\nif-goodput-at-least = \"{share}\"");
            }
            out
        }
    }
}

fn absolute(metric: Metric, value: f64) -> String {
    match metric {
        Metric::GoodputBps => unit(&wavelane_base::Rate::from_bps(value as u64)),
        Metric::DurationMs | Metric::RttP50Ms | Metric::RttP95Ms | Metric::RttP99Ms | Metric::AgeP95Ms => {
            unit(&Span::from_secs_f64(value / 1e3))
        }
        Metric::Bytes => unit(&Octets::new(value as u64)),
        Metric::Completed | Metric::Intact => (value != 0.0).to_string(),
        Metric::Lost | Metric::WireBytesPerDeliveredByte | Metric::RepairShare => text(&value.to_string()),
    }
}

fn flow_body(flow: &Flow) -> String {
    let mut out = format!("app = \"{}\"\nfrom = {}\nto = {}", flow.app.word(), text(&flow.from), text(&flow.to));
    let mut key = |key: &str, value: String| {
        let _ = write!(out, "\n{key} = {value}");
    };
    match &flow.app {
        App::Download { size } | App::Upload { size } | App::Quic { size } => {
            if let Some(size) = size {
                key("size", unit(size));
            }
        }
        App::Echo { every, size, during } => {
            key("every", unit(every));
            key("size", unit(size));
            if let Some(bulk) = during {
                key("while", text(bulk));
            }
        }
        App::Cbr { every, size } | App::Ping { every, size } => {
            key("every", unit(every));
            key("size", unit(size));
        }
        App::Saturate { size } => key("size", unit(size)),
        App::Window { size, packets } => {
            key("size", unit(size));
            key("packets", packets.to_string());
        }
        App::Fetch { every, size } => {
            key("every", unit(every));
            key("size", unit(size));
        }
        App::Web(_) | App::Voice(_) | App::OnOff(_) | App::Telnet { .. } => {}
    }
    out += &crate::parse_apps::write(&flow.app);
    let mut key = |key: &str, value: String| {
        let _ = write!(out, "\n{key} = {value}");
    };
    if let Some(kind) = flow.control {
        key("control", text(kind.word()));
    }
    if let Some(category) = flow.category {
        key("category", text(category_word(category)));
    }
    if flow.no_ack {
        key("no-ack", "true".into());
    }
    key("start", unit(&flow.start));
    if let Some(stop) = &flow.stop {
        key("stop", unit(stop));
    }
    out
}

/// The inline table of one direction; parameters at their default are omitted.
fn direction(config: &DirectionConfig) -> String {
    let plain = DirectionConfig::default();
    let mut parts = Vec::new();
    let mut part = |differs: bool, p: Parameter| {
        if differs {
            let (key, value) = parameter(&p);
            parts.push(format!("{key} = {value}"));
        }
    };
    match &config.rate_trace {
        Some(trace) => part(true, Parameter::RateTrace(trace.clone())),
        None => part(config.rate.is_some(), Parameter::Rate(config.rate)),
    }
    match &config.delay_trace {
        Some(trace) => part(true, Parameter::DelayTrace(trace.clone())),
        None => part(config.delay != plain.delay, Parameter::Delay(config.delay)),
    }
    part(config.jitter != plain.jitter, Parameter::Jitter(config.jitter));
    part(config.keep_order != plain.keep_order, Parameter::KeepOrder(config.keep_order));
    let named = config.queue != plain.queue || config.queueing != plain.queueing;
    part(named, Parameter::Queueing(config.queue, config.queueing));
    part(config.loss != plain.loss, Parameter::Loss(config.loss.clone()));
    part(config.duplicate != plain.duplicate, Parameter::Duplicate(config.duplicate));
    part(config.reorder != plain.reorder, Parameter::Reorder(config.reorder));
    part(config.corrupt != plain.corrupt, Parameter::Corrupt(config.corrupt));
    part(config.outages != plain.outages, Parameter::Outages(config.outages.clone()));
    part(config.policer.is_some(), Parameter::Policer(config.policer));
    part(config.mtu.is_some(), Parameter::Mtu(config.mtu));
    format!("{{ {} }}", parts.join(", "))
}

/// Key and TOML value of one parameter.
fn parameter(parameter: &Parameter) -> (&'static str, String) {
    match parameter {
        Parameter::Rate(rate) => ("rate", rate.as_ref().map(unit).unwrap_or_default()),
        Parameter::RateTrace(trace) => ("rate", crate::parse_trace::write_rate(trace)),
        Parameter::Delay(delay) => ("delay", unit(delay)),
        Parameter::DelayTrace(trace) => ("delay", crate::parse_trace::write_delay(trace)),
        Parameter::Jitter(jitter) => ("jitter", unit(jitter)),
        Parameter::KeepOrder(keep) => ("keep-order", keep.to_string()),
        Parameter::Queue(limit) => ("queue", crate::parse_queue::write(*limit, Queueing::default())),
        Parameter::Queueing(limit, queueing) => ("queue", crate::parse_queue::write(*limit, *queueing)),
        Parameter::Loss(model) => ("loss", loss(model)),
        Parameter::Duplicate(p) => ("duplicate", unit(p)),
        Parameter::Reorder(Reorder { p, extra }) => {
            ("reorder", format!("{{ p = {}, extra = {} }}", unit(p), unit(extra)))
        }
        Parameter::Corrupt(p) => ("corrupt", unit(p)),
        Parameter::Outages(list) => ("outages", windows(list)),
        Parameter::Policer(policer) => ("policer", policer.as_ref().map(policer_table).unwrap_or_default()),
        Parameter::Mtu(mtu) => ("mtu", mtu.as_ref().map(unit).unwrap_or_default()),
    }
}

fn policer_table(policer: &Policer) -> String {
    format!("{{ rate = {}, burst = {} }}", unit(&policer.rate), unit(&policer.burst))
}

pub(crate) fn windows(list: &[(Instant, Instant)]) -> String {
    let one = |(start, stop): &(Instant, Instant)| {
        format!("{{ at = {}, for = {} }}", unit(&start.since(Instant::ZERO)), unit(&stop.since(*start)))
    };
    format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", "))
}

pub(crate) fn loss(model: &LossConfig) -> String {
    let ratio = |r: &Ratio| unit(r);
    match model {
        LossConfig::None => "{ kind = \"none\" }".into(),
        LossConfig::Random { p } => format!("{{ kind = \"random\", p = {} }}", ratio(p)),
        LossConfig::GilbertElliott { good, bad, in_good, in_bad, per } => format!(
            "{{ kind = \"gilbert-elliott\", good = {}, bad = {}, in_good = {}, in_bad = {}, per = \"{}\" }}",
            unit(good),
            unit(bad),
            ratio(in_good),
            ratio(in_bad),
            if *per == PerUnit::Bit { "bit" } else { "packet" }
        ),
        LossConfig::Trace(LossTrace::Intervals(list)) => {
            format!("{{ kind = \"trace\", intervals = {} }}", windows(list))
        }
        LossConfig::Trace(LossTrace::Frames(frames)) => {
            let list: Vec<String> = frames.iter().map(u64::to_string).collect();
            format!("{{ kind = \"trace\", frames = [{}] }}", list.join(", "))
        }
    }
}
