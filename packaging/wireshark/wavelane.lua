-- Wavelane's datagrams for Wireshark and tshark: docs/protocol/wire.md.
--
-- Copy it into the personal Lua plugins folder (Help > About > Folders), or: tshark -X lua_script:wavelane.lua -r FILE
-- What is sealed stays sealed: `wavelane trace --keys LOG --decrypt OUT FILE` writes a capture whose datagrams are opened,
-- and this dissector shows the frames in those.

local wavelane = Proto("wavelane", "Wavelane")

local KINDS = {
  [1] = "HandshakeInit", [2] = "HandshakeResponse", [3] = "CookieReply", [4] = "Data", [5] = "UnknownKey",
  [6] = "Data, partly open",
  [0x84] = "Opened data",
}
local FRAMES = {
  [0x00] = "Padding", [0x01] = "Ping", [0x02] = "LaneAck", [0x03] = "AckWish", [0x04] = "Open", [0x05] = "Answer",
  [0x06] = "Offer", [0x07] = "Data", [0x08] = "DataToEnd", [0x09] = "Receipt", [0x0a] = "Finish", [0x0b] = "Reset",
  [0x0c] = "Forget", [0x0d] = "Progress", [0x0e] = "Close", [0x0f] = "Protected", [0x10] = "Repair",
  [0x11] = "Repaired", [0x12] = "ResetAfter", [0x13] = "ProgressSealed", [0x14] = "CompressedPacket", [0x18] = "OpenPassage", [0x19] = "AnswerPassage",
  [0x1a] = "AnswerSealed", [0x40] = "Packet", [0x41] = "Heard", [0x42] = "DataByDigest",
  [0x48] = "PathChallenge", [0x49] = "PathResponse", [0x4a] = "LaneGone", [0x4b] = "Metered",
}
local STATES = { [0] = "accept", "wait", "complete", "already have", "unknown", "refuse" }
local REASONS = {
  [0] = "accepted", "refused", "unreachable", "timed out", "prohibited", "no room", "aborted", "restarted", "complete",
  "corrupted",
}
-- Types from here on carry their length and may be skipped.
local FIRST_SKIPPABLE = 0x40
local HEADER, TAG, MAC = 12, 16, 16
-- The messages of a sealed flow's handshake.
local OPEN_KEYS, ANSWER_KEYS = 101, 49
-- The bounds of docs/protocol/wire.md.
local RANGES_MAX, FRAMES_MAX = 256, 4096

local F = {}
local function field(make, name, text, ...)
  F[name] = make("wavelane." .. name, text, ...)
