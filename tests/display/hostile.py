"""Texts that try to become code, markup or control characters wherever they are written."""

from __future__ import annotations

LINE_ENDS = ("\n", "\r", "\r\n", "\t", "\v", "\f", "\x85", "\u2028", "\u2029")
CONTROLS = ("\x00", "\x1b[2J\x1b]0;title\x07", "\x7f", "\x9b2J", "\u202e", "\u2066", "\u200b", "\ufeff")
SPLICES = ("\\\n", "\\ \n", "\\\t\n", "??/\n", "??/ \n", "\\\r\n", "\\\r", "\\", "\\\\", "??/")
COMMENT_ENDS = ("*/", "*\\\n/", "*\\ \n/", "*??/\n/", "--", "-->", "]]>", "</script>")
QUOTES = ('"""', "'''", '"', "'", "`", "]", ")", "$$")
ESCAPES = ("\\x", "\\x4", "\\N{foo}", "\\N", "\\u12", "\\U00110000", "\\777", "%s", "%n")
TEMPLATES = ("{name}", "{0}", "{", "}", "{{", "{{data}}", "{{script}}")
STRANGE = ("", " ", "é", "größe", "名前", "🌲", "\ud800", "\udcff", "\u0131", "İ", "ß", "\ufffe")
MATHS = ("$", "$\\frac{1}{0$", "$x$", "\\$", "$\\input{/etc/passwd}$", "^_^", "$\\undefined", "a$b$c$")
WORDS = ("x", "X", "select", "row", "rows", "rowid", "xmin", "ctid", "NULL", "class", "__import__")
CELLS = ("=1+1", "@SUM(A1)", "-1", "A1", "+A1")
C_CODE = "__attribute__((constructor)) void intruder(void) { __builtin_trap(); }"
CODE = (
    f"*/ {C_CODE} /*",
    f"*\\\n/ {C_CODE} /*",
    f"*\\ \n/ {C_CODE} /*",
    f"*??/\n/ {C_CODE} /*",
    f"*/\n{C_CODE}\n/*",
    f"\n*/\n#error intruder\n{C_CODE}/*",
    '"]; raise SystemExit(66) #',
    "'] or exit(66) or row['",
    '"""\nraise SystemExit(66)\n"""',
    "\\'] or exit(66) #",
    '" = 0 OR (SELECT intruder()) = "',
    "' OR (SELECT intruder()) = '",
    "\\' OR (SELECT intruder()) --",
    "`; DROP TABLE rows; --",
    '"; DROP TABLE rows; --',
    '")+WEBSERVICE("http://localhost/")+("',
    '=cmd|" /C calc"!A0',
    "<script>window.intruder=1</script>",
    "<img src=x onerror=window.intruder=1>",
    "</title></script><script>window.intruder=1</script>",
    "'\"><svg onload=window.intruder=1>",
    "<!--<script>",
    "${window.intruder=1}",
    "javascript:window.intruder=1",
)
NAMES = (
    *(*LINE_ENDS, *CONTROLS, *SPLICES, *COMMENT_ENDS, *QUOTES),
    *(*ESCAPES, *TEMPLATES, *STRANGE, *MATHS, *WORDS, *CELLS, *CODE),
)
