//! Arbitrary text as a scenario: accepted, or refused in one line; what is accepted reads back as itself.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use wavelane_scenario::Scenario;

fuzz_target!(|text: &str| {
    match Scenario::parse(text, Path::new("/nonexistent")) {
        Ok(scenario) => {
            let again = Scenario::parse(&scenario.to_toml(), Path::new("/nonexistent"));
            assert_eq!(again.map(|s| s.to_toml()).ok(), Some(scenario.to_toml()));
        }
        Err(why) => assert!(!why.to_string().contains('\n'), "a refusal is one line: {why}"),
    }
});
