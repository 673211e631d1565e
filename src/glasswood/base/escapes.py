"""Text of a model, made safe for what it goes into: the one place that decides how.

Names, categories, labels and sources come from files that anybody may have written. No other text of a model goes into
code, markup or a picture; what a target cannot hold, the function refuses.
"""

from __future__ import annotations

import contextlib
import html
import re
from collections.abc import Iterator
from typing import Any

NOT_IN_COMMENTS = re.compile(r"[^A-Za-z0-9 _.,:;=<>()\[\]{}+#%&@!|~^$-]")
"""No quotes, slashes, stars, line ends or backslashes, and no ? (trigraphs): nothing that could end a comment."""

NOT_IN_SCRIPTS = re.compile("[<>&\u2028\u2029\ud800-\udfff]")

EXCEL_PART = 127
"""Characters of a text in a formula, two UTF-16 units each at most."""

NOT_SHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
"""What terminals obey, what turns or breaks lines, and what files of UTF-8 or XML cannot hold."""

PICTURE: dict[Any, Any] = {"text.parse_math": False, "text.usetex": False, "axes.formatter.use_mathtext": False}
"""Settings of matplotlib under which text is not a formula, for `matplotlib.rc_context`."""


def shown(text: object) -> str:
    """Write a text, path or error for people, on terminals, in pictures and in messages.

    Control characters become their numbers; the lines of an error become one.
    """
    whole = str(text)
    return NOT_SHOWN.sub(_escaped, " ".join(whole.split()) if isinstance(text, BaseException) else whole)


def quoted(value: object, most: int = 300) -> str:
    """Write a value in a message, as Python does but in one line of at most `most` characters, whatever it holds.

    What pandas and others write for their objects has the texts in them as they are.
    """
    text = repr(value)
    text = shown(" ".join(text.split()) if "\n" in text else text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short(text: str, most: int = 32) -> str:
    """Write a text for people in at most `most` characters: what does not fit becomes dots."""
    text = shown(text)
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


@contextlib.contextmanager
def escaped_errors() -> Iterator[None]:
    """Let refusals of a file hold nothing that terminals obey, whatever the file, or a library that parses it, says.

    Every function that reads what somebody may have written is decorated with it.
    """
    try:
        yield
    except (ValueError, TypeError, NotImplementedError) as error:
        causes: list[BaseException] = []
        cause: BaseException | None = error
        while cause is not None and cause not in causes:
            causes.append(cause)
            cause = cause.__cause__ or cause.__context__
        if not any(NOT_SHOWN.search(str(one)) for one in causes):
            raise
        raise retold(error, shown(" ".join(str(error).split()))) from None  # tracebacks show causes as they are


def retold(error: BaseException, text: str) -> NotImplementedError | TypeError | ValueError:
    """Make an error of the same kind with another text; its own class may not be made of a text alone."""
    if isinstance(error, NotImplementedError):
        return NotImplementedError(text)
    return TypeError(text) if isinstance(error, TypeError) else ValueError(text)


def markup(text: str) -> str:
    """Write a text for HTML, in elements and in attributes."""
    return html.escape(shown(text))


def script(json: str) -> str:
    """Write JSON for a script element: no <, > or & that HTML could read, no line ends that JavaScript could."""
    return NOT_IN_SCRIPTS.sub(_escaped, json)


def comment(text: str) -> str:
    """Write a text for a comment of C or a docstring of Python, in ASCII; other characters become their numbers."""
    return NOT_IN_COMMENTS.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def python_literal(text: str) -> str:
    """Write a text as a literal of Python, in ASCII whatever the encoding of the file that it goes to."""
    return ascii(str.__str__(text))  # not what a subclass says of itself


def sql_name(name: str, quote: str = '"') -> str:
    """Write the name of a column in SQL; ValueError if no column can have it."""
    if not name:
        raise ValueError("a feature has an empty name, which no database column can have; rename the feature")
    return quote + _sql_text(name).replace(quote, 2 * quote) + quote


def sql_literal(text: str, escapes: str = "") -> str:
    """Write a text in SQL; with `escapes`, the prefix of texts that have backslashes, whatever the server's setting."""
    quoted = "'" + _sql_text(text).replace("'", "''") + "'"
    return escapes + quoted.replace("\\", 2 * "\\") if escapes and "\\" in text else quoted


def sql_bracketed(name: str) -> str:
    """Write the name of a column for SQL Server."""
    return "[" + sql_name(name, "]")[1:]


def sql_escaped(text: str, quote: str = "'") -> str:
    """Write a text, or a name in other quotes, for databases in whose texts a backslash escapes."""
    text = _sql_text(text).replace("\\", "\\\\").replace(quote, f"\\{quote}")
    return quote + text.replace("\n", "\\n").replace("\r", "\\r") + quote


def excel_literal(text: str) -> str:
    """Write a text in a formula, which takes texts of up to 255 UTF-16 units; ValueError if no cell can hold it."""
    if not text:
        raise ValueError("a category is empty text, which a spreadsheet cannot tell from an empty cell; rename it")
    if any(letter < " " or letter in "\ufffe\uffff" for letter in text) or not _is_unicode(text):
        raise ValueError(f"{quoted(text)} holds a character that spreadsheet cells cannot hold; rename it")
    parts = [text[start : start + EXCEL_PART] for start in range(0, len(text), EXCEL_PART)]
    return "&".join('"' + part.replace('"', '""') + '"' for part in parts)


def _sql_text(text: str) -> str:
    if "\0" in text or not _is_unicode(text):
        raise ValueError(
            f"{quoted(text)} holds NUL or half a surrogate pair, which database text cannot hold; rename it"
        )
    return text


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
