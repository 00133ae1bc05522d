use super::*;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 2);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 1);
const AWAY: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 2);
const SECURITY: Security = Security { spi: 256, key: [7; 16] };
/// November 2026.
const CLOCK: TimeOfDay = TimeOfDay(1_796_000_000_000_000_000);

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

fn agent() -> HomeAgent {
    HomeAgent::new(AGENT, HOME, SECURITY, CLOCK)
}

fn mobile(now: Instant) -> Mobile {
    Mobile::new(now, [HOME, AGENT, AWAY], SECURITY, CLOCK)
}

/// A request as the mobile would send it then.
fn request(now: Instant) -> Request {
    let identification = CLOCK.stamp(now);
    Request { wishes: Wishes::DECAPSULATES, lifetime: 60, home: HOME, agent: AGENT, care_of: AWAY, identification }
}

fn answer(agent: &mut HomeAgent, now: Instant, request: Request) -> Reply {
    let reply = agent.handle(now, &request.write(&SECURITY)).expect("an answer");
    let signed = Reply::read(&reply).expect("sound");
    assert!(signed.is_by(&SECURITY));
    signed.message
}

/// Lets both talk over a path that takes 20 ms each way and loses those of the first requests that `lost` has, until nothing is due before
/// `until`. Gives when each request left, in ms.
fn talk(mobile: &mut Mobile, agent: &mut HomeAgent, lost: usize, until: Instant) -> Vec<u64> {
    let mut sent = Vec::new();
    while let Some(now) = mobile.poll_timeout().filter(|due| *due < until) {
        let Some(message) = mobile.poll_transmit(now) else { continue };
        sent.push(now.as_nanos() / 1_000_000);
        if sent.len() > lost
            && let Some(reply) = agent.handle(now + Span::from_millis(20), &message)
        {
            mobile.handle(now + Span::from_millis(40), &reply);
        }
    }
    sent
}

#[test]
fn a_mobile_registers_and_asks_again_before_its_time_is_over() {
    let (mut mobile, mut agent) = (mobile(at(0)), agent());
    let sent = talk(&mut mobile, &mut agent, 0, at(700_000));
    assert_eq!(sent, [0, 300_040, 600_080]);
    assert_eq!((mobile.standing(), agent.care_of(at(700_000))), (Standing::Registered, Some(AWAY)));
}

#[test]
fn requests_that_are_lost_are_sent_again_at_doubling_times_and_then_no_more() {
    let (mut one, mut home) = (mobile(at(0)), agent());
    assert_eq!(talk(&mut one, &mut home, 3, at(60_000)), [0, 1_000, 3_000, 7_000]);
    assert_eq!(one.standing(), Standing::Registered);
    let mut other = mobile(at(0));
    let sent = talk(&mut other, &mut home, usize::MAX, at(1_000_000));
    assert_eq!(sent, [0, 1_000, 3_000, 7_000, 15_000, 31_000]);
    assert_eq!((other.standing(), other.poll_timeout()), (Standing::Unanswered, None));
}

#[test]
fn a_binding_ends_with_its_lifetime_or_with_a_lifetime_of_zero() {
    let mut home = agent();
    assert_eq!(answer(&mut home, at(0), request(at(0))).code, Code::ACCEPTED);
    assert_eq!(home.care_of(at(59_999)), Some(AWAY));
    assert_eq!(home.care_of(at(60_000)), None);
    let long = answer(&mut home, at(1), Request { lifetime: u16::MAX, ..request(at(1)) });
    assert_eq!(long.lifetime, LIFETIME_MAX);
    let over = answer(&mut home, at(2), Request { lifetime: 0, ..request(at(2)) });
    assert_eq!((over.code, over.lifetime, home.care_of(at(2))), (Code::ACCEPTED, 0, None));
    // A mobile that asks for its home address as the one away is at home.
    answer(&mut home, at(3), request(at(3)));
    answer(&mut home, at(4), Request { care_of: HOME, ..request(at(4)) });
    assert_eq!(home.care_of(at(4)), None);
}

#[test]
fn a_wrong_authenticator_changes_nothing() {
    let mut home = agent();
    answer(&mut home, at(0), request(at(0)));
    let forged = Request { care_of: Ipv4Addr::new(10, 77, 9, 9), ..request(at(10)) };
    for security in [Security { key: [8; 16], ..SECURITY }, Security { spi: 1, ..SECURITY }] {
        let reply = home.handle(at(10), &forged.write(&security)).expect("an answer");
        assert_eq!(Reply::read(&reply).expect("sound").message.code, Code::UNAUTHENTIC);
    }
    assert_eq!(home.care_of(at(10)), Some(AWAY));
    // Nor does it use the identification up.
    assert_eq!(answer(&mut home, at(10), request(at(10))).code, Code::ACCEPTED);
    // An answer that another signed is none.
    let mut one = mobile(at(20));
    let message = one.poll_transmit(at(20)).expect("due");
    let asked = Request::read(&message).expect("sound").message;
    let reply =
        Reply { code: Code::ACCEPTED, lifetime: 60, home: HOME, agent: AGENT, identification: asked.identification };
    one.handle(at(21), &reply.write(&Security { key: [8; 16], ..SECURITY }));
    assert_eq!(one.standing(), Standing::Asked);
    one.handle(at(21), &Reply { identification: asked.identification + 1, ..reply }.write(&SECURITY));
    assert_eq!(one.standing(), Standing::Asked, "of another request");
    one.handle(at(22), &reply.write(&SECURITY));
    assert_eq!(one.standing(), Standing::Registered);
    // Once answered, a second answer is nobody's.
    one.handle(at(23), &Reply { code: Code::OTHER_AGENT, ..reply }.write(&SECURITY));
    assert_eq!(one.standing(), Standing::Registered);
}

