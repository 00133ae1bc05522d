#!/usr/bin/env python3
"""A second implementation of the framings of serial lines, checked against serial.txt.

Written from docs/protocol/serial.md and the RFCs it names, not from the Rust code: it writes each line's octets from its fields and reads
the fields from the octets. `--write` prints a new file. Exit 0 if everything agrees, 1 otherwise.
"""
import pathlib
import sys

VECTOR = pathlib.Path(__file__).with_name("serial.txt")
HEAD = """# Golden vectors of docs/protocol/serial.md. vectors/check_serial.py and `cargo test -p wavelane-serial vectors` check them. Octets are
# hexadecimal, `-` stands for none, and OCTETxN for an octet N times. `slip-1998`, `slip`, `kiss PORT`: a packet and its octets on the line, without an END before it
# but KISS's. `lane FRAMING`: a lane's datagram on an idle line. `ppp ACCM ACFC PFC PROTOCOL`: the same of a PPP frame, from its
# first octet to its closing flag. `slirp`: a frame that slirp 1.0.17 wrote. `vj`: packets of one line in order, and what stands for each.
"""
END, ESC, ESC_END, ESC_ESC, FLAG, ESCAPE = 0xC0, 0xDB, 0xDC, 0xDD, 0x7E, 0x7D
LANE = 0x005B


def doubled(packet: bytes) -> bytes:
    return packet.replace(b"\xc0", b"\xc0\xc0") + b"\xc0"


def undoubled(octets: bytes) -> bytes:
    """The only frame in these octets, behind which the line is silent."""
    run = len(octets) - len(octets.rstrip(b"\xc0"))
    assert run % 2 == 1, "an odd run of END ends a frame"
    body = octets[:-1]
    assert body.replace(b"\xc0\xc0", b"").count(END) == 0
    return body.replace(b"\xc0\xc0", b"\xc0")


def slip(packet: bytes) -> bytes:
    return packet.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"


def unslip(octets: bytes) -> bytes:
    assert octets.count(END) == 1 and octets[-1] == END
    out, i = bytearray(), 0
    while octets[i] != END:
        if octets[i] == ESC:
            i += 1
            out.append({ESC_END: END, ESC_ESC: ESC}[octets[i]])
        else:
            out.append(octets[i])
        i += 1
    return bytes(out)


def fcs16(octets: bytes) -> int:
    """Bit by bit (RFC 1662, appendix C.1)."""
    value = 0xFFFF
    for octet in octets:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ (0x8408 if value & 1 else 0)
    return value ^ 0xFFFF


def hdlc(accm: int, acfc: int, pfc: int, protocol: int, packet: bytes) -> bytes:
    frame = (b"" if acfc else b"\xff\x03") + protocol.to_bytes(1 if pfc and protocol < 256 else 2, "big") + packet
    frame += fcs16(frame).to_bytes(2, "little")
    out = bytearray()
    for octet in frame:
        if octet in (FLAG, ESCAPE) or octet < 32 and accm >> octet & 1:
            out += bytes([ESCAPE, octet ^ 32])
        else:
            out.append(octet)
    return bytes(out) + b"\x7e"


def unhdlc(octets: bytes) -> tuple[int, bytes]:
    assert octets[-1] == FLAG and FLAG not in octets[:-1]
    frame, escaped = bytearray(), False
    for octet in octets[:-1]:
        if octet == ESCAPE:
            escaped = True
        else:
            frame.append(octet ^ 32 if escaped else octet)
            escaped = False
    assert not escaped and fcs16(bytes(frame[:-2])) == int.from_bytes(frame[-2:], "little")
    body = bytes(frame[:-2]).removeprefix(b"\xff\x03")
    size = 1 if body[0] & 1 else 2
    return int.from_bytes(body[:size], "big"), body[size:]


# RFC 1144.
C, I, P, S, A, W, U = 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01
ECHO, DATA = S | W | U, S | A | W | U


def word(data: bytes, at: int, size: int = 2) -> int:
    return int.from_bytes(data[at : at + size], "big")


