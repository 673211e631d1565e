"""Protocol Buffers as nested lists of (field, kind, value), to change values and write lengths that fit."""

from __future__ import annotations

import struct

from tests.fuzz.mutators import FLOATS, HUGE, INTEGERS, TERMINAL, pick

NESTED = {(): (7,), (7,): (1, 11, 12), (7, 1): (5,), (7, 1, 5): (5,)}
"""Fields that hold messages, by the path to them: the graph, its operators and inputs, attributes, tensors."""

TEXTS = (b"", b"LEAF", b"BRANCH_LEQ", b"BRANCH_EQ", b"BRANCH_MEMBER", b"SOFTMAX", b"MIN", b"\xff\xfe", b"nodes_values")
TEXTS += (TERMINAL.encode(),) * 2


def decode(data, path=()):
    """Fields of a message, in their order."""
    fields, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        field, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(data, at)
        elif kind == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
            if field in NESTED.get(path, ()):
                value = decode(value, (*path, field))
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = data[at : at + size], at + size
        fields.append([field, kind, value])
    return fields


def encode(fields):
    """The message of fields."""
    parts = []
    for field, kind, value in fields:
        parts.append(bytes(_write(field << 3 | kind)))
        if kind == 0:
            parts.append(bytes(_write(value)))
            continue
        content = encode(value) if isinstance(value, list) else value
        parts += [bytes(_write(len(content)))] * (kind == 2) + [content]
    return b"".join(parts)


def mutate(rng, fields):
    """Change up to three values, or the order or number of fields, somewhere in the message."""
    for _ in range(1 + int(rng.integers(3))):
        place = fields
        while True:
            nested = [one for one in place if isinstance(one[2], list) and one[2]]
            if not nested or rng.random() < 0.25:
                break
            place = pick(rng, nested)[2]
        if place:
            _change(rng, place)
    return fields


def mutate_structure(rng, fields):
    """Change what says how nodes hang together: roots, children, trees and numbers of nodes, outputs of leaves."""
    attributes = [
        attribute[2]
        for graph in _parts(fields, 7)
        for node in _parts(graph, 1)
        for attribute in node
        if attribute[0] == 5 and any(field[0] in {3, 8} for field in attribute[2])
    ]
    for _ in range(1 + int(rng.integers(3))):
        if attributes:
            _change_integers(rng, pick(rng, attributes))
    return fields


def _parts(fields, number):
    """Messages in a field."""
    return [value for field, _, value in fields if field == number and isinstance(value, list)]


def _change_integers(rng, attribute):
    """Other entries in a list of integers: exchanged, repeated, cut, set to each other or to special numbers."""
    for field in attribute:
        if field[0] == 3:
            field[2] = pick(rng, (*INTEGERS, *HUGE)) % 2**64
            return
    values = [number for field in attribute if field[0] == 8 for number in _numbers(field)]
    if not values:
        return
    at, other, roll = int(rng.integers(len(values))), int(rng.integers(len(values))), int(rng.integers(8))
    if roll == 0:
        values[at] = values[other]
    elif roll == 1:
        values[at], values[other] = values[other], values[at]
    elif roll == 2:
        values[at] = pick(rng, INTEGERS) % 2**64
    elif roll == 3:
        values[at] = (values[at] + pick(rng, (1, -1, 2, -2))) % 2**64
    elif roll == 4:
        values += [values[at]] * int(rng.integers(1, 200))
    elif roll == 5:
        values *= int(rng.integers(2, 50))
    elif roll == 6:
        del values[at : at + int(rng.integers(1, 9))]
    else:
        values = [values[at]] * len(values)
    attribute[:] = [field for field in attribute if field[0] != 8]
    packed = b"".join(bytes(_write(value)) for value in values)
    attribute += [[8, 2, packed]] if rng.random() < 0.5 else [[8, 0, value] for value in values]


def _numbers(field):
    """Integers of a field, packed or alone."""
    _, kind, value = field
    if kind == 0:
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _change(rng, fields):
    at = int(rng.integers(len(fields)))
    _, kind, value = fields[at]
    roll = rng.random()
    if roll < 0.15:
        del fields[at]
    elif roll < 0.25:
        fields.insert(int(rng.integers(len(fields))), list(fields[at]))
    elif kind == 0:
        fields[at][2] = (pick(rng, (*INTEGERS, *HUGE)) if rng.random() < 0.5 else int(rng.integers(60))) % 2**64
    elif kind == 2 and not isinstance(value, list):
        fields[at][2] = _changed_bytes(rng, value)
    elif kind == 5:
        number = pick(rng, FLOATS)
        fields[at][2] = struct.pack("<f", number if abs(number) < 3.41e38 else float("inf"))
    elif kind == 1:
        fields[at][2] = struct.pack("<d", pick(rng, FLOATS))


def _changed_bytes(rng, value):
    if rng.random() < 0.4 or not value:
        return pick(rng, TEXTS)
    data = bytearray(value)
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(data[: len(data) - int(rng.integers(3))]) if rng.random() < 0.2 else bytes(data)


def _varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _write(value):
    while value > 127:
        yield value & 127 | 128
        value >>= 7
    yield value
