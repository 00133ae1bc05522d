#!/usr/bin/env python3
"""A second implementation of all frames, checked against frames.txt.

Written from docs/protocol/wire.md and packets.md, not from the Rust code: it writes the frame of each line from its fields, reads the
fields from the frame's octets, and refuses what must be refused. `--write` prints a new file. Exit 0 if everything agrees, 1 otherwise.
"""
import ipaddress
import pathlib
import sys

VECTOR = pathlib.Path(__file__).with_name("frames.txt")
HEAD = """# Golden vectors of docs/protocol/wire.md, "Frames": every type in each of its forms. vectors/check_frames.py and
# `cargo test -p wavelane-wire frames` check them. A line is a name, fields, and the frame's octets; octet strings are hexadecimal, ranges
# first-last, highest first, and `-` stands for nothing. A line `refused` is a datagram whose first frame is malformed.
"""
NUMBER_MAX, RANGES_MAX = (1 << 48) - 1, 256


class Malformed(Exception):
    """Octets that are no frame."""


def check(right: bool) -> None:
    if not right:
        raise Malformed


class Octets:
    """What is left of a datagram."""

    def __init__(self, data: bytes):
        self.data = data

    def take(self, n: int) -> bytes:
        check(n <= len(self.data))
        out, self.data = self.data[:n], self.data[n:]
        return out

    def u(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def varint(self) -> int:
        check(bool(self.data))
        size = 1 << (self.data[0] >> 6)
        return self.u(size) & ((1 << (8 * size - 2)) - 1)


def varint(n: int) -> bytes:
    for log, bits in enumerate([6, 14, 30, 62]):
        if n < 1 << bits:
            size = 1 << log
            return (n | log << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(n)


# Each field has a writer, from its text, and a reader, to its text.
def number(size: int, high: int | None = None, low: int = 0):
    def read(o: Octets) -> str:
        n = o.u(size)
        check(n >= low and (high is None or n <= high))
        return str(n)

    return lambda text: int(text).to_bytes(size, "big"), read


def octets(size: int):
    return bytes.fromhex, lambda o: o.take(size).hex()


def read_flow(o: Octets) -> str:
    n = o.varint()
    return f"{n >> 1}{'+' if n & 1 else '-'}"


def write_flow(text: str) -> bytes:
    return varint(int(text[:-1]) * 2 + (text[-1] == "+"))


def write_address(text: str) -> bytes:
    host, port = text.rsplit(":", 1)
    ip = ipaddress.ip_address(host.strip("[]"))
    return bytes([ip.version]) + ip.packed + int(port).to_bytes(2, "big")


def read_address(o: Octets) -> str:
    version = o.u(1)
    check(version in (4, 6))
    ip = ipaddress.ip_address(o.take(4 if version == 4 else 16))
    return f"{ip}:{o.u(2)}" if version == 4 else f"[{ip}]:{o.u(2)}"


def write_ranges(text: str) -> bytes:
    spans = [tuple(map(int, span.split("-"))) for span in text.split(",") if text != "-"]
    out, above = varint(len(spans)), None
    for first, last in spans:
        out += varint(last if above is None else above - last - 2) + varint(last - first)
        above = first
    return out


def read_ranges(o: Octets) -> str:
    count, spans = o.varint(), []
    check(count <= RANGES_MAX)
    for _ in range(count):
        step, more = o.varint(), o.varint()
        last = spans[-1][0] - step - 2 if spans else step
        check(0 <= last - more)
        spans.append((last - more, last))
    return ",".join(f"{first}-{last}" for first, last in spans) or "-"


def read_numbers(o: Octets) -> str:
    text = read_ranges(o)
    check(text != "-" and int(text.split(",")[0].split("-")[1]) <= NUMBER_MAX)
    return text


def write_word(text: str) -> bytes:
    count, tag = text.split(":")
    return varint(int(count)) + bytes.fromhex(tag)


def read_word(o: Octets) -> str:
    return f"{o.varint()}:{o.take(16).hex()}"


def seal(size: int):
    def write(text: str) -> bytes:
        kind, rest = text.split(":", 1)
        return b"\x00" + bytes.fromhex(rest) if kind == "keys" else b"\x01" + write_word(rest)

    def read(o: Octets) -> str:
        kind = o.u(1)
        check(kind <= 1)
        return "keys:" + o.take(size).hex() if kind == 0 else "word:" + read_word(o)

    return write, read


def write_mask(text: str) -> bytes:
    mask = int(text, 16)
    size = (mask.bit_length() + 7) // 8
    return bytes([size]) + mask.to_bytes(size, "little")


def read_mask(o: Octets) -> str:
    size = o.u(1)
    check(1 <= size <= 16)
    mask = int.from_bytes(o.take(size), "little")
    check(mask & 1 == 1)
    return f"{mask:x}"


def write_blocks(text: str) -> bytes:
    blocks = [pair.split(":") for pair in text.split(",")]
    return bytes([len(blocks)]) + b"".join(varint(int(n)) for pair in blocks for n in pair)


def read_blocks(o: Octets) -> str:
    count = o.u(1)
    check(1 <= count <= 4)
    blocks = [(o.varint(), o.varint()) for _ in range(count)]
    check(all(n < 1 << 32 for block in blocks for n in block))
    return ",".join(f"{ahead}:{length}" for ahead, length in blocks)


BLOCKS = write_blocks, read_blocks
FLOW, ADDRESS, RANGES = (write_flow, read_flow), (write_address, read_address), (write_ranges, read_ranges)
LONG = (lambda text: varint(int(text))), lambda o: str(o.varint())
BYTE, FLAG, REASON = number(1), number(1, 1), number(1, 9, 1)
COUNTED = (lambda t: varint(len(t) // 2) + bytes.fromhex(t)), (lambda o: o.take(o.varint()).hex())
REST = bytes.fromhex, lambda o: o.take(len(o.data)).hex()
NUMBERS, WORD, MASK = (write_ranges, read_numbers), (write_word, read_word), (write_mask, read_mask)
OPEN = [("flow", FLOW), ("source", ADDRESS), ("target", ADDRESS), ("credit", LONG)]
ANSWER = [("flow", FLOW), ("refusal", number(1, 9)), ("credit", LONG)]
PROGRESS = [("flow", FLOW), ("received", LONG), ("finished", FLAG)]
# Fields behind flags are there if their bit is set; then (bit, name, field).
FRAMES = {
    "padding": (0x00, []),
    "ping": (0x01, []),
    "lane_ack": (0x02, [("lane", BYTE), ("delay_us", LONG), ("arrival_us", LONG), ("ect0", LONG), ("ect1", LONG), ("ce", LONG), ("numbers", NUMBERS)]),
    "ack_wish": (0x03, [("lane", BYTE), ("packets", LONG), ("delay_us", LONG), ("now", FLAG)]),
    "open": (0x04, OPEN),
    "answer": (0x05, ANSWER),
    "offer": (0x06, [("flow", FLOW), ("block", LONG), ("start", LONG), ("flags", number(1, 15)), (1, "length", LONG)]),
    "data": (0x07, [("flow", FLOW), ("offset", LONG), ("octets", COUNTED)]),
    "data_to_end": (0x08, [("flow", FLOW), ("offset", LONG), ("octets", REST)]),
    "receipt": (0x09, [("flow", FLOW), ("state", number(1, 5)), ("cumulative", LONG), ("credit", LONG), ("ranges", RANGES)]),
    "finish": (0x0A, [("flow", FLOW), ("length", LONG)]),
    "reset": (0x0B, [("flow", FLOW), ("reason", REASON)]),
    "forget": (0x0C, [("below", LONG), ("ranges", RANGES)]),
    "progress": (0x0D, PROGRESS),
    "close": (0x0E, []),
    "protected": (0x0F, []),
    "repair": (0x10, [("lane", BYTE), ("key", number(1, 127)), ("first", LONG), ("mask", MASK), ("symbol", REST)]),
    "repaired": (0x11, [("lane", BYTE), ("numbers", NUMBERS)]),
    "reset_after": (0x12, [("flow", FLOW), ("reason", REASON), ("octets", LONG), ("ended", FLAG)]),
    "progress_word": (0x13, [*PROGRESS, ("word", WORD)]),
    "compressed": (0x14, [("flags", LONG), ("base", number(2)), ("ahead", LONG), ("checksum", number(2)), (1, "id", LONG), (2, "acknowledged", LONG), (4, "window", number(2)), (8, "time", LONG), (8, "echo", LONG), (32, "sequence", LONG), (64, "sack", BLOCKS), (128, "control", BYTE), (256, "class", BYTE), (512, "back", LONG), (512, "hold_ms", LONG), (1024, "payload", COUNTED)]),
    "open_passage": (0x18, [*OPEN, ("token", octets(16)), ("relays", BYTE), ("flags", number(1, 15)), (1, "received", LONG), (4, "attempt", LONG), (8, "seal", seal(101))]),
    "answer_passage": (0x19, [*ANSWER, ("received", LONG)]),
    "answer_sealed": (0x1A, [*ANSWER, ("received", LONG), ("seal", seal(49))]),
    "packet": (0x40, [("flags", number(1, 7)), ("number", LONG), (1, "back", LONG), (1, "hold_ms", LONG), (2, "offset", number(2)), (2, "total", number(2)), ("octets", REST)]),
    "heard": (0x41, [("octets", REST)]),
    "data_by_digest": (0x42, [("flow", FLOW), ("offset", LONG), ("length", LONG), ("digest", octets(16))]),
    "path_challenge": (0x48, [("octets", octets(8))]),
    "path_response": (0x49, [("octets", octets(8))]),
    "lane_gone": (0x4A, [("lane", BYTE), ("next", number(8))]),
    "metered": (0x4B, [("lanes", BYTE), ("order", BYTE)]),
}
KINDS = {kind: name for name, (kind, _) in FRAMES.items()}


def fields(name: str, flags_of):
    """Those of a frame that are there, by its flags."""
    for field in FRAMES[name][1]:
        if len(field) == 2:
            yield field
        elif flags_of() & field[0]:
            yield field[1:]


def write(name: str, values: dict[str, str]) -> bytes:
    body = b"".join(kind[0](values[key]) for key, kind in fields(name, lambda: int(values["flags"])))
    kind = FRAMES[name][0]
    return varint(kind) + (varint(len(body)) if kind >= 0x40 else b"") + body


def read(o: Octets) -> tuple[str, dict[str, str]]:
    kind = o.varint()
    body = Octets(o.take(o.varint())) if kind >= 0x40 else o
    if kind >= 0x40 and kind not in KINDS:
        return "skipped", {"type": str(kind)}
    check(kind in KINDS)
    name, values = KINDS[kind], {}
    for key, field in fields(name, lambda: int(values["flags"])):
        values[key] = field[1](body)
    forbidden = [
        kind >= 0x40 and bool(body.data),
        name == "open_passage" and values.get("attempt") == "0",
        name == "packet" and (not values["octets"] or "back" in values and not 0 < int(values["back"]) <= int(values["number"])),
        name == "packet" and "offset" in values and int(values["offset"]) + len(values["octets"]) // 2 > int(values["total"]),
        name == "packet" and int(values["flags"]) & 6 == 6,
        name == "compressed" and not (int(values["flags"]) < 2048 and 0 < int(values["ahead"]) < 1 << 14),
        name == "compressed" and (values.get("time"), values.get("echo")) == ("0", "0"),
        name == "compressed" and any(values.get(key) == "0" for key in ("id", "acknowledged", "sequence", "back")),
        name == "compressed" and any(int(values.get(key, 0)) >= 1 << bits for key, bits in [("id", 16), ("acknowledged", 32), ("time", 32), ("echo", 32), ("sequence", 32)]),
        name == "compressed" and values.get("payload") == "",
        name == "heard" and len(values["octets"]) // 2 not in range(8, 513, 8),
        name == "data_by_digest" and not 0 < int(values["length"]) <= 0xFFFF,
        name == "repair" and int(values["first"]) + int(values["mask"], 16).bit_length() - 1 > NUMBER_MAX,
    ]
    check(not any(forbidden))
    return name, values


def sample() -> list[tuple[str, str]]:
    """The lines' names and fields."""
    word, opened = f"1099511627776:{'03' * 16}", "flow=70+ source=[2001:db8::1]:443 target=192.0.2.1:80 credit=1048576"
    passage = f"{opened} token={'07' * 16} relays=2"
    answer = "flow=1- refusal=0 credit=9"
    lines = [("padding", ""), ("ping", ""), ("close", ""), ("protected", "")]
    lines += [("lane_ack", f"lane=3 delay_us=250 arrival_us=2199023255552 ect0=1 ect1=2 ce=70000 numbers={n}") for n in ("0-0", "90-100,5-7", f"{NUMBER_MAX}-{NUMBER_MAX}")]
    lines += [("ack_wish", "lane=1 packets=8 delay_us=5000 now=1"), ("ack_wish", "lane=0 packets=63 delay_us=64 now=0"), ("open", opened)]
    lines += [("open_passage", f"{passage} flags={flags}{more}") for flags, more in [(0, ""), (2, ""), (3, " received=8589934592"), (7, " received=0 attempt=3"), (8, f" seal=keys:{'05' * 101}"), (13, f" received=1 attempt=1 seal=word:{word}")]]
    lines += [("answer", f"flow=1- refusal={reason} credit=9") for reason in range(10)]
    lines += [("answer_passage", f"{answer} received=8589934592"), ("answer_passage", "flow=1- refusal=8 credit=9 received=5"), ("answer_sealed", f"{answer} received=0 seal=keys:{'06' * 49}"), ("answer_sealed", f"{answer} received=5 seal=word:{word}"), ("answer_sealed", f"flow=1- refusal=8 credit=9 received=5 seal=word:{word}")]
    lines += [("offer", f"flow=0+ block=9 start=8589934592 flags={flags}" + (" length=65536" if flags & 1 else "")) for flags in range(16)]
    lines += [("data", "flow=1+ offset=300 octets=6869"), ("data", "flow=1+ offset=0 octets="), ("data_to_end", "flow=100000000+ offset=1099511627776 octets=686900")]
    lines += [("receipt", f"flow=0- state={state} cumulative=5 credit=16384 ranges={ranges}") for state, ranges in enumerate(["8-9", "-", "-", "1000-2000,20-30,7-7", "-", "-"])]
    lines += [("finish", "flow=3+ length=20000000"), ("forget", "below=12 ranges=20-22"), ("forget", "below=64 ranges=-")]
    lines += [("reset", f"flow=3+ reason={reason}") for reason in range(1, 10)]
    lines += [("reset_after", "flow=3- reason=6 octets=8589934592 ended=0"), ("reset_after", "flow=3- reason=1 octets=0 ended=1")]
    lines += [("progress", "flow=3+ received=8589934592 finished=1"), ("progress_word", f"flow=3+ received=16383 finished=0 word={word}")]
    lines += [("repair", f"lane=0 key=127 first=1099511627776 mask={mask} symbol=090909") for mask in ("1", "81", "101", f"{1 | 1 << 127:x}")]
    lines += [("repair", f"lane=2 key=0 first={NUMBER_MAX - 7} mask=81 symbol="), ("repaired", "lane=2 numbers=7-7,1-3")]
    lines += [("packet", f"flags={flags} number=16384 {more}octets=4500") for flags, more in [(0, ""), (1, "back=2 hold_ms=40 "), (2, "offset=1198 total=1200 "), (3, "back=16384 hold_ms=0 offset=0 total=2 ")]]
    lines += [("packet", "flags=4 number=16384 octets=4500"), ("packet", "flags=5 number=16384 back=2 hold_ms=40 octets=4500")]
    head = "base=65535 ahead=3 checksum=258"
    lines += [("compressed", f"flags={flags} {head}{more}") for flags, more in [
        (0, ""), (11, " id=2 acknowledged=2896 time=120 echo=118"), (31, " id=65535 acknowledged=4294967295 window=501 time=0 echo=1"),
        (66, " acknowledged=1 sack=1448:2896"), (64, " sack=4294965848:1448,1448:1448,4344:16384,65536:0"), (384, " control=24 class=3"),
        (1569, " id=1 sequence=1448 back=1 hold_ms=333 payload=6869")]]
    lines += [("compressed", "flags=0 base=0 ahead=16383 checksum=0")]
    lines += [("heard", f"octets={'1112131415161718' * n}") for n in (1, 2, 64)]
    lines += [("data_by_digest", f"flow=3+ offset={offset} length={length} digest={'0a' * 16}") for offset, length in [(0, 1), (1099511627776, 65535)]]
    lines += [("path_challenge", "octets=0102030405060708"), ("path_response", "octets=0909090909090909")]
    lines += [("lane_gone", "lane=3 next=258"), ("lane_gone", f"lane=7 next={NUMBER_MAX}")]
    lines += [("metered", "lanes=2 order=1"), ("metered", "lanes=255 order=0")]
    return lines


# What must be refused: an unknown type, early ends, forbidden values.
PASSAGE = "1800" + "04c00002010050" * 2 + "09" + "07" * 16 + "00"
REFUSED = [
    *("3f", "14", "15", "1400ffff000102", "1400ffff80004000" + "0102", "1408ffff0101020000", "1401ffff01010200", "1401ffff01010280010000"),
    *("1440400000010102" + "00", "1440400000010102" + "05" + "01" * 10, "1444000000010102" + "00", "1442000000010102" + "0001", "1448000000010102", "404007" + "06070000000145"),
    *( "0741", "0703412c05686900", "1200", "05020040", "4100ff"),
    *("090206050600", "0902000506410100", "0902000506010305", "0300080502", "05020a09", "0b070a", "0b0700", "0d070502", "0600090010"),
    *("040005" + "00" * 10, "100080000101", "1000000000", "100000000102", "1000000011" + "01" * 17, "1000" + "00ffffffffffffffff0101"),
    *("0200000000000000", "110000", "404003080700", "4040020007", "4040050107000045", "4040050107080045", "404007020700010001" + "45"),
    *("404100", "404107" + "01" * 7, "40414208" + "01" * 520, "404213020000" + "0a" * 16, "404216020080010000" + "0a" * 16, "404214020001" + "0a" * 17),
    *("40480701020304050607", "404809010203040506070809", "404a080301020304050607", "404a0a03010203040506070809", PASSAGE + "10", PASSAGE + "0400", PASSAGE + "0802"),
]


def file() -> str:
    lines = []
    for name, text in sample():
        values = dict(pair.split("=", 1) for pair in text.split())
        frame = write(name, values)
        if read(o := Octets(frame)) != (name, values) or o.data:
            raise SystemExit(f"{name} {text} is read as {read(Octets(frame))}")
        lines.append(" ".join([name, *text.split(), frame.hex()]))
    for frame in REFUSED:
        try:
            raise SystemExit(f"{frame} is read as {read(Octets(bytes.fromhex(frame)))}")
        except Malformed:
            lines.append(f"refused {frame}")
    if missing := FRAMES.keys() - {name for name, _ in sample()}:
        raise SystemExit(f"no vector for {missing}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        sys.stdout.write(file())
    elif VECTOR.read_text() != file():
        sys.exit("frames.txt differs from what docs/protocol says: compare with check_frames.py --write")
