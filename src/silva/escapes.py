"""Text of a model, made safe for what it goes into: the one place that decides how.

Names, categories, labels and sources come from files that anybody may have written. No other text of a model goes into
code, markup or a picture; what a target cannot hold, the function refuses.
"""

from __future__ import annotations

import re

NOT_IN_COMMENTS = re.compile(r"[^A-Za-z0-9 _.,:;=<>()\[\]{}+#%&@!|~^$-]")
"""No quotes, slashes, stars, line ends or backslashes, and no ? (trigraphs): nothing that could end a comment."""


def comment(text: str) -> str:
    """Write a text for a comment of C or a docstring of Python, in ASCII; other characters become their numbers."""
    return NOT_IN_COMMENTS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def python_literal(text: str) -> str:
    """Write a text as a literal of Python, in ASCII whatever the encoding of the file that it goes to."""
    return ascii(str.__str__(text))
