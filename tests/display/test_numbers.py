"""Numbers beside each other never look alike: Python and the page of a report write them with the same digits."""

from __future__ import annotations

import numpy as np
import pytest

import glasswood
from glasswood.base.wording import cut_texts, percent_text, percent_texts, tick_texts
from tests.display.browser import Page

UNITS = {"T": 1e12, "B": 1e9, "M": 1e6}


def axes():
    """Ticks of 1, 2, 2.5 and 5 units between 1e-6 and 1e9, from 0, about 0, and far from it."""
    for power in range(-6, 10):
        for factor in (1, 2, 2.5, 5):
            step = factor * 10.0**power
            for start in (0, -2, 3, 1000, 123456):
                yield [float(f"{(start + i) * step:.12g}") for i in range(5)]


def read(text):
    """Number that a person reads."""
    for sign, scale in ((" %", 0.01), (" ‰", 0.001)):
        if text.endswith(sign):
            return read(text.removesuffix(sign)) * scale
    if text[-1] in UNITS:
        return read(text[:-1]) * UNITS[text[-1]]
    return float(text.replace(",", "").replace("−", "-"))


@pytest.mark.parametrize("is_share", [False, True])
def test_ticks_say_where_they_are(is_share):
    for values in axes():
        texts = tick_texts(values, is_share=is_share)
        step = values[1] - values[0]
        np.testing.assert_allclose([read(text) for text in texts], values, rtol=0, atol=1e-3 * step)
        assert max(map(len, texts)) <= 24


def test_numbers_at_no_round_places_are_told_apart():
    rng = np.random.default_rng(0)
    for size in 10.0 ** np.arange(-6, 10):
        for values in np.sort(size * rng.uniform(-1, 1, (20, 6))):
            step = np.diff(values).min()
            found = [read(text) for text in tick_texts(values)]
            np.testing.assert_allclose(found, values, rtol=0, atol=0.1 * step)


@pytest.mark.parametrize(
    ("shares", "texts"),
    [
        ([0.01, 0.012, 0.015, 0.02], ["1.0 %", "1.2 %", "1.5 %", "2.0 %"]),
        ([0.0, 0.02, 0.04], ["0 %", "2 %", "4 %"]),
        ([0.0, 0.002, 0.004], ["0 ‰", "2 ‰", "4 ‰"]),
        ([0.9992, 0.9994, 1.0], ["99.92 %", "99.94 %", "100.00 %"]),
    ],
)
def test_shares_at_axes(shares, texts):
    assert tick_texts(shares, is_share=True) == texts


def test_shares_alone_have_two_digits():
    shares = {
        0.015: "1.5 %",
        0.0949: "9.5 %",
        0.0996: "10 %",
        0.01: "1 %",
        0.0031: "0.31 %",
        0.985: "98.5 %",
        1e-8: "< 0.0001 %",
    }
    assert {share: percent_text(share) for share in shares} == shares
    for share in 10.0 ** np.arange(-5.999, -1, 0.01):
        assert read(percent_text(share)) == pytest.approx(share, rel=0.051)
        assert 1 - read(percent_text(1 - share)) == pytest.approx(share, rel=0.051)
    assert percent_texts([0.501, 0.499]) == ["50.1 %", "49.9 %"]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    model = glasswood.ModelTreeRegressor(max_leaves=2, n_iter_no_change=3, n_jobs=1, random_state=0).fit(X, X[:, 0])
    shown = Page(browser, glasswood.report(model, X, X[:, 0], tmp_path_factory.mktemp("numbers") / "report.html"))
    yield shown.page
    shown.close()


def test_the_page_writes_the_same(page):
    """Ticks, irregular numbers, shares alone and compared; only the sign of minus differs."""
    rng = np.random.default_rng(1)
    lists = [
        *axes(),
        *(np.sort(size * rng.normal(size=4)).tolist() for size in 10.0 ** np.arange(-6, 10) for _ in range(20)),
    ]
    lists += [[0.0, 5e-324], [12345.0], [2.5, 2.5], [1e20, 2e20], [1e9, 1e9 + 1], [1e23, 2e23], [0.5, 1.5, 2.5]]
    for is_share in (False, True):
        there = page.evaluate(
            "([lists, isShare]) => lists.map((values) => tickTexts(values, 0, isShare))", [lists, is_share]
        )
        here = [tick_texts(values, is_share=is_share) for values in lists]
        assert [[text.replace("−", "-") for text in texts] for texts in there] == here
    shares = [
        0.0,
        1.0,
        *(10.0 ** rng.uniform(-7, 0, 500)).tolist(),
        *(1 - 10.0 ** rng.uniform(-7, 0, 500)).tolist(),
        0.125,
        0.625,
    ]
    assert page.evaluate("shares => shares.map(percent)", shares) == [percent_text(share) for share in shares]
    pairs = [[share, share * (1 + 10.0**-digits)] for share in shares[2:300] if share < 0.4 for digits in (1, 2, 3, 4)]
    assert page.evaluate("pairs => pairs.map((pair) => percents(pair))", pairs) == [
        percent_texts(pair) for pair in pairs
    ]


NAMES = [
    "northern district a",
    "northern district b",
    "northern district",
    "southern district a",
    "b",
    "a" * 40,
    "a" * 40 + "b" + "c" * 40,
]


def test_names_that_are_cut_differ(page):
    for most in (8, 12, 16, 30):
        texts = cut_texts(NAMES, most)
        assert len(set(texts)) == len(NAMES)
        assert max(map(len, texts)) <= most
    assert cut_texts(["northern district a", "southern district a"], 12) == ["northe…ict a", "southe…ict a"]
    assert len(set(page.evaluate("names => told(names, 70)", NAMES))) == len(NAMES)