#[test]
fn a_replayed_request_is_denied_and_changes_nothing() {
    let mut home = agent();
    let first = request(at(0));
    answer(&mut home, at(0), first);
    answer(&mut home, at(100), Request { lifetime: 0, ..request(at(100)) });
    for now in [at(101), at(5_000)] {
        let again = answer(&mut home, now, first);
        assert_eq!((again.code, home.care_of(now)), (Code::IDENTIFICATION, None));
        assert_eq!(again.identification as u32, first.identification as u32, "the lower half is the request's");
        assert_eq!(again.identification >> 32, CLOCK.stamp(now) >> 32, "the upper half is the agent's");
    }
    // From too long ago, or from a time to come.
    for apart in [8_u64, 100] {
        let identification = CLOCK.stamp(at(200_000));
        for wrong in [identification - (apart << 32), identification + (apart << 32)] {
            let late = answer(&mut home, at(200_000), Request { identification: wrong, ..first });
            assert_eq!(late.code, Code::IDENTIFICATION);
        }
    }
}

#[test]
fn a_mobile_whose_clock_is_wrong_is_denied() {
    for wrong in [CLOCK.0 + 3_600_000_000_000, CLOCK.0 - 3_600_000_000_000] {
        let mut one = Mobile::new(at(0), [HOME, AGENT, AWAY], SECURITY, TimeOfDay(wrong));
        let mut home = agent();
        assert_eq!(talk(&mut one, &mut home, 0, at(10_000)), [0]);
        assert_eq!((one.standing(), home.care_of(at(10_000))), (Standing::Denied(Code::IDENTIFICATION), None));
    }
}

/// What strangers send: every field at its ends, the authenticator right or wrong.
#[test]
fn extremes_of_every_field_neither_panic_nor_bind_a_stranger() {
    let addresses = [
        HOME,
        AGENT,
        AWAY,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::new(224, 0, 0, 1),
    ];
    let forger = Security { key: [8; 16], ..SECURITY };
    let (mut home, mut ms) = (agent(), 0);
    for security in [SECURITY, forger] {
        for (wishes, lifetime) in [(0, 0), (0, 1), (0x20, u16::MAX), (0xff, 60), (0x05, 60)] {
            for (mobile, by, care_of) in
                addresses.iter().flat_map(|a| addresses.iter().flat_map(move |b| addresses.map(|c| (*a, *b, c))))
            {
                ms += 8_000;
                let now = at(ms);
                let near = CLOCK.stamp(now);
                for identification in [0, 1, near - (7 << 32), near, near + (7 << 32), u64::MAX] {
                    let asked =
                        Request { wishes: Wishes(wishes), lifetime, home: mobile, agent: by, care_of, identification };
                    let before = home.care_of(now);
                    let reply = home.handle(now, &asked.write(&security));
                    assert_eq!(reply.is_some(), mobile == HOME, "{asked:?}");
                    let code = reply.map(|reply| Reply::read(&reply).expect("sound").message.code);
                    match code.is_some_and(Code::is_accepted) {
                        true => assert!(
                            security == SECURITY && by == AGENT && home.care_of(now).is_none_or(|at| at == care_of)
                        ),
                        false => assert_eq!(home.care_of(now), before, "{asked:?}"),
                    }
                }
            }
        }
    }
}

#[test]
fn what_an_agent_does_not_do_is_denied_by_name() {
    let mut home = agent();
    let mut ms = 0;
    let mut code = |change: &dyn Fn(&mut Request)| {
        ms += 1;
        let mut asked = request(at(ms));
        change(&mut asked);
        answer(&mut home, at(ms), asked).code
    };
    assert_eq!(code(&|asked| asked.agent = AWAY), Code::OTHER_AGENT);
    assert_eq!(code(&|asked| asked.wishes = Wishes::REVERSE), Code::NO_REVERSE_TUNNEL);
    assert_eq!(code(&|asked| asked.wishes = Wishes(0x08)), Code::NO_ENCAPSULATION);
    assert_eq!(code(&|asked| asked.wishes = Wishes(0x05)), Code::ACCEPTED, "reserved bits are ignored (section 3.3)");
    assert_eq!(code(&|asked| asked.wishes = Wishes::SIMULTANEOUS), Code::ACCEPTED_ALONE);
    // Of others nothing is known, and to what is no request there is no answer.
    let other = Request { home: AWAY, ..request(at(9)) };
    assert_eq!(home.handle(at(9), &other.write(&SECURITY)), None);
    assert_eq!(home.handle(at(9), &request(at(9)).write(&SECURITY)[..40]), None);
    assert_eq!(home.handle(at(9), &[request(at(9)).write(&SECURITY), vec![0]].concat()), None);
}
