#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::*;
use std::path::Path;

fn scenario(flows: &str) -> Scenario {
    let text = format!(
        r#"
title = "t"
duration = "1 s"
stacks = ["kcptun"]
nodes = {{ c = "endpoint", a = "gateway", b = "gateway", s = "endpoint" }}
[channels.lan]
preset = "ethernet"
between = ["c", "a"]
[channels.air]
preset = "ethernet"
between = ["b", "a"]
[channels.far]
preset = "ethernet"
between = ["b", "s"]
{flows}"#
    );
    Scenario::parse(&text, Path::new(".")).unwrap()
}

#[test]
fn the_near_gateway_is_the_one_the_client_meets() {
    let scenario = scenario(
        r#"
[flows.there]
app = "download"
from = "c"
to = "s"
[flows.back]
app = "upload"
from = "s"
to = "c"
[flows.beside]
app = "echo"
from = "c"
to = "a"
[flows.inner]
app = "echo"
from = "a"
to = "b"
"#,
    );
    let pair = [1, 2];
    let order = |name: &str| order_of(&scenario, pair, scenario.flow(name).unwrap());
    assert_eq!(order("there"), Some([1, 2]));
    assert_eq!(order("back"), Some([2, 1]));
    assert_eq!(order("beside"), None, "it meets one gateway only");
    assert_eq!(order("inner"), Some([1, 2]));
}

#[test]
fn a_missing_program_is_named_with_its_remedy() {
    let why = installed(&[("sh", "no"), ("no-such-program-here", "install it so")]).unwrap_err();
    assert_eq!(why, "the program no-such-program-here is missing: install it so");
    assert_eq!(installed(&[("sh", "no")]), Ok(()));
}
