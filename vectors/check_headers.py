#!/usr/bin/env python3
"""A second implementation of compressed TCP/IP headers, checked against headers.txt.

Written from docs/protocol/packets.md, not from the Rust code: it builds packets, tells each by an earlier one, and makes the packet again of
that and the frame. `--write` prints a new file. Exit 0 if everything agrees, 1 otherwise.
"""
import pathlib
import sys

from check_frames import Octets, read, write

VECTOR = pathlib.Path(__file__).with_name("headers.txt")
HEAD = """# Golden vectors of docs/protocol/packets.md, "Compressed headers". vectors/check_headers.py and `cargo test -p wavelane-wire headers` check
# them. A line is a name, the packet that is kept (number 65,538), a later one (number 65,541) and the frame that tells it; all hexadecimal.
"""
BASE, AHEAD = 65538, 3
TIMES = bytes([1, 1, 8, 10])


def checksum(data: bytes) -> int:
    data += b"\x00" * (len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def packet(p: dict) -> bytes:
    """The packet of these fields, as a host writes it."""
    options = b""
    if p["times"] is not None:
        options += TIMES + b"".join(n.to_bytes(4, "big") for n in p["times"])
    if p["sack"]:
        options += bytes([1, 1, 5, 2 + 8 * len(p["sack"])]) + b"".join(n.to_bytes(4, "big") for block in p["sack"] for n in block)
    tcp = b"".join(n.to_bytes(size, "big") for n, size in [(p["ports"], 4), (p["sequence"], 4), (p["ack"], 4), ((20 + len(options)) // 4 << 4, 1), (p["control"], 1), (p["window"], 2), (0, 4)])
    tcp += options + p["payload"]
    addresses = bytes.fromhex(p["addresses"])
    pseudo = addresses + len(tcp).to_bytes(4, "big") + (6).to_bytes(4, "big")
    tcp = tcp[:16] + p.get("checksum", checksum(pseudo + tcp)).to_bytes(2, "big") + tcp[18:]
    if len(addresses) == 8:
        ip = bytes([0x45, p["class"]]) + (20 + len(tcp)).to_bytes(2, "big") + p["id"].to_bytes(2, "big") + bytes([0x40, 0, 64, 6, 0, 0]) + addresses
        ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    else:
        ip = (6 << 28 | p["class"] << 20 | 0x12345).to_bytes(4, "big") + len(tcp).to_bytes(2, "big") + bytes([6, 64]) + addresses
    return ip + tcp


def tell(old: dict, new: dict, keep: bool, order: tuple[int, int] | None) -> bytes:
    def moved(key: str, bits: int) -> int:
        return (new[key] - old[key]) % (1 << bits)

    data, at, flags = packet(new), (20 if len(new["addresses"]) == 16 else 40) + 16, 0
    values = {"base": BASE % (1 << 16), "ahead": AHEAD, "checksum": int.from_bytes(data[at : at + 2], "big")}
    times = [(n - o) % (1 << 32) for n, o in zip(new["times"] or (0, 0), old["times"] or (0, 0))]
    blocks = ",".join(f"{(left - new['ack']) % (1 << 32)}:{(right - left) % (1 << 32)}" for left, right in new["sack"])
    for bit, parts in [
        (1, {"id": moved("id", 16) if len(new["addresses"]) == 16 else 0}),
        (2, {"acknowledged": moved("ack", 32)}),
        (4, {"window": new["window"]} if new["window"] != old["window"] else {}),
        (8, dict(zip(("time", "echo"), times)) if any(times) else {}),
        (32, {"sequence": moved("sequence", 32)}),
        (64, {"sack": blocks} if blocks else {}),
        (128, {"control": new["control"]} if new["control"] != old["control"] else {}),
        (256, {"class": new["class"]} if new["class"] != old["class"] else {}),
        (512, dict(zip(("back", "hold_ms"), order)) if order else {}),
        (1024, {"payload": new["payload"].hex()} if new["payload"] else {}),
    ]:
        if parts and (bit in (4, 8, 128, 256) or any(parts.values())):
            flags |= bit
            values |= parts
    values["flags"] = flags | (16 if keep else 0)
    return write("compressed", {key: str(value) for key, value in values.items()})


def make(old: dict, frame: bytes) -> bytes:
    """The packet again, from the frame's octets."""
    name, v = read(o := Octets(frame))
    assert name == "compressed" and not o.data
    new = dict(old)
    for key, field, bits in [("id", "id", 16), ("ack", "acknowledged", 32), ("sequence", "sequence", 32)]:
        new[key] = (old[key] + int(v.get(field, 0))) % (1 << bits)
    for key, field in [("window", "window"), ("control", "control"), ("class", "class")]:
        new[key] = int(v.get(field, old[key]))
    if old["times"] is not None:
        new["times"] = tuple((t + int(v.get(field, 0))) % (1 << 32) for t, field in zip(old["times"], ("time", "echo")))
    blocks = [tuple(map(int, block.split(":"))) for block in v["sack"].split(",")] if "sack" in v else []
    new["sack"] = [((new["ack"] + a) % (1 << 32), (new["ack"] + a + n) % (1 << 32)) for a, n in blocks]
    new["payload"], new["checksum"] = bytes.fromhex(v.get("payload", "")), int(v["checksum"])
    return packet(new)


def file() -> str:
    four = {"addresses": "0a0100020a020003", "ports": 0xC3500050, "sequence": 1000, "ack": 0xFFFFFF00, "control": 0x10, "window": 501, "class": 0, "id": 65535, "times": (70000, 90000), "sack": [], "payload": b""}
    six = {**four, "addresses": "20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02", "id": 0}
    later = {"ack": (0xFFFFFF00 + 28960) % (1 << 32), "times": (70130, 90128)}
    cases = [
        ("acknowledgement", four, {**later, "id": 3}, False, None),
        ("window_moves", four, {**later, "id": 3, "window": 600}, True, None),
        ("version_six", six, later, True, None),
        ("no_timestamps", {**four, "times": None}, {"ack": 0xFFFFFF01, "id": 0}, False, None),
        ("sack", four, {**later, "id": 1, "sack": [(40000, 41448), (30000, 31448)]}, False, None),
        ("after_sack", {**four, "sack": [(1, 2)]}, {"id": 0, "sack": []}, False, None),
        ("data", four, {"id": 0, "sequence": 2448, "control": 0x18, "payload": b"data", "times": (70001, 90000)}, False, (1, 333)),
        ("congestion", six, {"class": 3, "control": 0x50, "sequence": 999}, False, None),
    ]
    lines = []
    for name, old, changed, keep, order in cases:
        new = {**old, **changed}
        frame = tell(old, new, keep, order)
        if make(old, frame) != packet(new):
            raise SystemExit(f"{name} becomes another packet")
        lines.append(f"{name} {packet(old).hex()} {packet(new).hex()} {frame.hex()}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        sys.stdout.write(file())
    elif VECTOR.read_text() != file():
        sys.exit("headers.txt differs from what docs/protocol says: compare with check_headers.py --write")
