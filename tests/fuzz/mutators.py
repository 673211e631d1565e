"""Changes of model files: of their bytes, of the values in a document, of the words in a text."""

from __future__ import annotations

import copy
import struct

INTEGERS = (0, 1, -1, 2, 3, 7, 63, 64, 255, 256, 2**15, 2**16, 2**24, 2**31 - 1, -(2**31), 2**31, 2**32, 2**53 + 1)
HUGE = (2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**30))
FLOATS = (0.5, -0.0, 1e-45, 1e-310, 3.4028235e38, 3.5e38, -3.5e38, 1.7e308, -1.7e308, float("nan"), float("inf"))
TERMINAL = "\x1b]0;t\x07\x1b[31m\u202e"
"""What a terminal obeys, or shows out of order."""

TEXTS = ("", "0", "-1", "x", "1e400", "nan", "inf", "[1,2]", "9" * 5000, "é\0\n", "2147483648", "None", "a" * 300)
TEXTS += (TERMINAL, TERMINAL)
OTHERS = (None, True, False, [], {}, [[]], {"a": 1}, [None], [0.5, "x"])


def pick(rng, values):
    """One of them, as Python's own value."""
    return values[int(rng.integers(len(values)))]


def mutate_bytes(rng, data, other):
    """Up to four changes of bytes; `other` is a file of the same format."""
    data = bytearray(data)
    for _ in range(1 + int(rng.integers(4))):
        pick(rng, BYTE_CHANGES)(rng, data, other)
    return bytes(data)


def _flip(rng, data, _):
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def _overwrite(rng, data, _):
    at = int(rng.integers(len(data) + 1))
    word = pick(rng, WORDS)
    data[at : at + len(word)] = word


def _overwrite_aligned(rng, data, _):
    at = int(rng.integers(len(data) // 4 + 1)) * 4
    word = pick(rng, WORDS)
    data[at : at + len(word)] = word


def _cut(rng, data, _):
    first, end = _span(rng, data)
    del data[first:end]


def _repeat(rng, data, _):
    first, end = _span(rng, data)
    data[end:end] = data[first:end]


def _truncate(rng, data, _):
    del data[int(rng.integers(len(data) + 1)) :]


def _splice(rng, data, other):
    first, end = _span(rng, other)
    at = int(rng.integers(len(data) + 1))
    data[at : at + end - first] = other[first:end]


def _span(rng, data):
    first = int(rng.integers(len(data) + 1))
    return first, min(len(data), first + int(rng.integers(1, 64)))


WORDS = tuple(
    struct.pack(order + kind, value)
    for order in "<>"
    for kind, values in (
        ("i", [i for i in INTEGERS if -(2**31) <= i < 2**31]),
        ("q", [*INTEGERS, 2**63 - 1, -(2**63)]),
        ("d", FLOATS),
        ("f", [f for f in FLOATS if abs(f) < 3.41e38 or f != f]),
    )
    for value in values
)
BYTE_CHANGES = (_flip, _overwrite, _overwrite_aligned, _overwrite_aligned, _cut, _repeat, _truncate, _splice)


def mutate_document(rng, document):
    """Up to three changes of a JSON-like document, which is copied."""
    holder = [copy.deepcopy(document)]
    for _ in range(1 + int(rng.integers(3))):
        _change_somewhere(rng, holder)
    return holder[0] if holder else None


def _change_somewhere(rng, holder):
    """Go down to a random container, deep ones as likely as high ones, and change an entry."""
    parent, key = holder, 0
    if not holder:  # all of it was removed
        holder.append(copy.deepcopy(pick(rng, OTHERS)))
    while isinstance(parent[key], dict | list) and len(parent[key]) and rng.random() < 0.9:
        parent = parent[key]
        key = pick(rng, list(parent) if isinstance(parent, dict) else range(len(parent)))
    if isinstance(parent, dict) and rng.random() < 0.1:
        _cut_columns(rng, parent)
    else:
        pick(rng, ENTRY_CHANGES)(rng, parent, key)


def _cut_columns(rng, parent):
    """Shorten, or double, all lists of one length together: columns of one table."""
    lengths = [len(value) for value in parent.values() if isinstance(value, list)]
    if lengths:
        length, doubled = pick(rng, lengths), rng.random() < 0.5
        kept = int(rng.integers(length + 1))
        for key, value in parent.items():
            if isinstance(value, list) and len(value) == length:
                parent[key] = value + value if doubled else value[:kept]


def _replace(rng, parent, key):
    parent[key] = copy.deepcopy(pick(rng, (*INTEGERS, *HUGE, *FLOATS, *TEXTS, *OTHERS)))


def _replace_alike(rng, parent, key):
    """By a value of the same type, numbers in texts too."""
    value = parent[key]
    if isinstance(value, bool) or value is None:
        parent[key] = not value
    elif isinstance(value, int):
        parent[key] = pick(rng, (*INTEGERS, *HUGE, value + 1, value - 1, 2 * value, -value))
    elif isinstance(value, float):
        parent[key] = pick(rng, (*FLOATS, -value, value * 1e30, value * 1e300))
    elif isinstance(value, str):
        parent[key] = pick(rng, (*TEXTS, value + "0", value[:-1], *(str(i) for i in (*INTEGERS, *HUGE, *FLOATS))))
    else:
        _replace(rng, parent, key)


def _remove(_, parent, key):
    del parent[key]


def _repeat_entry(rng, parent, key):
    if isinstance(parent, list):
        parent[key:key] = [copy.deepcopy(parent[key])] * int(rng.integers(1, 4))
    else:
        parent[f"{key}2"] = copy.deepcopy(parent[key])


def _exchange(rng, parent, key):
    """Two entries of one container: children that name each other's nodes, columns under each other's names."""
    other = pick(rng, list(parent) if isinstance(parent, dict) else range(len(parent)))
    parent[key], parent[other] = parent[other], parent[key]


def _copy_entry(rng, parent, key):
    other = pick(rng, list(parent) if isinstance(parent, dict) else range(len(parent)))
    parent[key] = copy.deepcopy(parent[other])


ENTRY_CHANGES = (
    _replace,
    _replace_alike,
    _replace_alike,
    _replace_alike,
    _remove,
    _repeat_entry,
    _exchange,
    _copy_entry,
)


def mutate_text(rng, text):
    """Up to three changes of the lines of a text of keys and values."""
    lines = text.split("\n")
    for _ in range(1 + int(rng.integers(3))):
        at = int(rng.integers(len(lines)))
        pick(rng, (_change_word, _change_word, _change_word, _change_word, _change_line))(rng, lines, at)
        lines = lines or [""]
    return "\n".join(lines)


def _change_word(rng, lines, at):
    """Change an entry of one of the lines that have some."""
    key, equals, value = lines[at].partition("=")
    entries = value.split(" ")
    entry = int(rng.integers(len(entries)))
    number = pick(rng, (*INTEGERS, *HUGE, *FLOATS, *TEXTS))
    entries[entry] = pick(
        rng, (str(number), str(number), pick(rng, entries), entries[entry] + "0", "-" + entries[entry])
    )
    if rng.random() < 0.15:
        entries = pick(rng, (entries[:-1], [*entries, entries[-1]], entries[::-1]))
    lines[at] = key + equals + " ".join(entries)


def _change_line(rng, lines, at):
    other = int(rng.integers(len(lines)))
    change = int(rng.integers(3))
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(at, lines[other])
    else:
        lines[at], lines[other] = lines[other], lines[at]
