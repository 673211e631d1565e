"""Reports in four languages: every text of the page comes from the language's table."""

import re
from importlib import import_module

import numpy as np
import pytest

import glasswood
from glasswood.base.phrases import LANGUAGES
from glasswood.cli import main
from glasswood.display.report.page import ASSETS, FRAME, SCRIPTS
from tests.display.browser import Page

lightgbm = pytest.importorskip("lightgbm")
pandas = pytest.importorskip("pandas")

TABLES = {language: import_module(f"glasswood.base.phrases.{language}") for language in LANGUAGES}

SHOWN = """() => {
  document.querySelectorAll("details").forEach((one) => { one.open = true; });
  document.querySelectorAll('[aria-expanded="false"]').forEach((one) => one.setAttribute("aria-expanded", "true"));
  document.querySelectorAll("code").forEach((one) => one.remove());
  const texts = [document.title, document.body.innerText, document.querySelector("noscript").textContent];
  for (const one of document.querySelectorAll("svg text, svg title, option, legend")) texts.push(one.textContent);
  for (const name of ["aria-label", "title", "placeholder", "aria-valuetext"])
    for (const one of document.querySelectorAll(`[${name}]`)) texts.push(one.getAttribute(name));
  return texts.join("\\n");
}"""


def words(texts):
    return set(re.findall(r"[^\W\d]{2,}", re.sub(r"\{\w+\}", " ", " ".join(texts)).lower()))


def texts_of(language):
    return [*TABLES[language].TEXTS.values(), *TABLES[language].PAGE.values()]


ENGLISH = words(texts_of("en")) - words(texts_of("de"))
"""Words that no German text has."""


@pytest.fixture(scope="module")
def loans():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({f"m{i}": rng.normal(size=600) for i in range(22)})
    X["ort"] = pandas.Categorical(rng.choice(["Aachen", "Bonn", "Celle", "Dessau"], 600))
    X["stufe"] = pandas.Categorical(rng.choice(["eins", "zwei", "drei"], 600))
    X.loc[::9, "m1"] = np.nan
    X["m2"] = np.exp(X["m2"])
    y = 2 * X["m0"] + X["m1"].fillna(0) * (X["m0"] > 0) + np.log(X["m2"]) + (X["ort"] == "Celle")
    return X, y.rename("betrag")


def of_numbers(X, y):
    model = glasswood.ModelTreeRegressor(
        max_leaves=3, time_limit=None, generations=30, monotonic_cst={"m0": 1}, verbose=False
    )
    return model.fit(X, y), y


def of_two_classes(X, y):
    kind = (y > 2).rename("ausfall").map({True: "ja", False: "nein"})
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1).fit(X, kind), kind


def of_three_classes(X, y):
    kind = pandas.Series(np.array(["a", "b", "c"])[np.digitize(y, [-1, 1])], name="art")
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=4, verbose=-1).fit(X, kind), kind


def of_large_forest(X, y):
    return lightgbm.LGBMRegressor(n_estimators=120, min_child_samples=2, verbose=-1).fit(X, y), y


def of_curves(X, y):
    model = glasswood.AdditiveRegressor(leaf_model="constant", interactions=[("m0", "m1")])
    return model.fit(X, y), y


@pytest.mark.parametrize("make", [of_numbers, of_curves, of_two_classes, of_three_classes, of_large_forest])
def test_a_german_report_has_no_english_words(browser, loans, make, tmp_path):
    X, y = loans
    model, y = make(X, y)
    costs = {"false_positive": 1, "false_negative": 9} if make is of_two_classes else None
    before = None if make is of_large_forest else X[400:]
    tested = {"test": (X[400:], y[400:])} if make is not of_three_classes else {}
    path = glasswood.report(
        model, X[:400], y[:400], tmp_path / "r.html", language="de", before=before, costs=costs, **tested
    )
    shown = Page(browser, path)
    shown.page.fill('#rows input[type="search"]', "celle")
    text = shown.page.evaluate(SHOWN)
    assert shown.page.evaluate("document.documentElement.lang") == "de"
    shown.close()
    assert "undefined" not in text
    assert "{" not in text.replace("{Aachen", "").replace("{Bonn", "").replace("{Celle", "")
    assert sorted(words([text]) & ENGLISH) == []
    assert not re.search(r"\d\.\d(?!\d\d)", re.sub(r"(NumPy|Python|glasswood)\s+[\d.\w+]+", "", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_have_the_same_texts_with_the_same_parts(language):
    for name in ("TEXTS", "PAGE"):
        own, english = getattr(TABLES[language], name), getattr(TABLES["en"], name)
        assert own.keys() == english.keys()
        for key, text in english.items():
            parts = [set(re.findall(r"\{\w+\}", one)) for one in (text, own[key])]
            assert parts[0] == parts[1], key
            assert text.count("|") == own[key].count("|") or "Σ" in text, key


def test_scripts_use_every_text_and_no_other():
    source = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    said = set(re.findall(r'(?:\bsay|sayAround|counted)\([^"`()]*"([^"]+)"', source))
    said |= set(re.findall(r'counted\([^"]*?, "([^"]+)"', source))
    known = TABLES["en"].PAGE.keys()
    assert said - set(glasswood.base.phrases.Phrases("en").page) == {"conformal"}
    written = source + " ".join(FRAME)
    ends = {key.removesuffix(" of").removesuffix(" rows").removeprefix("changed ") for key in known}
    assert {one for one in ends if one not in written} <= {"margin (log-odds)"}


def test_the_command_writes_a_report_in_a_language(loans, tmp_path):
    X, y = loans
    of_two_classes(X, y)[0].booster_.save_model(tmp_path / "m.txt")
    X.to_csv(tmp_path / "x.csv", index=False)
    main(
        ["report", str(tmp_path / "m.txt"), str(tmp_path / "x.csv"), "-o", str(tmp_path / "r.html"), "--language", "fr"]
    )
    assert "Aller au contenu" in (tmp_path / "r.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="language is 'it', expected one of en, de, fr, es"):
        glasswood.report(of_numbers(X, y)[0], X, language="it")


@pytest.mark.sizes("each")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("make", [of_numbers, of_two_classes])
def test_sentences_of_a_row_are_those_of_the_explainer(browser, loans, make, language, tmp_path):
    X, y = loans
    X = X.round(2)  # the page shows more digits of a row's own values
    model, _ = make(X, y)
    event = "nein" if make is of_two_classes else None
    path = glasswood.report(model, X, path=tmp_path / "r.html", language=language, positive=event)
    shown = Page(browser, path)
    n, index = shown.page.evaluate("[data.nBackground, data.rows.index]")
    found = [shown.page.evaluate(f"sentencesOf({place})") for place in range(6)]
    shown.close()
    explainer = glasswood.Explainer(model)
    if event:
        background = X.iloc[np.sort(np.random.default_rng(0).permutation(len(X))[:n])]
        explainer = glasswood.Explainer(model, background=background, output="probability")
    expected = explainer.sentences(X.iloc[index[:6]], language=language)
    assert found == expected