def checksum(data: bytes) -> int:
    total = sum(word(data + b"\0" * (len(data) % 2), i) for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def number(n: int) -> bytes:
    return bytes([n]) if 0 < n < 256 else b"\0" + n.to_bytes(2, "big")


class Packer:
    """The sending end, with sixteen slots."""

    def __init__(self):
        self.slots, self.order, self.last = {}, list(range(16)), None

    def pack(self, p: bytes) -> tuple[str, bytes]:
        ip = (p[0] & 15) * 4
        if p[0] >> 4 != 4 or p[9] != 6 or word(p, 6) & 0x3FFF or p[ip + 13] & 0x17 != 0x10:
            return "ip", p
        key = p[12:20] + p[ip : ip + 4]
        slot = next((s for s, old in self.slots.items() if old[12:20] + old[ip : ip + 4] == key), self.order[0])
        self.order.remove(slot)
        self.order.append(slot)
        old, self.slots[slot] = self.slots.get(slot), p
        change = old and old[12:20] == p[12:20] and self.change(old, p, ip)
        named, self.last = self.last != slot, slot
        if not change:
            return "full", p[:9] + bytes([slot]) + p[10:]
        mask, rest = change
        hlen = ip + (p[ip + 12] >> 4) * 4
        head = bytes([mask | C, slot]) if named else bytes([mask])
        return "compressed", head + p[ip + 16 : ip + 18] + rest + p[hlen:]

    @staticmethod
    def change(old: bytes, p: bytes, ip: int):
        hlen = ip + (p[ip + 12] >> 4) * 4
        same = [slice(0, 2), slice(6, 10), slice(20, ip), slice(ip + 12, ip + 13), slice(ip + 20, hlen)]
        if any(old[s] != p[s] for s in same) or (old[ip + 13] ^ p[ip + 13]) & ~0x28:
            return None
        data, mask, rest = word(old, 2) - hlen, 0, b""
        if p[ip + 13] & 0x20:
            mask, rest = U, number(word(p, ip + 18))
        elif word(p, ip + 18) != word(old, ip + 18):
            return None
        window = (word(p, ip + 14) - word(old, ip + 14)) & 0xFFFF
        ack, seq = ((word(p, ip + at, 4) - word(old, ip + at, 4)) & 0xFFFFFFFF for at in (8, 4))
        if ack > 0xFFFF or seq > 0xFFFF:
            return None
        for bit, n in ((W, window), (A, ack), (S, seq)):
            if n:
                mask, rest = mask | bit, rest + number(n)
        if mask in (ECHO, DATA) or mask == 0 and not (data == 0 and word(p, 2) > hlen):
            return None
        if not old[ip + 13] & 0x20:
            if mask == S | A and seq == ack == data:
                mask, rest = ECHO, b""
            elif mask == S and seq == data:
                mask, rest = DATA, b""
        moved = (word(p, 4) - word(old, 4)) & 0xFFFF
        if moved != 1:
            mask, rest = mask | I, rest + number(moved)
        return mask | (P if p[ip + 13] & 8 else 0), rest


class Unpacker:
    """The receiving end."""

    def __init__(self):
        self.slots, self.last = {}, None

    def unpack(self, kind: str, data: bytes) -> bytes:
        if kind == "ip":
            return data
        if kind == "full":
            self.last = data[9]
            packet = data[:9] + b"\x06" + data[10:]
        else:
            packet = self.restore(data)
        self.slots[self.last] = packet
        return packet

    def restore(self, data: bytes) -> bytes:
        mask, at = data[0], 1
        if mask & C:
            self.last, at = data[1], 2
        old = self.slots[self.last]
        ip = (old[0] & 15) * 4
        hlen = ip + (old[ip + 12] >> 4) * 4
        head, before = bytearray(old[:hlen]), word(old, 2) - hlen

        def take() -> int:
            nonlocal at
            at += 1
            if data[at - 1]:
                return data[at - 1]
            at += 2
            return word(data, at - 2)

        def add(where: int, size: int, n: int) -> None:
            head[where : where + size] = ((word(head, where, size) + n) & (256**size - 1)).to_bytes(size, "big")

        head[ip + 16 : ip + 18] = data[at : at + 2]
        at += 2
        head[ip + 13] = head[ip + 13] & ~0x28 | (8 if mask & P else 0)
        special = mask & (S | A | W | U)
        if special in (ECHO, DATA):
            add(ip + 4, 4, before)
            add(ip + 8, 4, before if special == ECHO else 0)
        else:
            if mask & U:
                head[ip + 13] |= 0x20
                head[ip + 18 : ip + 20] = take().to_bytes(2, "big")
            for bit, where, size in ((W, ip + 14, 2), (A, ip + 8, 4), (S, ip + 4, 4)):
                add(where, size, take() if mask & bit else 0)
        add(4, 2, take() if mask & I else 1)
        head[2:4] = (hlen + len(data) - at).to_bytes(2, "big")
        head[10:12] = b"\0\0"
        head[10:12] = checksum(bytes(head[:ip])).to_bytes(2, "big")
        return bytes(head) + data[at:]


def lane(framing: str, packet: bytes) -> bytes:
    return {
        "slip-1998": lambda: doubled(packet),
        "slip": lambda: b"\xc0" + slip(packet),
        "cslip": lambda: b"\xc0" + slip(packet),
        "ppp": lambda: b"\x7e" + hdlc(0, 1, 1, LANE, packet),
        "kiss": lambda: b"\xc0" + slip(b"\0" + packet),
    }[framing]()


def parse(text: str) -> bytes:
    if "x" in text:
        octet, times = text.split("x")
        return bytes.fromhex(octet) * int(times)
    return b"" if text == "-" else bytes.fromhex(text)


def show(octets: bytes) -> str:
    return octets.hex() or "-"


def segment(port=1025, seq=7, ack=1000, window=8192, flags=0x10, urgent=0, ident=1, data=b"", tos=0) -> bytes:
    tcp = b"".join(n.to_bytes(s, "big") for n, s in ((port, 2), (80, 2), (seq, 4), (ack, 4), (0x50, 1), (flags, 1), (window, 2), (0, 2), (urgent, 2)))
    addresses = bytes([192, 168, 1, 2, 10, 0, 0, 1])
    tcp = bytearray(tcp + data)
    tcp[16:18] = checksum(addresses + b"\0\x06" + len(tcp).to_bytes(2, "big") + tcp).to_bytes(2, "big")
    head = bytearray(bytes([0x45, tos]) + (20 + len(tcp)).to_bytes(2, "big") + ident.to_bytes(2, "big") + b"\x40\0\x40\x06\0\0" + addresses)
    head[10:12] = checksum(head).to_bytes(2, "big")
    return bytes(head + tcp)


def walk() -> list[bytes]:
    """One connection's life, and another's that takes a slot in between."""
    return [
        segment(flags=2),
        segment(),
        segment(ack=2460, ident=2),
        segment(ack=2460, ident=3, data=b"ls\n", flags=0x18),
        segment(seq=10, ack=2460, ident=4, data=b"x" * 20),
        segment(seq=30, ack=2480, ident=5, data=b"y"),
        segment(seq=30, ack=2480, ident=6, data=b"y"),
        segment(port=1026, ident=1),
        segment(port=1026, ident=2, ack=1255),
        segment(seq=31, ack=2480, ident=7, window=8000, data=b"z"),
        segment(seq=31, ack=2480, ident=8, window=8000),
        segment(seq=32, ack=2481, ident=500, window=8000, flags=0x30, urgent=5),
        segment(seq=32, ack=2482, ident=501, window=8000, flags=0x50),
        segment(seq=31, ack=2482, ident=502, window=8000),
        segment(seq=31, ack=2482, ident=503, window=8000, flags=0x11),
    ]


SLIRP = "ff7d23c0217d217d217d207d327d217d247d25dc7d257d26eccf85a77d277d227d287d2241477e"


def lines() -> list[str]:
    out = []
    datagram = bytes([4, 0, END, ESC, FLAG, ESCAPE, 0x11, 0x13, ESC_END, ESC_ESC, 0, 255])
    for packet in ["-", "c0", "45c0", "c045", "45db", "4500c0a8c0a8", datagram.hex(), "45c0c0c0"]:
        out.append(f"slip-1998 {packet} {show(doubled(parse(packet)))}")
        out.append(f"slip {packet} {show(slip(parse(packet)))}")
    out.append("slip-1998 c0x1500 c0x3001")
    for port, packet in [(0, b"\x01\xc0"), (12, b"\x05")]:
        frame = b"\xc0" + slip(bytes([port << 4]) + packet)
        out.append(f"kiss {port} {show(packet)} {show(frame)}")
    for accm, acfc, pfc, protocol, packet in [
        (0xFFFFFFFF, 0, 0, 0xC021, "01010004"),
        (0xFFFFFFFF, 0, 0, 0x0021, "45007e7d"),
        (0, 1, 1, 0x0021, "4500001113"),
        (0x000A0000, 1, 0, 0x0021, "4500001113"),
        (0, 0, 1, 0x0057, "60c0"),
        (0, 1, 1, 0x8021, "01010004"),
    ]:
        out.append(f"ppp {accm:08x} {acfc} {pfc} {protocol:04x} {packet} {show(hdlc(accm, acfc, pfc, protocol, parse(packet)))}")
    out.append(f"slirp c021 01010012010405dc0506eccf85a707020802 {SLIRP}")
    out += [f"lane {framing} {datagram.hex()} {show(lane(framing, datagram))}" for framing in ("slip-1998", "slip", "cslip", "ppp", "kiss")]
    packer = Packer()
    for packet in walk():
        kind, octets = packer.pack(packet)
        out.append(f"vj {packet.hex()} {kind} {octets.hex()}")
    return out


def check(fields: list[str], packer: Packer, unpacker: Unpacker) -> None:
    kind, args, octets = fields[0], fields[1:-1], parse(fields[-1])
    if kind == "slip-1998":
        assert doubled(parse(args[0])) == octets and undoubled(octets) == parse(args[0])
    elif kind == "slip":
        assert slip(parse(args[0])) == octets and unslip(octets) == parse(args[0])
    elif kind == "kiss":
        frame = bytes([int(args[0]) << 4]) + parse(args[1])
        assert b"\xc0" + slip(frame) == octets and unslip(octets[1:]) == frame
    elif kind == "lane":
        assert lane(args[0], parse(args[1])) == octets
    elif kind == "ppp":
        accm, acfc, pfc, protocol, packet = int(args[0], 16), int(args[1]), int(args[2]), int(args[3], 16), parse(args[4])
        assert hdlc(accm, acfc, pfc, protocol, packet) == octets and unhdlc(octets) == (protocol, packet)
    elif kind == "slirp":
        assert unhdlc(octets) == (int(args[0], 16), parse(args[1]))
        assert hdlc(0xFFFFFFFF, 0, 0, int(args[0], 16), parse(args[1])) == octets
    elif kind == "vj":
        packet = parse(args[0])
        assert packer.pack(packet) == (args[1], octets), packer.slots
        assert unpacker.unpack(args[1], octets) == packet
    else:
        raise AssertionError(f"no vector is called {kind}")


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        print(HEAD + "\n".join(lines()))
        return 0
    bad = count = 0
    packer, unpacker = Packer(), Unpacker()
    for at, line in enumerate(VECTOR.read_text().splitlines(), 1):
        if line.startswith("#"):
            continue
        count += 1
        try:
            check(line.split(), packer, unpacker)
        except (AssertionError, IndexError, KeyError, ValueError) as error:
            print(f"serial.txt, line {at}: {line[:100]}: {error!r}", file=sys.stderr)
            bad += 1
    assert fcs16(b"123456789") == 0x906E
    print(f"serial.txt: {count} vectors, {bad} wrong")
    return 1 if bad or count < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
