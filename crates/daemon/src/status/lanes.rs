//! A lane's line.

use super::LaneReport;
use std::fmt;

/// What distinguishes a lane, in words: its medium, its direction if it is one-way, and what is not usual of `metered`, `bulk` and `small`.
pub(crate) fn kinds(medium: &str, direction: &str, metered: Option<&str>, [bulk, small]: [bool; 2]) -> String {
    let both = direction == "both" || direction.is_empty();
    let words = [
        (!medium.is_empty(), medium),
        (!both, direction),
        (metered.is_some(), metered.unwrap_or_default()),
        (!bulk, "no bulk"),
        (!small, "nothing small"),
    ];
    words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect::<Vec<_>>().join(", ")
}

impl LaneReport {
    pub(super) fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_out = self.direction != "in";
        let metered = self.metered.then_some(if self.metered_there { "metered there" } else { "metered" });
        let kinds = kinds(&self.medium, &self.direction, metered, [self.bulk, self.small]);
        let radio = self.radio.as_ref().map(|words| format!(", {words}")).unwrap_or_default();
        write!(f, "  {} by {}", self.name, self.by)?;
        match (&self.address, &self.configured_address) {
            // A line has one other end.
            _ if !is_out || self.medium == "serial" => {}
            (Some(found), Some(name)) if name != found => write!(f, " to {name} ({found})")?,
            (Some(to), _) | (None, Some(to)) => write!(f, " to {to}")?,
            (None, None) => write!(f, " to an address unknown")?,
        }
        write!(f, " ({kinds}{radio}): ")?;
        match &self.unused {
            None => write!(f, "in use")?,
            Some(why) if why.starts_with("in reserve") => write!(f, "{why}")?,
            Some(why) => write!(f, "not used: {why}")?,
        }
        let ms = |v: Option<f64>| v.map_or("-".to_string(), |v| format!("{v:.1} ms"));
        if is_out {
            let rate = self.rate_bps.map_or("-".to_string(), |r| format!("{:.2} Mbit/s", r as f64 / 1e6));
            let loss = self.loss * 100.0;
            let mtu = self.path_mtu.map_or("-".to_string(), |mtu| mtu.to_string());
            let rtt = ms(self.rtt_ms);
            write!(f, "; {}; send rate {rate}, round trip {rtt}, loss {loss:.2} %, path MTU {mtu}", self.traffic)?;
        } else {
            write!(f, "; {}; heard {} ago", self.traffic, ms(self.silence_ms))?;
        }
        writeln!(f)?;
        self.path_mtu_cause.iter().try_for_each(|cause| writeln!(f, "    {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Peer, Report};
    use super::*;

    #[test]
    fn a_lane_has_a_line_with_all_that_distinguishes_it() {
        let lane = |change: fn(&mut LaneReport)| {
            let (name, by, address) = ("lane 2".to_owned(), "wwan0".to_owned(), Some("192.0.2.7:4780".to_owned()));
            let mut lane = LaneReport { name, by, address, bulk: true, small: true, ..LaneReport::default() };
            lane.direction = "both".into();
            lane.medium = "udp".into();
            change(&mut lane);
            Report { peers: vec![Peer { lanes: vec![lane], ..Peer::default() }], ..Report::default() }.to_string()
        };
        let plain = lane(|lane| lane.path_mtu = Some(1_400));
        assert!(
            plain.contains(
                "  lane 2 by wwan0 to 192.0.2.7:4780 (udp): in use; received 0.00 MB, sent 0.00 MB; send rate -"
            ),
            "{plain}"
        );
        assert!(plain.contains("path MTU 1400"), "{plain}");
        let all = lane(|lane| {
            lane.direction = "out".into();
            lane.metered = true;
            lane.bulk = false;
            lane.configured_address = Some("shore.example:4780".into());
            lane.unused = Some("device wwan0 is not there".into());
        });
        assert!(
            all.contains("to shore.example:4780 (192.0.2.7:4780) (udp, out, metered, no bulk): not used: device wwan0"),
            "{all}"
        );
        let radio = lane(|lane| lane.radio = Some("radio paced at 54 Mbit/s".into()));
        assert!(radio.contains(" (udp, radio paced at 54 Mbit/s): in use"), "{radio}");
        let small = lane(|lane| lane.path_mtu_cause = Some("packets of 1200 bytes are lost".into()));
        assert!(small.contains("path MTU -\n    packets of 1200 bytes are lost\n"), "{small}");
        let brings = lane(|lane| (lane.direction, lane.silence_ms) = ("in".into(), Some(3.0)));
        assert!(
            brings.contains("  lane 2 by wwan0 (udp, in): in use; received 0.00 MB, sent 0.00 MB; heard 3.0 ms ago\n"),
            "{brings}"
        );
        let two = |lanes| Peer {
            preferred_lane: Some("lane 2".into()),
            lanes: vec![LaneReport::default(); lanes],
            ..Peer::default()
        };
        let report = |lanes| Report { peers: vec![two(lanes)], ..Report::default() }.to_string();
        assert!(report(2).contains("  by lane 2: send rate") && report(1).contains("\n  send rate"), "{}", report(2));
    }
}
