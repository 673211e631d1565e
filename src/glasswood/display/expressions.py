"""A forest as expressions of a language: its trees, tests, leaves and response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from glasswood.base.escapes import quoted
from glasswood.display.dialects import Sql
from glasswood.display.languages import Excel, Language, Python
from glasswood.model.ensemble import LOGARITHM, MISSING, NUMBER, OF_NUMBERS, TreeEnsemble

DEEPEST = 60
"""Levels of a tree that become nested expressions; parsers stop somewhere above."""

BEYOND = 2.0**128
"""What follows the largest float32 when numbers round to one."""

LINKS = ("identity", "logistic", "exp")


class Writer:
    """A forest in one language."""

    language: Language

    def __init__(self, forest: TreeEnsemble, language: Language, output: int, has_codes: bool = False) -> None:
        _refuse(forest, output)
        self._forest, self.language, self._output, self._has_codes = forest, language, output, has_codes
        self._leaves = np.cumsum(forest.feature < 0) - 1

    def expression(self) -> str:
        """Add the trees to the base score in their order; through the link if there is one output."""
        return self.response(" + ".join(self.summands()))

    def statements(self, begin: str, end: str = "") -> str:
        """As `expression`, with a statement for each tree: parsers nest sums, and stop somewhere."""
        base, *trees = self.summands()
        indent = " " * (len(begin) - len(begin.lstrip()))
        lines = [f"{begin}total = {base}", *(f"{indent}total += {tree}" for tree in trees)]
        return "\n".join(f"{line}{end}" for line in [*lines, f"{indent}return {self.response('total')}"])

    def numbers(self) -> Iterator[tuple[int, float, bool]]:
        """List splits that compare a number, where only NaN is missing: threshold, and whether missing ones go left."""
        forest = self._forest
        for node in np.flatnonzero(forest.feature >= 0).tolist():
            if self._is_number(node):
                yield node, _effective(forest, forest.threshold[node]), bool(forest.default_left[node])

    def tests(self) -> Iterator[tuple[int, str]]:
        """List the tests of the other splits, whether a row goes left."""
        for node in np.flatnonzero(self._forest.feature >= 0).tolist():
            if not self._is_number(node):
                yield node, self.test(node)

    def _is_number(self, node: int) -> bool:
        forest = self._forest
        is_set = forest.is_categorical and forest.category_set[node] >= 0
        is_plain = math.isnan(forest.missing) and self.table(int(forest.feature[node])) is None
        return is_plain and not is_set and math.isfinite(forest.threshold[node])

    def summands(self) -> Iterator[str]:
        """List the base score and the trees."""
        forest = self._forest
        yield self.language.number(forest.base_score[self._output])
        for tree in np.flatnonzero(forest.tree_output == self._output).tolist():
            weight = "" if forest.tree_weight[tree] == 1 else f"{self.language.number(forest.tree_weight[tree])} * "
            root = int(forest.tree_offsets[tree])
            yield f"{weight}{self._node(root, root)}"

    def response(self, text: str) -> str:
        """Write the response of a margin where there is one output."""
        forest = self._forest
        if forest.n_outputs > 1 or forest.link == "identity":
            return text
        if forest.link == "logistic" and forest.link_scale != 1:
            text = f"{self.language.number(forest.link_scale)} * ({text})"
        return self.language.link(forest.link, text)

    def _node(self, root: int, node: int) -> str:
        forest = self._forest
        if forest.feature[node] < 0:
            return self._leaf(int(self._leaves[node]))
        if isinstance(self.language, Sql) and self.language.is_flat:
            return self._flat(root, node)
        left = root + int(forest.left[node])
        return self.language.choose(self.test(node), self._node(root, left), self._node(root, left + 1))

    def _flat(self, root: int, node: int) -> str:
        """List the leaves from the left: a row is at the first one all of whose tests to the left it passes."""
        forest, cases = self._forest, []
        pending: list[tuple[int, tuple[str, ...]]] = [(node, ())]
        while pending:
            at, tests = pending.pop()
            if forest.feature[at] < 0:
                cases.append((tests, self._leaf(int(self._leaves[at]))))
                continue
            left = root + int(forest.left[at])
            pending += [(left + 1, tests), (left, (*tests, self.test(at)))]
        whens = " ".join(f"WHEN {' AND '.join(tests)} THEN {leaf}" for tests, leaf in cases[:-1])
        return f"CASE {whens} ELSE {cases[-1][1]} END"

    def test(self, node: int) -> str:
        """Whether a row goes left."""
        forest, feature = self._forest, int(self._forest.feature[node])
        missing = self.is_missing(feature)
        if forest.is_categorical and forest.category_set[node] >= 0:
            return self._set_test(node, feature, missing)
        if forest.threshold[node] == np.inf:  # every number goes left
            return self.language.negated(missing) if not forest.default_left[node] else self._always()
        is_left = self._is_less(feature, _effective(forest, forest.threshold[node]))
        if forest.default_left[node]:
            return self.language.any([missing, is_left])
        return self._present(feature, is_left)

    def _is_less(self, feature: int, threshold: float) -> str:
        return f"{self.language.value(feature)} < {self.language.number(threshold)}"

    def _present(self, feature: int, test: str) -> str:
        """Write a test that no missing value passes; some languages cannot compare None or empty cells."""
        language = self.language
        if isinstance(language, Python):
            return f"(not {self.is_missing(feature)} and {test})"
        if isinstance(language, Excel):
            return f"AND(NOT({self.is_missing(feature)}),{test})"
        marked = not math.isnan(self._forest.missing)
        return language.negated(language.any([self.is_missing(feature), language.negated(test)])) if marked else test

    def _always(self) -> str:
        return self.language.negated(self.language.any([]))

    def is_missing(self, feature: int) -> str:
        """Whether a row lacks a value; a category that training did not see counts as missing, but for YDF."""
        if self._has_words(feature):
            return cast("Sql", self.language).in_words(feature, (), True)
        table, language = None if self._forest.unseen_apart else self.table(feature), self.language
        tests = self._no_value(feature)
        if table is not None:
            tests.append(language.negated(language.is_in(feature, table)))
        return language.any(tests) if len(tests) > 1 else tests[0]

    def is_empty(self, feature: int) -> str:
        """Whether a row has no value at all; a category that training did not see is one."""
        tests = self._no_value(feature)
        return self.language.any(tests) if len(tests) > 1 else tests[0]

    def _no_value(self, feature: int) -> list[str]:
        tests = [self.language.is_missing(feature)]
        if not math.isnan(self._forest.missing):
            tests.append(self._is_marker(feature))
        if self._forest.empty_missing and self.table(feature) is not None and not self._has_codes:
            tests.append(self.language.equals(feature, ""))
        return tests

    def edge(self, threshold: float) -> float:
        """Smallest double beyond a threshold of the forest."""
        return _effective(self._forest, self._forest.threshold.dtype.type(threshold))

    def _is_marker(self, feature: int) -> str:
        """Whether a number is the one that marks missing values; it may become so in float32."""
        marker, language = self._forest.threshold.dtype.type(self._forest.missing), self.language
        if marker.dtype != np.float32:
            return language.equals(feature, float(marker))
        first, beyond = least_rounded(marker), least_rounded(np.nextafter(marker, np.float32(np.inf)))
        return language.negated(
            language.any([self._is_less(feature, first), language.negated(self._is_less(feature, beyond))])
        )

    def table(self, feature: int) -> list[Any] | None:
        """Values of a feature's categories, as rows of the language have them."""
        forest = self._forest
        table = forest.categories[feature] if forest.categories else None
        if table is None:
            return None
        return list(range(len(table))) if self._has_codes else [_plain(one) for one in table.tolist()]

    def _set_test(self, node: int, feature: int, missing: str) -> str:
        forest, language = self._forest, self.language
        which, table = int(forest.category_set[node]), self.table(feature)
        words = forest.set_words[forest.set_offsets[which] : forest.set_offsets[which + 1]]
        bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little").astype(bool).tolist()
        others = bool(forest.set_others_left[which])
        codes = range(len(table) if table is not None else len(bits))
        lefts = [bits[code] if code < len(bits) else others for code in codes]
        if self._has_words(feature):
            coded = [code for code, left in zip(codes, lefts, strict=True) if left]
            return cast("Sql", language).in_words(feature, coded, bool(forest.default_left[node]))
        named = [code if table is None else table[code] for code in codes]
        if not others or (table is not None and not forest.unseen_apart):
            is_left = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if left])
            return language.any([missing, is_left]) if forest.default_left[node] else is_left
        is_right = language.is_in(feature, [one for one, left in zip(named, lefts, strict=True) if not left])
        if forest.default_left[node]:
            return language.any([missing, language.negated(is_right)])
        return language.negated(language.any([missing, is_right]))

    def _leaf(self, leaf: int) -> str:
        forest, language = self._forest, self.language
        value = language.number(float(forest.leaf_value[leaf, 0]))
        terms = range(*forest.linear_offsets[leaf : leaf + 2].tolist()) if forest.has_linear_leaves else ()
        if not len(terms):
            if not forest.has_linear_leaves:
                return value
            return language.number(float(np.clip(forest.leaf_value[leaf, 0], *forest.leaf_range[leaf])))
        text = f"({value} + ({' + '.join(self._term(term) for term in terms)}))"
        low, high = forest.leaf_range[leaf].tolist()
        if math.isfinite(low) or math.isfinite(high):
            text = language.clipped(text, low, high)
        if not len(forest.leaf_missing):
            return text
        numbers = {(int(forest.linear_feature[t]), int(forest.linear_category[t])) for t in terms}
        lacks = language.any([self.lacks(*number) for number in sorted(numbers) if number[1] in OF_NUMBERS])
        return language.choose(lacks, language.number(float(forest.leaf_missing[leaf])), text)

    def _term(self, term: int) -> str:
        forest, language = self._forest, self.language
        feature, category = int(forest.linear_feature[term]), int(forest.linear_category[term])
        coefficient = language.number(float(forest.linear_coefficient[term]))
        mean, zero, one = (language.number(float(x)) for x in (forest.linear_mean[term], 0, 1))
        if category in OF_NUMBERS:
            x = language.value(feature)
            x = x if category == NUMBER else language.logarithm(x)
            deviation = language.choose(self.lacks(feature, category), zero, f"{x} - {mean}")
        else:
            test = self.is_missing(feature) if category == MISSING else self.has(feature, category)
            deviation = f"({language.choose(test, one, zero)} - {mean})"
        return f"{coefficient} * {deviation}"

    def lacks(self, feature: int, category: int) -> str:
        """Whether a row lacks the number of a term."""
        language, missing = self.language, self.is_missing(feature)
        if category != LOGARITHM:
            return missing
        return language.any([missing, f"{language.value(feature)} <= {language.number(0.0)}"])

    def has(self, feature: int, category: int) -> str:
        """Whether a row has the category of this code."""
        if self._has_words(feature):
            return cast("Sql", self.language).in_words(feature, (category,), False)
        table = self.table(feature)
        return self.language.equals(feature, category if table is None else table[category])

    def _has_words(self, feature: int) -> bool:
        """Whether a feature's categories are bits of columns."""
        return isinstance(self.language, Sql) and feature in self.language.words


