#!/usr/bin/env python3
"""A second implementation of docs/protocol/parcels.md, checked against parcels.txt.

Written from the page, not from the Rust code: it makes the handshake, the parcels and the words of the vector from the secrets
alone and compares bytes, opens the parcels, and sees that none opens elsewhere. Needs the `cryptography` package. Exit 0 if
everything agrees, 1 otherwise.
"""
import pathlib
import sys

from check_session import Symmetric, dh, hkdf, public
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

VECTOR = pathlib.Path(__file__).with_name("parcels.txt")
PLAIN_MAX, TAG = 4_078, 16
FORTH, BACK = [b"golden", b"\x55" * 300, b""], [b"vector"]


def prologue() -> bytes:
    """Of the flow from 10.0.0.10:40000 to [2001:db8::9]:80."""
    source = bytes([4, 10, 0, 0, 10]) + (40_000).to_bytes(2, "big")
    target = bytes([6]) + bytes.fromhex("20010db8000000000000000000000009") + (80).to_bytes(2, "big")
    return b"wavelane flow" + b"\x01" + bytes([7] * 16) + source + target


def nonce(domain: int, number: int) -> bytes:
    return domain.to_bytes(4, "big") + number.to_bytes(8, "big")


def seal(cipher, pieces: list[bytes]) -> bytes:
    out = b""
    for piece in pieces:
        length = len(piece).to_bytes(2, "big")
        out += length + cipher.encrypt(nonce(0, len(out)), piece, length)
    return out


def unseal(cipher, stream: bytes) -> list[bytes]:
    """A direction's pieces. Raises if any is not what was sealed at its offset, or if something follows the end."""
    pieces, offset = [], 0
    while offset < len(stream):
        if pieces and not pieces[-1]:
            raise ValueError("octets behind the end")
        head = stream[offset : offset + 2]
        length = int.from_bytes(head, "big")
        if length > PLAIN_MAX:
            raise ValueError("parcel length")
        sealed = stream[offset + 2 : offset + 2 + length + TAG]
        pieces.append(cipher.decrypt(nonce(0, offset), sealed, head))
        offset += 2 + len(sealed)
    return pieces


def word(cipher, count: int, place: int, received: int, finished: int, attempt: int) -> bytes:
    about = bytes([place]) + received.to_bytes(8, "big") + bytes([finished]) + attempt.to_bytes(8, "big")
    return cipher.encrypt(nonce(1, count), b"", about)


def make(v: dict[str, bytes], aes: int) -> tuple[dict[str, bytes], list]:
    si, sr, ei, er = (v[k] for k in ("ingress_private", "egress_private", "ingress_ephemeral", "egress_ephemeral"))
    s = Symmetric(prologue(), public(sr))
    # First message: e, es, s, ss.
    opening = public(ei)
    s.mix_hash(public(ei))
    s.mix_key(public(ei))
    s.mix_key(dh(ei, public(sr)))
    opening += s.encrypt(public(si))
    s.mix_key(dh(si, public(sr)))
    opening += s.encrypt(b"\x01" + aes.to_bytes(4, "big"))
    # Answer: e, ee, se, psk.
    answer = public(er)
    s.mix_hash(public(er))
    s.mix_key(public(er))
    s.mix_key(dh(er, public(ei)))
    s.mix_key(dh(er, public(si)))
    s.mix_key_and_hash(bytes(32))
    answer += s.encrypt(bytes([aes]))
    forth, back = ((AESGCM if aes else ChaCha20Poly1305)(key) for key in hkdf(s.ck, b"", 2))
    words = word(back, 0, 0, 3, 1, 0) + word(back, 1, 1, 3, 0, 2) + word(back, 2, 2, 0, 0, 0)
    made = {
        "prologue": prologue(),
        "open": opening,
        "answer": answer,
        "forth": seal(forth, FORTH),
        "back": seal(back, BACK),
        "words": words,
    }
    return made, [(forth, "forth", FORTH), (back, "back", BACK)]


def opens(cipher, stream: bytes) -> bool:
    try:
        unseal(cipher, stream)
    except (InvalidTag, ValueError):
        return False
    return True


def check(v: dict[str, bytes], aes: int) -> list[str]:
    made, directions = make(v, aes)
    wrong = [name for name, value in made.items() if value != v[name]]
    for cipher, name, pieces in directions:
        if unseal(cipher, v[name]) != pieces:
            wrong.append(f"what {name} holds")
    forth = directions[0][0]
    first, second = v["forth"][:24], v["forth"][24:342]
    for what, stream in [("exchanged", second + first), ("doubled", first + first), ("left out", second)]:
        if opens(forth, stream):
            wrong.append(f"parcels {what} open, which")
    for at in range(len(first)):
        if opens(forth, first[:at] + bytes([first[at] ^ 1]) + first[at + 1 :]):
            wrong.append(f"a parcel changed at {at} opens, which")
    return wrong


def main() -> int:
    lines = (line.split(" = ") for line in VECTOR.read_text().splitlines() if not line.startswith("#"))
    vector = {name: bytes.fromhex(value) for name, value in lines}
    wrong = []
    for aes, cipher in enumerate(["chacha", "aes"]):
        of_cipher = {name.removeprefix(cipher + "_"): value for name, value in vector.items() if name.startswith(cipher)}
        wrong += [f"{cipher}: {name}" for name in check(of_cipher, aes)]
    for name in wrong:
        print(f"{name} differs from {VECTOR.name}: the format changed, or the page is wrong", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
