//! The 802.11 cell: timing against the standard's arithmetic, saturation against Bianchi's model and ns-3, hidden
//! stations, and the laws of machines.

mod adapt;
mod aggregate;
mod bianchi;
mod contract;
mod drive;
mod edca;
mod fec;
mod listeners;
mod queues;
mod reach;
mod saturation;
mod timing;
mod vht;
mod wavelan;
