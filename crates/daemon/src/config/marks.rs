//! Firewall marks of our own, which no lane may have.

/// Firewall mark of the daemon's own sockets ("WL" 1): never taken.
pub(crate) const MARK_OWN: u32 = 0x574c_0001;
/// Firewall mark of packets delivered to our transparent sockets ("WL" 2).
pub(crate) const MARK_DIVERT: u32 = 0x574c_0002;
/// Firewall mark, and conntrack mark, of connections that stay plain because they were answered plainly ("WL" 3).
pub(crate) const MARK_PLAIN: u32 = 0x574c_0003;
/// Conntrack mark of connections that go through the packet door ("WL" 4).
pub(crate) const MARK_CARRIED: u32 = 0x574c_0004;
/// Firewall mark of first packets that only pass over a bridge of this host ("WL" 5): never taken.
pub(crate) const MARK_BRIDGED: u32 = 0x574c_0005;
/// All of them.
pub(crate) const MARKS: [u32; 5] = [MARK_OWN, MARK_DIVERT, MARK_PLAIN, MARK_CARRIED, MARK_BRIDGED];