def _effective(forest: TreeEnsemble, threshold: Any) -> float:
    """Smallest double that goes right: tiny numbers become 0 (LightGBM), all become the type of the rows."""
    if forest.zero_threshold != 0:
        zero = threshold.dtype.type(forest.zero_threshold)
        threshold = max(threshold, np.nextafter(zero, threshold.dtype.type(np.inf))) if threshold > 0 else threshold
        threshold = min(threshold, -zero) if threshold <= 0 else threshold
    return least_rounded(threshold) if threshold.dtype == np.float32 else float(threshold)


def least_rounded(limit: np.float32) -> float:
    """Smallest double that rounds to a float32 of at least the limit."""
    below = np.nextafter(limit, np.float32(-np.inf))
    if below == limit:
        return float(limit)
    low, high = (math.copysign(BEYOND, one) if np.isinf(one) else float(one) for one in (below, limit))
    middle = (low + high) / 2
    with np.errstate(over="ignore"):
        return middle if np.float32(middle) >= limit else math.nextafter(middle, math.inf)


def _plain(category: Any) -> str | bool | int | float:
    """Make a category one of Python's own: how something else describes itself is not code."""
    value = category.item() if isinstance(category, np.generic) else category
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int):
        return value if isinstance(value, bool) else int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise NotImplementedError(
        f"the category {quoted(value)} is not a text, a boolean or a finite number; predict with glasswood"
    )


def _refuse(forest: TreeEnsemble, output: int) -> None:
    """Refuse what no expression says."""
    if not 0 <= output < forest.n_outputs:
        raise ValueError(f"output is {output}, the forest has {forest.n_outputs}: expected 0 to {forest.n_outputs - 1}")
    what = ""
    if forest.transform is not None:
        what = "features that are computed from others"
    elif forest.leaf_width > 1:
        what = "leaves of several values"
    elif any(table is not None and table.dtype.kind in "mM" for table in forest.categories or ()):
        what = "categories that are times"
    elif forest.category_hash:
        what = "categories known by their hashes alone"
    elif forest.has_linear_leaves and forest.threshold.dtype == np.float32:
        what = "equations of float32 in their leaves"
    elif len(forest.zero_missing):
        what = "zeros that are missing"
    elif forest.depth > DEEPEST:
        what = f"trees of {forest.depth} levels (at most {DEEPEST})"
    elif forest.n_outputs == 1 and forest.link not in LINKS:
        what = f"the link {forest.link!r}"
    if what:
        raise NotImplementedError(f"glasswood cannot write forests with {what} as code; predict with glasswood")
