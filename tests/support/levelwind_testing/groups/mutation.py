"""Mutated bytes: a sound record after a broken disk, another version or an attacker."""

from random import Random

LENGTHS = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\0\0\0",
    b"\x7f\xff",
    b"\xff\xff",
    b"\xff\xff\xff\xff\x0f",
]
WORDS = [
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"[" * 3000,
    b'"\\ud800"',
    b"9" * 5000,
    b'"0-2147483647"',
    b"{}",
    b"true",
]


def mutated(draw: Random, raw: bytes, *, words: bool = False) -> bytes:
    """A record with one to three random mutations."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        at = draw.randrange(len(raw) + 1)
        end = at + draw.choice((1, 1, 2, 4, 9))
        match draw.randrange(6):
            case 0:
                raw = raw[:at]
            case 1:
                raw = raw[:at] + draw.randbytes(end - at) + raw[end:]
            case 2:
                put = draw.choice(WORDS if words else LENGTHS)
                raw = raw[:at] + put + raw[at + len(put) :]
            case 3:
                raw = raw[:at] + raw[end:]
            case 4:
                raw = raw[:end] + raw[at:]
            case _:
                raw = (
                    raw[:at]
                    + bytes([(raw[at] if at < len(raw) else 0) ^ 1 << draw.randrange(8)])
                    + raw[at + 1 :]
                )
    return raw
