//! Next-hop objects, which routes may name in place of gateways (linux/nexthop.h).

use super::standing::dump;
use super::{HEADER, NLM_F_DUMP, NLM_F_REQUEST, RTNH_UNUSABLE, address, attributes, u32_at};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;

/// The attribute of a route that names one (linux/rtnetlink.h).
pub(super) const RTA_NH_ID: u16 = 30;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_GETNEXTHOP: u16 = 106;
const NHMSG: usize = 8;
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_GATEWAY: u16 = 6;
/// Octets of one member of a group (`struct nexthop_grp`).
const MEMBER: usize = 8;
/// More than these are not read.
const OBJECTS_MAX: usize = 1 << 16;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Object {
    /// The gateway, `None` where targets are on the link.
    Hop(Option<IpAddr>),
    /// Its device or carrier is missing.
    Unusable,
    /// It drops.
    Blackhole,
    Group(Vec<u32>),
}

/// All of this network namespace, by number.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<u32, Object>);

impl Objects {
    pub(super) fn read() -> io::Result<Self> {
        let mut ask = Vec::new();
        ask.extend(((HEADER + NHMSG) as u32).to_ne_bytes());
        ask.extend(RTM_GETNEXTHOP.to_ne_bytes());
        ask.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        ask.extend([0; 8 + NHMSG]);
        let mut all = Self::default();
        dump(&ask, RTM_NEWNEXTHOP, |body| {
            if let Some((id, object)) = parse(body).filter(|_| all.0.len() < OBJECTS_MAX) {
                all.0.insert(id, object);
            }
        })?;
        Ok(all)
    }
    /// The next hops of an object: none if it drops, `None` if none of them works or it is not known.
    pub(super) fn get(&self, id: u32) -> Option<Vec<Option<IpAddr>>> {
        let members = match self.0.get(&id)? {
            Object::Group(members) => members.iter().filter_map(|id| self.0.get(id)).collect(),
            one => vec![one],
        };
        if members.contains(&&Object::Blackhole) {
            return Some(Vec::new());
        }
        let hop = |object: &&Object| if let Object::Hop(via) = object { Some(*via) } else { None };
        let hops: Vec<_> = members.iter().filter_map(hop).collect();
        (!hops.is_empty()).then_some(hops)
    }
}

fn parse(body: &[u8]) -> Option<(u32, Object)> {
    let flags = u32_at(body, 4)?;
    let (mut id, mut object) = (None, Object::Hop(None));
    for (kind, value) in attributes(body.get(NHMSG..)?) {
        match kind {
            NHA_ID => id = u32_at(value, 0),
            NHA_GROUP => object = Object::Group(value.chunks(MEMBER).filter_map(|one| u32_at(one, 0)).collect()),
            NHA_BLACKHOLE => object = Object::Blackhole,
            NHA_GATEWAY => object = Object::Hop(Some(address(value)?)),
            _ => {}
        }
    }
    let dead = flags & RTNH_UNUSABLE != 0 && matches!(object, Object::Hop(_));
    Some((id?, if dead { Object::Unusable } else { object }))
}
