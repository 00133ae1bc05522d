#!/usr/bin/env python3
"""A second implementation of the frames of virtual retransmission, checked against vtx.txt.

Written from docs/protocol/wire.md and hop.md, not from the Rust code. `--write` prints a new file. Exit 0 if everything agrees, 1 otherwise.
"""
import pathlib
import sys

VECTOR = pathlib.Path(__file__).with_name("vtx.txt")
HEAD = """# Golden vectors of docs/protocol/hop.md, "Virtual retransmission"; vectors/check_vtx.py and `cargo test -p wavelane-services vtx`
# check them. offer number mine block start length frame; answer number mine start length credit here lacks frame, where `here` and
# `lacks` are spans first-end, the first highest first as on the wire, the second lowest first.
"""
KIB = 1024
OFFERS = [(0, 1, 0, 65_536, 64 * KIB), (7, 0, 12, 1 << 33, 256 * KIB), (1 << 20, 1, 300, 0, 1), (63, 0, 16_384, 1 << 40, 4_097)]
# number, mine, start, length, credit, what the node has (any order)
ANSWERS = [
    (0, 1, 65_536, 64 * KIB, 400_000, []),
    (0, 0, 65_536, 64 * KIB, 400_000, [(65_536, 131_072)]),
    (7, 1, 1 << 33, 256 * KIB, (1 << 33) + 300_000, [((1 << 33) + 64 * KIB, (1 << 33) + 128 * KIB), ((1 << 33) + 192 * KIB, (1 << 33) + 256 * KIB)]),
    (63, 0, 1_000, 5_000, 9_999, [(1_000, 1_001), (5_999, 6_000)]),
]


def varint(n: int) -> bytes:
    for log, bits in enumerate([6, 14, 30, 62]):
        if n < 1 << bits:
            size = 1 << log
            return (n | log << (8 * size - 2)).to_bytes(size, "big")
    raise ValueError(n)


def flow(number: int, mine: int) -> bytes:
    return varint(number * 2 + mine)


def offer(number: int, mine: int, block: int, start: int, length: int) -> bytes:
    closed, vtx = 1, 4
    return b"\x06" + flow(number, mine) + varint(block) + varint(start) + bytes([closed | vtx]) + varint(length)


def ranges(spans: list[tuple[int, int]]) -> bytes:
    out, above = varint(len(spans)), None
    for first, end in spans:
        last = end - 1
        out += varint(last if above is None else above - last - 2) + varint(last - first)
        above = first
    return out


def answer(number: int, mine: int, start: int, credit: int, here: list[tuple[int, int]]) -> bytes:
    already_have = 3
    return b"\x09" + flow(number, mine) + bytes([already_have]) + varint(start) + varint(credit) + ranges(here)


def lacking(start: int, length: int, here: list[tuple[int, int]]) -> list[tuple[int, int]]:
    lacks, at = [], start
    for first, end in sorted(here):
        if at < first:
            lacks.append((at, first))
        at = max(at, end)
    if at < start + length:
        lacks.append((at, start + length))
    return lacks


def words(spans: list[tuple[int, int]]) -> str:
    return ",".join(f"{first}-{end}" for first, end in spans) or "none"


def file() -> str:
    lines = [" ".join(map(str, ("offer", *o, offer(*o).hex()))) for o in OFFERS]
    for number, mine, start, length, credit, has in ANSWERS:
        here = sorted(has, reverse=True)
        frame = answer(number, mine, start, credit, here).hex()
        lines.append(f"answer {number} {mine} {start} {length} {credit} {words(here)} {words(lacking(start, length, here))} {frame}")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        sys.stdout.write(file())
    elif VECTOR.read_text() != file():
        sys.exit("vtx.txt differs from what docs/protocol says: compare with check_vtx.py --write")
