//! A Hayes modem's command line: what `AT...` asks for (ITU-T V.250, sections 5 and 6, and what modems added).

/// One command of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Answer,
    /// The digits; a `;` at the end stays in command mode.
    Dial(String),
    HangUp,
    Online,
    Reset,
    Echo(bool),
    Quiet(bool),
    Verbose(bool),
    /// How much `CONNECT`, `BUSY` and `NO DIALTONE` say.
    Extended(u8),
    SetRegister(u8, u8),
    AskRegister(u8),
    Identify,
    /// Known and without a meaning here: loudspeaker, flow control, data compression.
    Nothing,
}

/// The most commands of a line.
const COMMANDS_MAX: usize = 40;

/// The commands of a line without its `AT`, or nothing if one of them is none.
pub(super) fn parse(line: &str) -> Option<Vec<Command>> {
    let line: String = line.chars().filter(|c| *c != ' ').collect::<String>().to_ascii_uppercase();
    let (mut rest, mut commands) = (line.as_str(), Vec::new());
    while let Some(first) = rest.chars().next() {
        if commands.len() == COMMANDS_MAX {
            return None;
        }
        rest = &rest[first.len_utf8()..];
        let command = match first {
            'D' => {
                let number = rest.trim_start_matches(['T', 'P']).to_string();
                rest = "";
                Command::Dial(number)
            }
            'A' => Command::Answer,
            'H' => {
                number(&mut rest);
                Command::HangUp
            }
            'O' => {
                number(&mut rest);
                Command::Online
            }
            'Z' => {
                number(&mut rest);
                Command::Reset
            }
            'E' => Command::Echo(number(&mut rest) != 0),
            'Q' => Command::Quiet(number(&mut rest) != 0),
            'V' => Command::Verbose(number(&mut rest) != 0),
            'X' => Command::Extended(u8::try_from(number(&mut rest)).ok().filter(|level| *level <= 4)?),
            'I' => {
                number(&mut rest);
                Command::Identify
            }
            'S' => register(&mut rest)?,
            '&' | '\\' | '%' => {
                let kind = rest.chars().next().filter(char::is_ascii_alphabetic)?;
                rest = &rest[1..];
                number(&mut rest);
                if (first, kind) == ('&', 'F') { Command::Reset } else { Command::Nothing }
            }
            'B' | 'L' | 'M' | 'N' | 'T' | 'P' | 'W' | 'Y' => {
                number(&mut rest);
                Command::Nothing
            }
            _ => return None,
        };
        commands.push(command);
    }
    Some(commands)
}

fn register(rest: &mut &str) -> Option<Command> {
    let which = u8::try_from(number(rest)).ok()?;
    if let Some(after) = rest.strip_prefix('?') {
        *rest = after;
        return Some(Command::AskRegister(which));
    }
    *rest = rest.strip_prefix('=')?;
    Some(Command::SetRegister(which, u8::try_from(number(rest)).ok()?))
}

/// The number at the front; none is zero.
fn number(rest: &mut &str) -> u32 {
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(len);
    *rest = after;
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX) }
}
