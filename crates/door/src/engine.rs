//! The TCP behind the door: the kernel's, or our own.

use crate::socket::Socket;
use crate::syn::Refusal;
use std::net::{IpAddr, SocketAddr};
use wavelane_base::Instant;
use wavelane_wire::frame::Reason;

/// Connections, and the SYNs that wait for them.
pub trait Engine {
    /// A packet whose SYN is held.
    type Held;
    /// A connection that is not yet the door's.
    type Fresh;
    /// What the door keeps of a connection for the engine. Dropping it, or forgetting its token, without
    /// [`Engine::reset`] is right only after [`Socket::end_orderly`].
    type Kept;
    /// A connection at work.
    type Socket<'a>: Socket
    where
        Self: 'a;
    /// What the owner keeps with each connection, and with each attempt at one: whom it asked.
    type Tag: Copy;

    /// Takes a new connection in and gives it a token that is unique among current ones. `None`: there is no room for it, and
    /// it is reset.
    fn adopt(&mut self, fresh: Self::Fresh) -> Option<(u64, Self::Kept)>;
    /// A connection of [`Engine::adopt`].
    fn socket<'a>(&'a mut self, now: Instant, token: u64, kept: &'a mut Self::Kept) -> Self::Socket<'a>;
    /// Begins to connect to a server, from the address `from` if that is given.
    fn connect(&mut self, now: Instant, from: Option<SocketAddr>, target: SocketAddr) -> Result<Self::Fresh, Reason>;
    /// Resets a connection.
    fn reset(&mut self, now: Instant, token: u64, kept: Self::Kept);
    /// Lets a held SYN go on its way, to our listener or past us.
    fn let_go(&mut self, now: Instant, held: Self::Held);
    /// Discards a held SYN; its TCP retransmits it.
    fn discard(&mut self, held: Self::Held);
    /// Sends a refusal to the application at `to`. If it is not sent, the application retransmits its SYN.
    fn refuse(&mut self, refusal: Refusal, to: IpAddr);
}
