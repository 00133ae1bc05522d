//! The option negotiation automaton (RFC 1661, section 4), as its table.

/// Where a protocol's negotiation stands (section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Initial,
    Starting,
    Closed,
    Stopped,
    Closing,
    Stopping,
    ReqSent,
    AckRcvd,
    AckSent,
    Opened,
}

/// What happens to it (section 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The layer below is up.
    Up,
    Down,
    Open,
    Close,
    /// The restart timer ran out, with tries left or without.
    TimeoutMore,
    TimeoutOver,
    /// Configure-Request, acceptable or not.
    RequestGood,
    RequestBad,
    ConfigureAck,
    /// Configure-Nak or Configure-Reject.
    ConfigureNak,
    TerminateRequest,
    TerminateAck,
    UnknownCode,
    /// Code-Reject or Protocol-Reject, of something that can be done without or not.
    RejectMild,
    RejectFatal,
    /// Echo-Request, and whatever else gets an answer only when open.
    Echo,
}

/// What it does then (section 4.4); telling the layer below that it is wanted is left to the owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    LayerUp,
    LayerDown,
    LayerFinished,
    /// Initialise the counter of tries.
    InitCount,
    /// Leave no tries.
    ZeroCount,
    Request,
    Ack,
    Nak,
    Terminate,
    TerminateAck,
    CodeReject,
    EchoReply,
}

type Step = Option<(State, &'static [Action])>;

/// The table of section 4.1; nothing for what cannot happen or changes nothing.
pub(super) fn step(state: State, event: Event) -> Step {
    match state {
        State::Initial | State::Starting => below_down(state, event),
        State::Closed | State::Stopped | State::Closing | State::Stopping => at_rest(state, event),
        State::ReqSent | State::AckRcvd | State::AckSent => asking(state, event),
        State::Opened => opened(event),
    }
}

fn below_down(state: State, event: Event) -> Step {
    use Action::{InitCount, LayerFinished, Request};
    match (state, event) {
        (State::Initial, Event::Up) => Some((State::Closed, &[])),
        (State::Starting, Event::Up) => Some((State::ReqSent, &[InitCount, Request])),
        (State::Initial, Event::Open) => Some((State::Starting, &[])),
        (State::Starting, Event::Close) => Some((State::Initial, &[LayerFinished])),
        _ => None,
    }
}

fn at_rest(state: State, event: Event) -> Step {
    use Action::{Ack, CodeReject, InitCount, LayerFinished, Nak, Request, Terminate, TerminateAck};
    use State::{Closed, Closing, Stopped, Stopping};
    let ending = matches!(state, Closing | Stopping);
    let ended = if matches!(state, Closing | Closed) { Closed } else { Stopped };
    match event {
        Event::Down => Some((if ended == Closed { State::Initial } else { State::Starting }, &[])),
        Event::Open if state == Closed => Some((State::ReqSent, &[InitCount, Request])),
        Event::Open => (state == Closing).then_some((Stopping, &[])),
        Event::Close if state == Stopped => Some((Closed, &[])),
        Event::Close => (state == Stopping).then_some((Closing, &[])),
        Event::TimeoutMore if ending => Some((state, &[Terminate])),
        Event::TimeoutOver | Event::TerminateAck if ending => Some((ended, &[LayerFinished])),
        Event::RequestGood if state == Stopped => Some((State::AckSent, &[InitCount, Request, Ack])),
        Event::RequestBad if state == Stopped => Some((State::ReqSent, &[InitCount, Request, Nak])),
        Event::RequestGood | Event::RequestBad | Event::ConfigureAck | Event::ConfigureNak if !ending => {
            Some((state, &[TerminateAck]))
        }
        Event::TerminateRequest => Some((state, &[TerminateAck])),
        Event::UnknownCode => Some((state, &[CodeReject])),
        Event::RejectFatal => Some((ended, &[LayerFinished])),
        _ => None,
    }
}

fn asking(state: State, event: Event) -> Step {
    use Action::{Ack, CodeReject, InitCount, LayerFinished, LayerUp, Nak, Request, Terminate, TerminateAck};
    use State::{AckRcvd, AckSent, Closing, Opened, ReqSent, Starting, Stopped};
    match event {
        Event::Down => Some((Starting, &[])),
        Event::Close => Some((Closing, &[InitCount, Terminate])),
        Event::TimeoutMore => Some((if state == AckSent { AckSent } else { ReqSent }, &[Request])),
        Event::TimeoutOver | Event::RejectFatal => Some((Stopped, &[LayerFinished])),
        Event::RequestGood if state == AckRcvd => Some((Opened, &[Ack, LayerUp])),
        Event::RequestGood => Some((AckSent, &[Ack])),
        Event::RequestBad => Some((if state == AckRcvd { AckRcvd } else { ReqSent }, &[Nak])),
        Event::ConfigureAck if state == AckSent => Some((Opened, &[InitCount, LayerUp])),
        Event::ConfigureAck if state == ReqSent => Some((AckRcvd, &[InitCount])),
        Event::ConfigureAck => Some((ReqSent, &[Request])),
        Event::ConfigureNak if state == AckRcvd => Some((ReqSent, &[Request])),
        Event::ConfigureNak => Some((state, &[InitCount, Request])),
        Event::TerminateRequest => Some((ReqSent, &[TerminateAck])),
        Event::TerminateAck | Event::RejectMild => (state == AckRcvd).then_some((ReqSent, &[])),
        Event::UnknownCode => Some((state, &[CodeReject])),
        _ => None,
    }
}

fn opened(event: Event) -> Step {
    use Action::{Ack, CodeReject, EchoReply, InitCount, LayerDown, Nak, Request, Terminate, TerminateAck, ZeroCount};
    use State::{AckSent, Closing, Opened, ReqSent, Starting, Stopping};
    match event {
        Event::Down => Some((Starting, &[LayerDown])),
        Event::Close => Some((Closing, &[LayerDown, InitCount, Terminate])),
        Event::RequestGood => Some((AckSent, &[LayerDown, Request, Ack])),
        Event::RequestBad => Some((ReqSent, &[LayerDown, Request, Nak])),
        Event::ConfigureAck | Event::ConfigureNak | Event::TerminateAck => Some((ReqSent, &[LayerDown, Request])),
        Event::TerminateRequest => Some((Stopping, &[LayerDown, ZeroCount, TerminateAck])),
        Event::UnknownCode => Some((Opened, &[CodeReject])),
        Event::RejectFatal => Some((Stopping, &[LayerDown, InitCount, Terminate])),
        Event::Echo => Some((Opened, &[EchoReply])),
        _ => None,
    }
}
