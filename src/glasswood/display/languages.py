"""Languages, and how they write a tree's tests, sums and choices as expressions."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glasswood.base.escapes import excel_literal, python_literal

EXPONENTS = (-745.0, 709.0)
"""Powers of e that are neither 0 nor infinite in float64."""


@dataclass(frozen=True)
class Language:
    """C, and what other languages write as C does.

    Attributes
    ----------
    columns : sequence of str
        How each feature's value is written.
    named : frozenset of int
        Features whose values are categories, never NaN.
    """

    columns: Sequence[str]
    named: frozenset[int] = frozenset()

    def number(self, x: float) -> str:
        """Write a number that reads back as the same double."""
        if math.isinf(x):
            return "INFINITY" if x > 0 else "-INFINITY"
        return repr(float(x))

    def value(self, feature: int) -> str:
        """Write a row's value."""
        return self.columns[feature]

    def is_missing(self, feature: int) -> str:
        """Whether a row lacks the value."""
        return f"{self.value(feature)} != {self.value(feature)}"

    def equals(self, feature: int, category: Any) -> str:
        """Whether a row has the category."""
        return f"{self.value(feature)} == {self.literal(category)}"

    def literal(self, category: Any) -> str:
        """Write a category."""
        return self.number(category)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:
        """Whether a row's category is one of these."""
        return self.any([self.equals(feature, one) for one in categories])

    def any(self, tests: Sequence[str]) -> str:
        """Whether one of the tests holds."""
        return f"({' || '.join(tests)})" if tests else "0"

    def negated(self, test: str) -> str:
        """Whether a test does not hold."""
        return f"!({test})"

    def choose(self, test: str, yes: str, no: str) -> str:
        """Choose between two values."""
        return f"({test} ? {yes} : {no})"

    def clipped(self, value: str, low: float, high: float) -> str:
        """Confine a value to a range."""
        return f"clip({value}, {self.number(low)}, {self.number(high)})"

    def logarithm(self, value: str) -> str:
        """Take the natural logarithm of a positive number."""
        return f"log({value})"

    def link(self, name: str, value: str) -> str:
        """Turn a margin into the response."""
        return {"logistic": f"1.0 / (1.0 + exp(-({value})))", "exp": f"exp({value})"}[name]


class Python(Language):
    """Python; a row is a mapping, None and NaN are missing."""

    def number(self, x: float) -> str:  # noqa: D102
        return f"float('{x}')" if math.isinf(x) else repr(float(x))

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"({self.value(feature)} is None or {self.value(feature)} != {self.value(feature)})"

    def literal(self, category: Any) -> str:  # noqa: D102
        return python_literal(category) if isinstance(category, str) else repr(category)

    def is_in(self, feature: int, categories: Sequence[Any]) -> str:  # noqa: D102
        return f"{self.value(feature)} in ({''.join(f'{self.literal(one)}, ' for one in categories)})"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"({' or '.join(tests)})" if tests else "False"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"not ({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"({yes} if {test} else {no})"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"_clip({value}, {self.number(low)}, {self.number(high)})"

    def link(self, name: str, value: str) -> str:  # noqa: D102
        return {"logistic": f"1.0 / (1.0 + _exp(-({value})))", "exp": f"_exp({value})"}[name]


class Excel(Language):
    """Formulas of spreadsheets; empty cells are missing."""

    def number(self, x: float) -> str:  # noqa: D102
        return ("9.99E+307" if x > 0 else "-9.99E+307") if math.isinf(x) else repr(float(x)).upper()

    def is_missing(self, feature: int) -> str:  # noqa: D102
        return f"ISBLANK({self.value(feature)})"

    def literal(self, category: Any) -> str:  # noqa: D102
        return excel_literal(category) if isinstance(category, str) else str(category).upper()

    def equals(self, feature: int, category: Any) -> str:  # noqa: D102
        if isinstance(category, str):  # = does not tell upper from lower case
            return f"EXACT({self.value(feature)},{self.literal(category)})"
        return f"{self.value(feature)}={self.literal(category)}"

    def any(self, tests: Sequence[str]) -> str:  # noqa: D102
        return f"OR({','.join(tests)})" if tests else "FALSE"

    def negated(self, test: str) -> str:  # noqa: D102
        return f"NOT({test})"

    def choose(self, test: str, yes: str, no: str) -> str:  # noqa: D102
        return f"IF({test},{yes},{no})"

    def clipped(self, value: str, low: float, high: float) -> str:  # noqa: D102
        return f"MIN(MAX({value},{self.number(low)}),{self.number(high)})"

    def link(self, name: str, value: str) -> str:  # noqa: D102
        top = self.number(EXPONENTS[1])  # beyond it EXP is an error
        return {"logistic": f"1/(1+EXP(MIN(-({value}),{top})))", "exp": f"EXP({value})"}[name]

    def logarithm(self, value: str) -> str:  # noqa: D102
        return f"LN({value})"


