//! `wavelane init --proxy`.

use super::{CommandError, InitArgs, Initialised, NAME_MAX, flags, is_name, unwritable};
use crate::proxy;
use std::fmt::Write as _;
use std::io::Write as _;

/// Writes the file of a proxy, which needs no key.
pub(super) fn init(args: &InitArgs) -> Result<Initialised, CommandError> {
    if !is_name(&args.name) {
        let name = wavelane_base::text::line(&args.name, NAME_MAX).into_owned();
        return Err(CommandError::Name { flag: "name", name });
    }
    if args.interfaces.is_empty() {
        return Err(CommandError::ProxyOfNothing);
    }
    let quote = |text: &str| toml::Value::String(text.into()).to_string();
    let list = |all: &[String]| all.iter().map(|one| quote(one)).collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "# A split proxy: TCP that arrives here is ended and goes on as another connection.\n[proxy]\nname = {}\ninterfaces = [{}]\n",
        quote(&args.name),
        list(&args.interfaces)
    );
    if args.routes.is_empty() {
        text += "# targets = [\"10.3.0.0/24\"]      # only connections to these; without it, to every address\n";
    } else {
        let _ = writeln!(text, "targets = [{}]", list(&args.routes));
    }
    text += "# exempt = [\"port 22\", \"dscp 46\"] # what goes on plainly; networks too\n";
    let _ = writeln!(text, "on_failure = {}", quote(&args.on_failure));
    if let Some(control) = &args.control {
        let _ = writeln!(text, "control = {}", quote(&control.display().to_string()));
    }
    text += "\n# What one side does otherwise, such as that of the radio:\n# [[proxy.side]]\n# name = \"air\"\n# networks = [\"10.9.0.0/24\"]\n# congestion = \"bbr\"\n";
    proxy::parse_text(&text).map_err(|why| flags::named(why, args))?;
    let config = args.dir.join("wavelaned.toml");
    std::fs::create_dir_all(&args.dir).map_err(unwritable(&args.dir))?;
    let mut file = std::fs::File::create_new(&config).map_err(unwritable(&config))?;
    file.write_all(text.as_bytes()).map_err(unwritable(&config))?;
    Ok(Initialised { config, ..Initialised::default() })
}