end
field(ProtoField.uint8, "kind", "Kind", base.HEX, KINDS)
field(ProtoField.uint8, "version", "Version")
field(ProtoField.uint32, "sender", "Sender's index", base.HEX)
field(ProtoField.uint32, "receiver", "Receiver's index", base.HEX)
field(ProtoField.uint8, "lane", "Lane")
field(ProtoField.uint64, "number", "Packet number")
field(ProtoField.bytes, "noise", "Noise message")
field(ProtoField.bytes, "mac1", "First mac")
field(ProtoField.bytes, "mac2", "Second mac")
field(ProtoField.bytes, "cookie", "Sealed cookie")
field(ProtoField.bytes, "sealed", "Sealed frames")
field(ProtoField.bytes, "tag", "Tag")
field(ProtoField.uint16, "frame", "Frame", base.HEX, FRAMES)
field(ProtoField.string, "flow", "Flow")
field(ProtoField.uint64, "offset", "Offset")
field(ProtoField.uint64, "length", "Length")
field(ProtoField.bytes, "octets", "Octets")
field(ProtoField.uint8, "state", "State", base.DEC, STATES)
field(ProtoField.uint8, "reason", "Reason", base.DEC, REASONS)
field(ProtoField.uint64, "cumulative", "Cumulative offset")
field(ProtoField.uint64, "credit", "Credit")
field(ProtoField.string, "range", "Range")
field(ProtoField.uint64, "block", "Block")
field(ProtoField.uint8, "flags", "Flags", base.HEX)
field(ProtoField.string, "source", "Source")
field(ProtoField.string, "target", "Target")
field(ProtoField.uint64, "ack_delay", "Ack delay (us)")
field(ProtoField.uint64, "arrival", "Arrival of the largest (us)")
field(ProtoField.uint64, "ect0", "ECT(0) seen")
field(ProtoField.uint64, "ect1", "ECT(1) seen")
field(ProtoField.uint64, "ce", "CE seen")
field(ProtoField.uint64, "packets", "Packets per ack")
field(ProtoField.uint64, "longest", "Longest ack delay (us)")
field(ProtoField.uint8, "now", "Acknowledge at once")
field(ProtoField.uint64, "below", "Below")
field(ProtoField.uint64, "received", "Received by the application")
field(ProtoField.uint8, "finished", "And the end")
field(ProtoField.bytes, "token", "Token")
field(ProtoField.uint8, "relays", "Relays passed")
field(ProtoField.uint64, "attempt", "Asked before")
field(ProtoField.uint64, "count", "Word's count")
field(ProtoField.uint8, "key", "Repair key")
field(ProtoField.bytes, "mask", "Mask")
field(ProtoField.bytes, "symbol", "Repair symbol")
field(ProtoField.uint64, "back", "Order: back")
field(ProtoField.uint64, "hold", "Order: hold (ms)")
field(ProtoField.uint16, "piece_offset", "Piece: offset")
field(ProtoField.uint16, "piece_total", "Piece: total")
field(ProtoField.uint64, "changes", "Changes", base.HEX)
field(ProtoField.uint16, "base", "Told by (low 16 bits)")
field(ProtoField.uint64, "ahead", "Ahead of that")
field(ProtoField.uint16, "checksum", "TCP checksum", base.HEX)
field(ProtoField.uint64, "change", "Moved by")
field(ProtoField.uint16, "window", "Window")
field(ProtoField.uint8, "count8", "Blocks of SACK")
local all = {}
for _, f in pairs(F) do all[#all + 1] = f end
wavelane.fields = all

local malformed = ProtoExpert.new("wavelane.malformed", "Not as docs/protocol/wire.md says", expert.group.MALFORMED,
  expert.severity.ERROR)
wavelane.experts = { malformed }

wavelane.prefs.ports = Pref.range("UDP ports", "4780,51820", "Ports of lanes", 65535)

-- A cursor over a buffer; every read adds its field. Reading past the end raises, and the datagram is marked as malformed.
local Cursor = {}
Cursor.__index = Cursor

local function cursor(buf, at, stop)
  return setmetatable({ buf = buf, at = at, stop = stop }, Cursor)
end
function Cursor:left() return self.stop - self.at end
function Cursor:take(n)
  if n > self:left() then error("past the end") end
  local range = self.buf(self.at, n)
  self.at = self.at + n
  return range
end
function Cursor:u8(tree, name)
  local range = self:take(1)
  if tree then tree:add(F[name], range) end
  return range:uint()
end
function Cursor:u16(tree, name)
  local range = self:take(2)
  tree:add(F[name], range)
  return range:uint()
end
-- RFC 9000, section 16.
function Cursor:varint(tree, name)
  if self:left() < 1 then error("past the end") end
  local first = self.buf(self.at, 1):uint()
  local size = bit.lshift(1, bit.rshift(first, 6))
  local range = self:take(size)
  local value = UInt64(bit.band(first, 0x3f))
  for i = 1, size - 1 do value = value * 256 + range(i, 1):uint() end
  if tree then tree:add(F[name], range, value) end
  return value:tonumber()
end
function Cursor:bytes(tree, name, n)
  if n == 0 then return end
  tree:add(F[name], self:take(n))
end
function Cursor:flow(tree)
  local at = self.at
  local raw = self:varint()
  local whose = raw % 2 == 1 and "sender's" or "receiver's"
  local text = string.format("%s %d", whose, math.floor(raw / 2))
  tree:add(F.flow, self.buf(at, self.at - at), text)
  return text
end
function Cursor:address(tree, name)
  local at = self.at
  local family = self:u8()
  local text
  if family == 4 then
    text = tostring(self:take(4):ipv4())
  elseif family == 6 then
    text = "[" .. tostring(self:take(16):ipv6()) .. "]"
  else
    error("no address")
  end
  text = text .. ":" .. self:take(2):uint()
  tree:add(F[name], self.buf(at, self.at - at), text)
  return text
end
-- Newest first; returns them as text.
function Cursor:ranges(tree)
  local count = self:varint()
  if count > RANGES_MAX then error("too many ranges") end
  local texts, first = {}, nil
  for i = 1, count do
    local at = self.at
    local last = self:varint()
    if i > 1 then last = first - last - 2 end
    first = last - self:varint()
    if first < 0 then error("a range below zero") end
    texts[i] = first == last and tostring(last) or string.format("%d-%d", first, last)
    tree:add(F.range, self.buf(at, self.at - at), texts[i])
  end
  return table.concat(texts, " ")
end

local function open(c, t)
  local flow = c:flow(t)
  local source, target = c:address(t, "source"), c:address(t, "target")
  c:varint(t, "credit")
  return string.format("flow %s, %s to %s", flow, source, target)
end

local function reset(c, t)
  local flow, reason = c:flow(t), c:u8(t, "reason")
  return string.format("flow %s: %s", flow, REASONS[reason] or "?")
end

-- docs/protocol/parcels.md: what one edge says to the other, past the relays.
local function word(c, t)
  c:varint(t, "count")
  c:bytes(t, "tag", TAG)
end
-- The flow's handshake, whose message has this length here, or a word.
local function seal(c, t, length)
  if c:u8() == 0 then c:bytes(t, "noise", length) else word(c, t) end
end

local function progress(c, t)
  local flow, received = c:flow(t), c:varint(t, "received")
  c:u8(t, "finished")
  return string.format("flow %s: %d", flow, received)
end

local function answer_passage(c, t)
  local flow, reason = c:flow(t), c:u8(t, "reason")
  c:varint(t, "credit")
  c:varint(t, "received")
  return string.format("flow %s: %s", flow, REASONS[reason] or "?")
end

local BODY = {
  [0x00] = function() end,
  [0x01] = function() end,
  [0x02] = function(c, t)
    local lane = c:u8(t, "lane")
    for _, name in ipairs({ "ack_delay", "arrival", "ect0", "ect1", "ce" }) do c:varint(t, name) end
    return string.format("lane %d: %s", lane, c:ranges(t))
  end,
  [0x03] = function(c, t)
    local lane, packets, longest = c:u8(t, "lane"), c:varint(t, "packets"), c:varint(t, "longest")
    c:u8(t, "now")
    return string.format("lane %d: every %d packets or %d us", lane, packets, longest)
  end,
  [0x04] = open,
  [0x05] = function(c, t)
    local flow, reason = c:flow(t), c:u8(t, "reason")
    c:varint(t, "credit")
    return string.format("flow %s: %s", flow, REASONS[reason] or "?")
  end,
  [0x06] = function(c, t)
    local flow, block, offset = c:flow(t), c:varint(t, "block"), c:varint(t, "offset")
    local flags = c:u8(t, "flags")
    if bit.band(flags, 1) ~= 0 then c:varint(t, "length") end
    local vtx = bit.band(flags, 4) ~= 0 and ", VTX" or ""
    return string.format("flow %s, block %d from %d%s", flow, block, offset, vtx)
  end,
  [0x07] = function(c, t)
    local flow, offset, length = c:flow(t), c:varint(t, "offset"), c:varint(t, "length")
    c:bytes(t, "octets", length)
    return string.format("flow %s, %d+%d", flow, offset, length)
  end,
  [0x08] = function(c, t)
    local flow, offset = c:flow(t), c:varint(t, "offset")
    local length = c:left()
    c:bytes(t, "octets", length)
    return string.format("flow %s, %d+%d", flow, offset, length)
  end,
  [0x09] = function(c, t)
    local flow, state = c:flow(t), c:u8(t, "state")
    local cumulative, credit = c:varint(t, "cumulative"), c:varint(t, "credit")
    c:ranges(t)
    return string.format("flow %s: %s, to %d, credit to %d", flow, STATES[state] or "?", cumulative, credit)
  end,
  [0x0a] = function(c, t)
    local flow, length = c:flow(t), c:varint(t, "length")
    return string.format("flow %s ends at %d", flow, length)
  end,
  [0x0b] = reset,
  [0x0c] = function(c, t)
    local below = c:varint(t, "below")
    return string.format("below %d, %s", below, c:ranges(t))
  end,
  [0x0d] = progress,
  [0x0e] = function() end,
  [0x0f] = function() end,
  [0x10] = function(c, t)
    local lane = c:u8(t, "lane")
    c:u8(t, "key")
    local first = c:varint(t, "number")
    c:bytes(t, "mask", c:u8())
    c:bytes(t, "symbol", c:left())
    return string.format("lane %d from %d", lane, first)
  end,
  [0x11] = function(c, t)
    local lane = c:u8(t, "lane")
    return string.format("lane %d: %s", lane, c:ranges(t))
  end,
  [0x12] = function(c, t)
    local text = reset(c, t)
    c:varint(t, "received")
    c:u8(t, "finished")
    return text
  end,
  [0x13] = function(c, t)
    local text = progress(c, t)
    word(c, t)
    return text
  end,
  [0x14] = function(c, t)
    local flags = c:varint(t, "changes")
    local base, ahead = c:u16(t, "base"), c:varint(t, "ahead")
    c:u16(t, "checksum")
    local function has(mask) return bit.band(flags, mask) ~= 0 end
    if has(1) then c:varint(t, "change") end
    if has(2) then c:varint(t, "change") end
    if has(4) then c:u16(t, "window") end
    if has(8) then c:varint(t, "change") c:varint(t, "change") end
    if has(32) then c:varint(t, "change") end
    if has(64) then
      for _ = 1, 2 * c:u8(t, "count8") do c:varint(t, "change") end
    end
    if has(128) then c:u8(t, "flags") end
    if has(256) then c:u8(t, "flags") end
    if has(512) then
      c:varint(t, "back")
      c:varint(t, "hold")
    end
    if has(1024) then c:bytes(t, "octets", c:varint(t, "length")) end
    return string.format("told by the packet %d before", ahead)
  end,
  [0x18] = function(c, t)
    local text = open(c, t)
    c:bytes(t, "token", 16)
    c:u8(t, "relays")
    local flags = c:u8(t, "flags")
    if bit.band(flags, 1) ~= 0 then c:varint(t, "received") end
    if bit.band(flags, 4) ~= 0 then c:varint(t, "attempt") end
    if bit.band(flags, 8) ~= 0 then seal(c, t, OPEN_KEYS) end
    return text
  end,
  [0x19] = answer_passage,
  [0x1a] = function(c, t)
    local text = answer_passage(c, t)
    seal(c, t, ANSWER_KEYS)
    return text
  end,
}

local ip_dissector = Dissector.get("ip")
local ipv6_dissector = Dissector.get("ipv6")

local SKIPPABLE = {
  [0x40] = function(c, t, tree, pinfo)
    local flags, number = c:u8(t, "flags"), c:varint(t, "number")
    if bit.band(flags, 1) ~= 0 then
      c:varint(t, "back")
      c:varint(t, "hold")
    end
    if bit.band(flags, 2) ~= 0 then
      c:u16(t, "piece_offset")
      c:u16(t, "piece_total")
      c:bytes(t, "octets", c:left())
    else
      local packet = c:take(c:left())
      local version = bit.rshift(packet(0, 1):uint(), 4)
      local inner = version == 6 and ipv6_dissector or ip_dissector
      local info = tostring(pinfo.cols.info)
      inner:call(packet:tvb("IP packet " .. number), pinfo, tree)
      pinfo.cols.info = info
    end
    return string.format("number %d", number)
  end,
  [0x41] = function(c, t)
    local count = c:left() / 8
    c:bytes(t, "octets", c:left())
    return string.format("%d digests", count)
  end,
  [0x42] = function(c, t)
    local flow, offset, length = c:flow(t), c:varint(t, "offset"), c:varint(t, "length")
    c:bytes(t, "token", 16)
    return string.format("flow %s, %d at %d", flow, length, offset)
  end,
  [0x48] = function(c, t) c:bytes(t, "token", 8) end,
  [0x49] = function(c, t) c:bytes(t, "token", 8) end,
  [0x4a] = function(c, t)
    local lane = c:u8(t, "lane")
    c:bytes(t, "octets", 8)
    return string.format("lane %d", lane)
  end,
  [0x4b] = function(c, t) c:bytes(t, "octets", 2) end,
}

-- Frames back to back. Returns their names.
local function frames(buf, c, tree, pinfo)
  local names = {}
  local padding_from
  for _ = 1, FRAMES_MAX do
    if c:left() == 0 then break end
    local at = c.at
    local kind = c:varint()
    local name = FRAMES[kind] or string.format("type 0x%x", kind)
    if kind == 0 then
      padding_from = padding_from or at
    else
      local sub = tree:add(wavelane, buf(at, c.at - at), name)
      sub:add(F.frame, buf(at, c.at - at), kind)
      local body
      if kind >= FIRST_SKIPPABLE then
        local length = c:varint()
        if length > c:left() then error("past the end") end
        local inner = cursor(buf, c.at, c.at + length)
        c.at = c.at + length
        if SKIPPABLE[kind] then
          body = SKIPPABLE[kind](inner, sub, tree, pinfo)
        end
      elseif BODY[kind] then
        body = BODY[kind](c, sub)
      else
        error("an unknown frame")
      end
      if body then sub:append_text(": " .. body) end
      sub:set_len(c.at - at)
      names[#names + 1] = name
    end
  end
  if padding_from then
    tree:add(F.frame, buf(padding_from, c.at - padding_from), 0):append_text(" (" .. (c.at - padding_from) .. " octets)")
  end
  return table.concat(names, ", ")
end

local DATAGRAM = {}
DATAGRAM[1] = function(c, t)
  c:u8(t, "version")
  t:add(F.sender, c:take(4))
  c:bytes(t, "noise", c:left() - 2 * MAC)
  c:bytes(t, "mac1", MAC)
  c:bytes(t, "mac2", MAC)
end
DATAGRAM[2] = function(c, t)
  c:u8(t, "version")
  t:add(F.sender, c:take(4))
  t:add(F.receiver, c:take(4))
  c:bytes(t, "noise", c:left() - 2 * MAC)
  c:bytes(t, "mac1", MAC)
  c:bytes(t, "mac2", MAC)
end
DATAGRAM[3] = function(c, t)
  t:add(F.receiver, c:take(4))
  c:bytes(t, "token", 24)
  c:bytes(t, "cookie", 32)
end
DATAGRAM[5] = function(c, t)
  t:add(F.receiver, c:take(4))
  c:bytes(t, "mac1", MAC)
end
local function clear_part(c, t)
  local lane = c:u8(t, "lane")
  t:add(F.receiver, c:take(4))
  local number = c:take(6)
  t:add(F.number, number, number:uint64())
  return string.format(" lane %d, %s", lane, tostring(number:uint64()))
end
DATAGRAM[4] = function(c, t)
  local info = clear_part(c, t)
  c:bytes(t, "sealed", c:left() - TAG)
  c:bytes(t, "tag", TAG)
  return info
end
DATAGRAM[6] = function(c, t, buf)
  local info = clear_part(c, t)
  local open = buf(buf:len() - TAG - 2, 2):uint()
  if open > c:left() - TAG - 2 then error("past the start") end
  c:bytes(t, "sealed", c:left() - TAG - 2 - open)
  c:bytes(t, "octets", open)
  t:add(F.length, c:take(2))
  c:bytes(t, "tag", TAG)
  return info
end
DATAGRAM[0x84] = function(c, t, buf, pinfo)
  local info = clear_part(c, t)
  return info .. ": " .. frames(buf, c, t, pinfo)
end

-- Whether the length fits the kind: what else goes to the same ports is left to others.
local function plausible(buf)
  local length = buf:len()
  if length == 0 then return false end
  local kind = buf(0, 1):uint()
  if kind == 1 then return length >= 6 + 96 + 2 * MAC and length <= 512 end
  if kind == 2 then return length >= 10 + 48 + 2 * MAC and length <= 512 end
  if kind == 3 then return length == 61 end
  if kind == 5 then return length == 21 end
  if kind == 4 then return length >= HEADER + TAG and buf(1, 1):uint() < 8 end
  if kind == 6 then return length > HEADER + 2 + TAG and buf(1, 1):uint() < 8 end
  return kind == 0x84 and length >= HEADER
end

function wavelane.dissector(buf, pinfo, root)
  -- A capture that kept the beginning only cannot be judged by lengths.
  local cut = buf:reported_len() > buf:len()
  if not cut and not plausible(buf) then return 0 end
  local kind = buf(0, 1):uint()
  if not KINDS[kind] then return 0 end
  pinfo.cols.protocol = "Wavelane"
  pinfo.cols.info = KINDS[kind]
  local tree = root:add(wavelane, buf())
  tree:append_text(", " .. KINDS[kind])
  tree:add(F.kind, buf(0, 1))
  local ok, result = pcall(DATAGRAM[kind], cursor(buf, 1, buf:len()), tree, buf, pinfo)
  if ok then
    pinfo.cols.info = KINDS[kind] .. (result or "")
  elseif not cut then
    tree:add_proto_expert_info(malformed, tostring(result))
  end
  return buf:len()
end

-- By port, and by hand as "Decode as".
local udp = DissectorTable.get("udp.port")
local used
local function register()
  if used then udp:remove(used, wavelane) end
  used = wavelane.prefs.ports
  udp:add(used, wavelane)
end
function wavelane.prefs_changed() register() end
register()
udp:add_for_decode_as(wavelane)