C_SOURCE = """\
#include <math.h>

/* {what}
   {name}(x) returns {returned}.
   x has these features, NAN where one is missing; compile without -ffast-math, and with -ffp-contract=off for the last
   bit.
{columns}
*/
static double clip(double value, double low, double high) {{
  return value < low ? low : value > high ? high : value;
}}

double {name}(const double *x) {{
  (void)clip;
{statements}
}}
"""

PYTHON_SOURCE = '''\
from math import exp, log


def _clip(value, low, high):
    return low if value < low else high if value > high else value


def _exp(value):
    return float("inf") if value > 709.782712893384 else exp(value)


def {name}(row):
    """{what}

    Returns {returned}.
    row maps the names of the columns to values; None and NaN are missing.
    """
{statements}
'''

PYTHON_WORDS = frozenset({*keyword.kwlist, "__debug__", "exp", "float", "log", "_clip", "_exp"})
"""Names that no function can have: the language's, and those that the source uses itself."""

C_TEXT = (
    "alignas alignof asm auto bool break case char const constexpr continue default do double else enum extern false "
    "float for goto if inline int long nullptr register restrict return short signed sizeof static static_assert "
    "struct switch thread_local true typedef typeof typeof_unqual union unsigned void volatile while clip main linux "
    "unix "
    "abort abs acos acosh aligned_alloc asin asinh atan atan2 atanh bcmp bcopy bzero cabs cacos cacosh calloc "
    "canonicalize carg casin casinh catan catanh cbrt ccos ccosh ceil cexp cimag clog clog10 conj copysign cos cosh "
    "cpow cproj creal csin csinh csqrt ctan ctanh daddl dcgettext ddivl dfmal dgettext dmull double_t drem dsqrtl "
    "dsubl erf erfc execl execle execlp execv execve execvp exit exp exp10 exp2 expm1 fabs fadd fdim fdiv "
    "feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feraiseexcept fesetenv fesetexceptflag fesetround "
    "fetestexcept feupdateenv ffma ffs finite float_t floor fma fmax fmaximum fmaximum_mag fmaximum_mag_num "
    "fmaximum_num fmaxmag fmin fminimum fminimum_mag fminimum_mag_num fminimum_num fminmag fmod fmul fork fpclassify "
    "fprintf fputc fputc_unlocked fputs fputs_unlocked free frexp fromfp fromfpx fscanf fsqrt fsub fwrite "
    "fwrite_unlocked gamma gettext hypot ilogb imaxabs index isalnum isalpha isascii isblank iscntrl isdigit isgraph "
    "isgreater isgreaterequal iscanonical iseqsig isfinite isinf isnan isnormal issignaling issubnormal iszero signbit "
    "getpayload isless islessequal islessgreater islower isprint ispunct isspace isunordered isupper iswalnum iswalpha "
    "iswblank iswcntrl iswdigit iswgraph iswlower iswprint iswpunct iswspace iswupper iswxdigit isxdigit j0 j1 jn labs "
    "ldexp lgamma lgamma_r llabs llogb llrint llround log log10 log1p log2 logb lrint lround malloc math_errhandling "
    "memchr memcmp memcpy memmove mempcpy memset modf nan nearbyint nextafter nextdown nexttoward nextup "
    "posix_memalign pow pow10 printf putc putc_unlocked putchar putchar_unlocked puts realloc remainder remquo rindex "
    "rint round roundeven scalb scalbln scalbn scanf setpayload setpayloadsig signgam significand sin sincos sinh "
    "snprintf sprintf sqrt sscanf stpcpy stpncpy strcasecmp strcat strchr strcmp strcpy strcspn strdup strfmon "
    "strftime strlen strncasecmp strncat strncmp strncpy strndup strnlen strpbrk strrchr strspn strstr tan tanh tgamma "
    "toascii tolower totalorder totalordermag toupper towlower towupper trunc ufromfp ufromfpx vfprintf vfscanf "
    "vprintf vscanf vsnprintf vsprintf vsscanf y0 y1 yn "
)
C_WORDS = frozenset(C_TEXT.split())
"""Names that no function can have: the language's, and what <math.h> and compilers declare, without their suffixes."""

C_SUFFIX = re.compile(r"(f|l|f(32|64|128)x?)(_r)?$")
"""Suffixes of the functions for other types."""
