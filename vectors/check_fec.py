#!/usr/bin/env python3
"""A second implementation of docs/protocol/fec.md, checked against fec.txt.

Written from the page, not from the Rust code: field elements are polynomials, inverses are searched for, and the
lost datagrams are found by solving the equations. `--write` prints a new file. Exit 0 if everything agrees, 1 otherwise.
"""
import pathlib
import sys

VECTOR = pathlib.Path(__file__).with_name("fec.txt")
MODULUS = 0x11D
NUMBERS = [1_000_000, 1_000_001, 1_000_003, 1_000_004, 1_000_010, 1_000_126, 1_000_127]
PRODUCTS = [(0, 9), (1, 255), (2, 128), (3, 7), (29, 142), (83, 202), (200, 100), (255, 255)]
COEFFICIENTS = [(0, 0), (127, 0), (128, 0), (5, 77), (1_000_000, 127), (2**48 - 1, 3)]


def multiply(a: int, b: int) -> int:
    product = 0
    for bit in range(8):
        if b >> bit & 1:
            product ^= a << bit
    for bit in range(15, 7, -1):
        if product >> bit & 1:
            product ^= MODULUS << (bit - 8)
    return product


def inverse(a: int) -> int:
    return next(b for b in range(1, 256) if multiply(a, b) == 1)


def coefficient(number: int, key: int) -> int:
    return inverse((128 + key) ^ (number % 128))


def padded(datagram: bytes, length: int) -> bytes:
    return (len(datagram).to_bytes(2, "big") + datagram).ljust(length, b"\0")


def symbol(datagrams: dict[int, bytes], key: int) -> bytes:
    length = 2 + max(len(d) for d in datagrams.values())
    total = bytearray(length)
    for number, datagram in datagrams.items():
        factor = coefficient(number, key)
        for i, byte in enumerate(padded(datagram, length)):
            total[i] ^= multiply(byte, factor)
    return bytes(total)


def recover(lost: list[int], known: dict[int, bytes], repairs: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """Gauss-Jordan over as many repair symbols as datagrams are lost."""
    rows = []
    for key, total in repairs[: len(lost)]:
        left = bytearray(total)
        for number, datagram in known.items():
            factor = coefficient(number, key)
            for i, byte in enumerate(padded(datagram, len(total))):
                left[i] ^= multiply(byte, factor)
        rows.append(([coefficient(number, key) for number in lost], left))
    for column in range(len(lost)):
        place = next(r for r in range(column, len(rows)) if rows[r][0][column])
        rows[column], rows[place] = rows[place], rows[column]
        by = inverse(rows[column][0][column])
        rows[column] = ([multiply(c, by) for c in rows[column][0]], bytearray(multiply(b, by) for b in rows[column][1]))
        for r in range(len(rows)):
            factor = rows[r][0][column]
            if r != column and factor:
                rows[r] = (
                    [a ^ multiply(b, factor) for a, b in zip(rows[r][0], rows[column][0])],
                    bytearray(a ^ multiply(b, factor) for a, b in zip(rows[r][1], rows[column][1])),
                )
    out = {}
    for number, (_, left) in zip(lost, rows):
        length = int.from_bytes(left[:2], "big")
        out[number] = bytes(left[2 : 2 + length])
    return out


def example_datagrams() -> dict[int, bytes]:
    return {n: bytes((n * 31 + i * i * 7 + 5) % 256 for i in range((n * 13) % 47)) for n in NUMBERS}


def write() -> None:
    print("# Golden vectors of docs/protocol/fec.md; vectors/check_fec.py and `cargo test -p wavelane-transport fec::` check")
    print("# them. product a b; coefficient number key; datagram number bytes; repair key first mask symbol.")
    for a, b in PRODUCTS:
        print(f"product {a} {b} {multiply(a, b)}")
    for number, key in COEFFICIENTS:
        print(f"coefficient {number} {key} {coefficient(number, key)}")
    datagrams = example_datagrams()
    for number, datagram in datagrams.items():
        print(f"datagram {number} {datagram.hex()}".rstrip())
    mask = sum(1 << (n - NUMBERS[0]) for n in NUMBERS)
    for key in range(4):
        print(f"repair {key} {NUMBERS[0]} {mask:x} {symbol(datagrams, key).hex()}")


def main() -> int:
    if sys.argv[1:] == ["--write"]:
        write()
        return 0
    wrong, checked, datagrams, repairs = [], 0, {}, []
    for line in VECTOR.read_text().splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        checked += 1
        if words[0] == "product":
            agrees = multiply(int(words[1]), int(words[2])) == int(words[3])
        elif words[0] == "coefficient":
            agrees = coefficient(int(words[1]), int(words[2])) == int(words[3])
        elif words[0] == "datagram":
            datagrams[int(words[1])] = bytes.fromhex(words[2] if len(words) > 2 else "")
            agrees = True
        elif words[0] == "repair":
            key, first, mask, total = int(words[1]), int(words[2]), int(words[3], 16), bytes.fromhex(words[4])
            repairs.append((key, total))
            covered = [first + i for i in range(128) if mask >> i & 1]
            agrees = covered == list(datagrams) and symbol(datagrams, key) == total
        else:
            agrees = False
        if not agrees:
            wrong.append(line)
    for lost in (list(datagrams)[:1], list(datagrams)[1:4], list(datagrams)[-4:]):
        known = {n: d for n, d in datagrams.items() if n not in lost}
        if recover(lost, known, repairs) != {n: datagrams[n] for n in lost}:
            wrong.append(f"recovering {lost}")
        checked += 1
    for line in wrong:
        print(f"differs: {line}", file=sys.stderr)
    print(f"{checked - len(wrong)} of {checked} agree")
    return 1 if wrong or checked < 20 else 0


sys.exit(main())
