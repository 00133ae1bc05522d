//! Messages of ARP and of neighbour discovery, and time, at a machine that claims addresses on a link. Each step is an octet that says which, one
//! of the sender, one of the length, and the message: as it is, or one that is well-formed with the message's octets in it.

use wavelane_base::{Instant, Span};
use wavelane_daemon::proxy::claims::{Claims, HOSTS_MAX, Mac, read_arp, read_discovery};

const OWN: Mac = [2, 0, 0, 0, 0, 1];
/// What a second of answers may be at most, with what may come at once: their own bound is 600.
const SENT_MAX: usize = 1_000;

pub(crate) fn drive(input: &[u8]) {
    let routers = ["10.1.0.254", "fe80::1"].map(|text| text.parse().expect("an address"));
    let clients = ["10.1.0.0/16", "fe80::/64"].map(|text| text.parse().expect("a network"));
    let mut claims = Claims::new(OWN, &routers, &clients);
    claims.ask_from(&["10.0.0.7".parse().expect("an address"), "fe80::7".parse().expect("an address")]);
    let (mut now, mut sent, mut rest) = (Instant::from_secs(1), 0, input);
    while let [what, who, len, more @ ..] = rest {
        let (message, after) = more.split_at(usize::from(*len).min(more.len()));
        rest = after;
        let from = [if who & 1 == 0 { 2 } else { 3 }, 0, 0, 0, 0, *who];
        let heard = match what % 4 {
            0 => read_arp(message, from),
            1 => read_discovery(message, from),
            2 => read_arp(&arp(message, from), from),
            _ => {
                now += Span::from_millis(u64::from(*who));
                claims.handle_timeout(now);
                None
            }
        };
        if let Some(heard) = heard {
            claims.handle(now, heard);
        }
        while let Some((message, is_six, to)) = claims.poll_message() {
            sent += 1;
            // What we say is well-formed.
            assert!(if is_six { read_discovery(&message, OWN) } else { read_arp(&message, OWN) }.is_some());
            assert!(is_six || to == [255; 6] || to[0] & 1 == 0);
        }
        assert!(claims.known().0 <= HOSTS_MAX && claims.poll_timeout() >= Instant::ZERO);
    }
    let seconds = usize::try_from(now.since(Instant::ZERO).as_nanos() / 1_000_000_000).unwrap_or(0);
    assert!(sent <= SENT_MAX * (seconds + 1), "{sent} messages in {seconds} s");
    for (message, is_six, to) in claims.end() {
        assert!(if is_six { read_discovery(&message, to) } else { read_arp(&message, arp_sender(&message)) }.is_some());
    }
}

fn arp_sender(message: &[u8]) -> Mac {
    message[8..14].try_into().expect("an address")
}

/// A well-formed message with the octets of a listed network's hosts.
fn arp(octets: &[u8], from: Mac) -> Vec<u8> {
    let at = |place: usize| octets.get(place).copied().unwrap_or(254);
    let mut message = vec![0, 1, 8, 0, 6, 4, 0, 1 + (at(0) & 1)];
    message.extend(from);
    message.extend([10, 1, at(1), at(2)]);
    message.extend([0; 6]);
    message.extend([10, 1, at(3), at(4)]);
    message
}
