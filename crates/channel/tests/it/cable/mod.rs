//! What `docs/models/cable.md` and `docs/models/loss.md` promise, against closed forms.
#![forbid(unsafe_code)]

mod bursts;
mod changes;
mod contract;
mod drive;
mod impairments;
mod queues;
mod timing;
mod traces;
