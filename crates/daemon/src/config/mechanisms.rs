//! What `check` says of block switching's mechanisms.

use super::Config;
use wavelane_settings::{File, GATEWAY, GatewayKnobs, Preset};

impl Config {
    /// What is set of the usual way of sending, in one line, as the file has it.
    pub(crate) fn mechanisms_text(&self) -> Option<String> {
        let usual = GatewayKnobs {
            pool: None,
            flows_max: None,
            idle: None,
            seal: None,
            cache: None,
            compress_headers: None,
            mtu_max: None,
            ..self.knobs.clone()
        };
        let default = |key: &str| GATEWAY.in_file(File::Daemon).find(|knob| knob.key(File::Daemon) == key);
        let is_usual = |key: &str, value: &str| {
            let written = default(key).and_then(|knob| knob.default.split(';').next());
            written.is_some_and(|written| written.trim_matches('`') == value.trim_matches('"'))
        };
        let turned = GATEWAY.turned(File::Daemon, &usual).into_iter();
        let turned = turned.filter(|(key, value)| !is_usual(key, value) || usual.preset.is_some());
        let turned: Vec<String> = turned.map(|(key, value)| format!("{key} = {value}")).collect();
        (!turned.is_empty()).then(|| format!("experimental: {}", turned.join(", ")))
    }

    /// What may not be meant.
    pub(crate) fn mechanisms_notes(&self) -> Option<String> {
        let of = &self.knobs;
        if of.preset == Some(Preset::Hop2009) && of.withhold.is_none() {
            return Some(
                "preset \"hop-2009\" withholds on radios alone, and no lane here is one: gateway.withhold = 1 has senders wait on UDP and Ethernet too".into(),
            );
        }
        let withholds = of.withhold.is_some_and(|most| most > 0);
        withholds.then(|| {
            "gateway.withhold: set it at the peers, too; one that does not withhold asks for no turn, and its large transfers get a sixteenth of this side's rate".into()
        })
    }
}
