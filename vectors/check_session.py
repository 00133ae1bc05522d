#!/usr/bin/env python3
"""A second implementation of docs/protocol/session.md, checked against session-handshake.txt and session-open.txt.

Written from the page, not from the Rust code: it makes every datagram of the vector from the secrets alone and
compares bytes. Needs the `cryptography` package. Exit 0 if everything agrees, 1 otherwise.
"""
import hashlib
import hmac
import pathlib
import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

VECTORS = [pathlib.Path(__file__).with_name(name) for name in ("session-handshake.txt", "session-open.txt")]
NAME = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s"


def blake2s(data: bytes) -> bytes:
    return hashlib.blake2s(data).digest()


def hkdf(key: bytes, material: bytes, outputs: int) -> list[bytes]:
    def mac(k: bytes, m: bytes) -> bytes:
        return hmac.new(k, m, hashlib.blake2s).digest()

    temp, out, last = mac(key, material), [], b""
    for i in range(1, outputs + 1):
        last = mac(temp, last + bytes([i]))
        out.append(last)
    return out


def public(private: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def dh(private: bytes, peer: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))


class Symmetric:
    """Noise's SymmetricState (revision 34, section 5.2)."""

    def __init__(self, prologue: bytes, responder_public: bytes):
        self.h = NAME if len(NAME) == 32 else (NAME.ljust(32, b"\0") if len(NAME) < 32 else blake2s(NAME))
        self.ck, self.k, self.n = self.h, b"", 0
        self.mix_hash(prologue)
        self.mix_hash(responder_public)

    def mix_hash(self, data: bytes):
        self.h = blake2s(self.h + data)

    def mix_key(self, material: bytes):
        self.ck, self.k = hkdf(self.ck, material, 2)
        self.n = 0

    def mix_key_and_hash(self, material: bytes):
        self.ck, h, self.k = hkdf(self.ck, material, 3)
        self.mix_hash(h)
        self.n = 0

    def encrypt(self, plain: bytes) -> bytes:
        nonce = bytes(4) + self.n.to_bytes(8, "little")
        sealed = ChaCha20Poly1305(self.k).encrypt(nonce, plain, self.h)
        self.mix_hash(sealed)
        self.n += 1
        return sealed


def macs(message: bytes, receiver_public: bytes) -> bytes:
    key = hashlib.sha256(b"wavelane mac1 v1" + receiver_public).digest()
    return message + hmac.new(key, message, hashlib.sha256).digest()[:16] + bytes(16)


def seal(key: bytes, receiver: bytes, lane: int, number: int, plain: bytes) -> bytes:
    header = bytes([4, lane]) + receiver + number.to_bytes(6, "big")
    nonce = bytes([0, 0, 0, lane]) + number.to_bytes(8, "big")
    return header + AESGCM(key).encrypt(nonce, plain, header)


def seal_partly(key: bytes, receiver: bytes, lane: int, number: int, plain: bytes, opened: int) -> bytes:
    header = bytes([6, lane]) + receiver + number.to_bytes(6, "big")
    nonce = bytes([0, 0, 0, lane]) + number.to_bytes(8, "big")
    hidden, octets = plain[:-opened], plain[-opened:]
    length = opened.to_bytes(2, "big")
    sealed = AESGCM(key).encrypt(nonce, hidden, header + length + hashlib.sha256(octets).digest())
    return header + sealed[:-16] + octets + length + sealed[-16:]


def make(v: dict[str, bytes]) -> dict[str, bytes]:
    capabilities = v.get("capabilities", (1).to_bytes(4, "big"))
    si, sr, ei, er = (v[k] for k in ("initiator_private", "responder_private", "initiator_ephemeral", "responder_ephemeral"))
    initiator, responder = v["init"][2:6], v["response"][2:6]  # indices are free choices
    s = Symmetric(b"wavelane session" + b"\x01" + initiator, public(sr))
    # First message: e, es, s, ss.
    noise = public(ei)
    s.mix_hash(public(ei))
    s.mix_key(public(ei))
    s.mix_key(dh(ei, public(sr)))
    noise += s.encrypt(public(si))
    s.mix_key(dh(si, public(sr)))
    noise += s.encrypt(b"\x01" + capabilities + v["initiator_epoch"] + (1).to_bytes(8, "big"))
    init = macs(b"\x01\x01" + initiator + noise, public(sr))
    # Answer: e, ee, se, psk.
    noise = public(er)
    s.mix_hash(public(er))
    s.mix_key(public(er))
    s.mix_key(dh(er, public(ei)))
    s.mix_key(dh(er, public(si)))
    s.mix_key_and_hash(v["preshared"])
    noise += s.encrypt(b"\x01" + capabilities + v["responder_epoch"] + responder + b"\x01")
    response = macs(b"\x02\x01" + responder + initiator + noise, public(si))
    forth, back = hkdf(s.ck, b"", 2)
    return {
        "init": init,
        "response": response,
        "data_confirm": seal(forth, responder, 0, 0, b""),
        "data_forth": seal(forth, responder, 0, 1, v["plain_forth"]),
        "data_back": seal(back, initiator, 0, 0, v["plain_back"]),
    } | ({"data_open": seal_partly(forth, responder, 0, 2, v["plain_open"], 6)} if "plain_open" in v else {})


def wrong_in(path: pathlib.Path) -> list[str]:
    lines = (line.split(" = ") for line in path.read_text().splitlines() if not line.startswith("#"))
    vector = {name: bytes.fromhex(value) for name, value in lines}
    return [name for name, made in make(vector).items() if made != vector[name]]


def main() -> int:
    wrong = [(path, name) for path in VECTORS for name in wrong_in(path)]
    for path, name in wrong:
        print(f"{name} differs from {path.name}: the format changed, or the page is wrong", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
