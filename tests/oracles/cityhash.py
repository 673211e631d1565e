"""CityHash64, version 1.0: how CatBoost turns the text of a category into a number.

Pike and Alakuijala, CityHash (Google, 2011). Plain integers modulo 2^64; only a column's distinct values come here.
"""

from __future__ import annotations

MASK = 2**64 - 1
K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
MIX = 0x9DDFEA08EB382D69
BLOCK = 64


def category_hash(text: str) -> int:
    """Hash a category as CatBoost does: the lower 32 bits of CityHash64 of its UTF-8 bytes."""
    return city_hash64(text.encode()) & 0xFFFFFFFF


def city_hash64(data: bytes) -> int:
    """Hash bytes to 64 bits."""
    n = len(data)
    if n <= 16:
        return _up_to_16(data)
    if n <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if n <= BLOCK else _beyond_64(data)


def _word(data: bytes, at: int, size: int = 8) -> int:
    """Little-endian integer; negative places count from the end."""
    at += len(data) * (at < 0)
    return int.from_bytes(data[at : at + size], "little")


def _rotate(x: int, shift: int) -> int:
    x &= MASK
    return x if shift == 0 else (x >> shift | x << (64 - shift)) & MASK


def _shift_mix(x: int) -> int:
    x &= MASK
    return x ^ x >> 47


def _join(low: int, high: int) -> int:
    """Hash of 16 bytes, which every other length ends in."""
    a = _shift_mix(((low ^ high) & MASK) * MIX)
    b = _shift_mix(((high & MASK) ^ a) * MIX)
    return b * MIX & MASK


def _up_to_16(data: bytes) -> int:
    n = len(data)
    if n > 8:
        a, b = _word(data, 0), _word(data, -8)
        return _join(a, _rotate(b + n, n)) ^ b
    if n >= 4:
        return _join(n + (_word(data, 0, 4) << 3), _word(data, -4, 4))
    if n == 0:
        return K2
    y = data[0] + (data[n >> 1] << 8)
    z = n + (data[-1] << 2)
    return _shift_mix(y * K2 ^ z * K3) * K2 & MASK


def _up_to_32(data: bytes) -> int:
    n = len(data)
    a, b, c, d = _word(data, 0) * K1, _word(data, 8), _word(data, -8) * K2, _word(data, -16) * K0
    return _join(_rotate(a - b, 43) + _rotate(c, 30) + d, a + _rotate(b ^ K3, 20) - c + n)


def _half(first: int, words: tuple[int, int, int], last: int) -> tuple[int, int]:
    """Mix one half of 33 to 64 bytes; both halves of the result are sums of words and rotations."""
    second, third, fourth = words
    a, z = first, last
    b, c = _rotate(a + z, 52), _rotate(a, 37)
    a += second
    c += _rotate(a, 7)
    a += third
    return a + fourth, b + _rotate(a, 31) + c


def _up_to_64(data: bytes) -> int:
    n = len(data)
    first = _word(data, 0) + (n + _word(data, -16)) * K0
    v = _half(first, (_word(data, 8), _word(data, 16), _word(data, 24)), _word(data, 24))
    first = _word(data, 16) + _word(data, -32)
    w = _half(first, (_word(data, -24), _word(data, -16), _word(data, -8)), _word(data, -8))
    r = _shift_mix((v[0] + w[1]) * K2 + (w[0] + v[1]) * K0)
    return _shift_mix(r * K0 + v[1]) * K2 & MASK


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Mix 32 bytes into two seeds."""
    w, x, y, z = (_word(data, at + 8 * i) for i in range(4))
    a += w
    b = _rotate(b + a + z, 21)
    c = a
    a += x + y
    return (a + z) & MASK, (b + _rotate(a, 44) + c) & MASK


def _beyond_64(data: bytes) -> int:
    n = len(data)
    x, y, z = _word(data, 0), _word(data, -16) ^ K1, _word(data, -56) ^ K0
    v = _weak(data, n - 64, n, y)
    w = _weak(data, n - 32, n * K1, K0)
    z += _shift_mix(v[1]) * K1
    x = _rotate(z + x, 39) * K1
    y = _rotate(y, 33) * K1
    for at in range(0, (n - 1) // BLOCK * BLOCK, BLOCK):
        x = _rotate(x + y + v[0] + _word(data, at + 16), 37) * K1
        y = _rotate(y + v[1] + _word(data, at + 48), 42) * K1
        x = (x ^ w[1]) & MASK
        y = (y ^ v[0]) & MASK
        z = _rotate(z ^ w[0], 33)
        v = _weak(data, at, v[1] * K1, x + w[0])
        w = _weak(data, at + 32, z + w[1], y)
        z, x = x, z
    return _join(_join(v[0], w[0]) + _shift_mix(y) * K1 + z, _join(v[1], w[1]) + x)
