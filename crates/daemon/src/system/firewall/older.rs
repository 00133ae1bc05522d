//! The tables of the older iptables (`iptables-legacy`), which nft does not list: translated into its words by iptables itself.

use crate::system::family::Family;
use wavelane_base::Span;
use wavelane_host::nft::{ToolError, run};

/// They are read this often: nobody gives notice of their changes.
pub(crate) const READ_EVERY: Span = Span::from_secs(10);

/// What nft would print of them, and what keeps us from reading them.
pub(super) fn listing(family: Family) -> Result<String, String> {
    if !has_tables(family) {
        return Ok(String::new());
    }
    let [save, save_only, translate] = [
        ["iptables-legacy-save", "iptables-save", "iptables-restore-translate"],
        ["ip6tables-legacy-save", "ip6tables-save", "ip6tables-restore-translate"],
    ][family as usize];
    let saved = match run(save, &[], "") {
        // Where there is no other it has the plain name.
        Err(ToolError::Missing { .. }) => run(save_only, &[], ""),
        other => other,
    };
    let translated = saved.and_then(|rules| run(translate, &["-f", "/dev/stdin"], &rules));
    translated.map(|text| as_listed(&text)).map_err(|e| {
        format!("there are tables of the older iptables ({save}), and what their rules do is not known: {e}")
    })
}

/// Whether there are such tables.
pub(crate) fn has_tables(family: Family) -> bool {
    let path = ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"][family as usize];
    std::fs::read_to_string(path).is_ok_and(|names| !names.is_empty())
}

/// A chain's name and its rules.
type Chain = (String, Vec<String>);

/// Makes commands (`add rule ip filter INPUT ...`) what `nft list ruleset` prints. A rule without a translation is one that asks for what
/// is not known.
fn as_listed(commands: &str) -> String {
    // A table's chains with their rules, in order.
    let mut tables: Vec<(String, Vec<Chain>)> = Vec::new();
    for line in commands.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (name, rule) = match words.as_slice() {
            ["add", "table", family, table] => {
                tables.push((format!("{family} {table}"), Vec::new()));
                continue;
            }
            ["add", "chain", _, _, chain, kind @ ..] => {
                let kind = kind.join(" ");
                let kind = kind.strip_prefix("{ ").and_then(|kind| kind.strip_suffix(" }")).map(str::to_owned);
                tables.iter_mut().last().into_iter().for_each(|(_, chains)| {
                    chains.push((chain.to_string(), kind.iter().cloned().collect()));
                });
                continue;
            }
            ["add", "rule", _, _, chain, ..] => {
                // What follows the fifth word, as it stands: text in quotes may hold blanks.
                let rule = line.splitn(6, ' ').nth(5).unwrap_or_default().trim();
                let rule = format!(" {rule}").replace(" mark ", " meta mark ").replace("ct meta mark ", "ct mark ");
                (*chain, rule.trim_start().to_owned())
            }
            ["#", "-t", _, "-A", chain, rest @ ..] => {
                let verdict = rest.windows(2).find(|pair| pair[0] == "-j").map(|pair| pair[1].to_ascii_lowercase());
                (*chain, format!("xt {}", verdict.unwrap_or_default()))
            }
            _ => continue,
        };
        let chains = tables.iter_mut().last().map(|(_, chains)| chains);
        if let Some((_, rules)) = chains.into_iter().flatten().find(|(chain, _)| chain == name) {
            rules.push(rule);
        }
    }
    let mut text = String::new();
    for (table, chains) in tables {
        text += &format!("table {table} {{\n");
        for (chain, rules) in chains {
            text += &format!("\tchain {chain} {{\n\t\t{}\n\t}}\n\n", rules.join("\n\t\t"));
        }
        text += "}\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translated_rules_read_as_listed_ones() {
        let commands = "# Translated\nadd table ip filter\nadd chain ip filter INPUT { type filter hook input priority 0; policy drop; }\nadd chain ip filter FOO\n\
             add rule ip filter INPUT mark 0x574c0002 counter accept\nadd rule ip filter FOO ct mark 0x1 counter drop comment \"a  b\"\n\
             # -t filter -A FOO -m string --string abc --algo bm -j DROP \nadd rule ip filter GONE drop\n";
        let listed = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority 0; policy drop;\n\t\tmeta mark 0x574c0002 counter accept\n\t}\n\n\
             \tchain FOO {\n\t\tct mark 0x1 counter drop comment \"a  b\"\n\t\txt drop\n\t}\n\n}\n";
        assert_eq!(as_listed(commands), listed);
        assert_eq!(as_listed("garbage\nadd rule ip filter INPUT drop\nadd chain ip filter X\n"), "");
    }
}
