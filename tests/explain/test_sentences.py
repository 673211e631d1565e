"""`Explainer.sentences`: what raised and what lowered, in words that hold the numbers."""

import dataclasses
import re
import string

import numpy as np
import pytest

import glasswood
from glasswood.base.phrases import LANGUAGES, Phrases
from glasswood.cli import main
from tests.strategies import Options, full_forest, random_forest

pandas = pytest.importorskip("pandas")

NAMES = ("age", "bmi", "city size", "5")
NUMBER = re.compile(r"[−\d][\d.,\u202f]*")


def make_forest(link="identity", **options):
    forest = random_forest(2, Options(n_trees=8, n_features=4, row_type="float64", **options))
    return dataclasses.replace(forest, feature_names=NAMES, link=link, prediction="response", missing=np.nan)


def rows_of(n):
    return pandas.DataFrame(np.random.default_rng(0).normal(size=(n, 4)), columns=list(NAMES))


def sizes_of(sentences, raises=("raise", "erhöh", "augment", "aumenta")):
    """Signed sizes: the last number of each sentence but the first."""
    found = []
    for sentence in sentences[1:]:
        number = float(NUMBER.findall(sentence)[-1].rstrip(".,").replace(",", "."))
        found.append(number if any(word in sentence for word in raises) else -number)
    return found


def test_texts_of_all_languages_have_the_same_parts():
    parts = {}
    for language in LANGUAGES:
        texts = Phrases(language)._texts
        parts[language] = {
            key: sorted(name for _, name, _, _ in string.Formatter().parse(text) if name) for key, text in texts.items()
        }
        assert all(text for text in texts.values())
    assert all(one == parts["en"] for one in parts.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_are_those_of_the_values(language):
    forest, X = make_forest(), rows_of(30)
    explainer = glasswood.Explainer(forest, dtype="float64")
    values, expected = explainer.shap_values(X), explainer.expected_value
    said = explainer.sentences(X, top=4, language=language)
    for row, sentences in zip(values, said, strict=True):
        sizes = sizes_of(sentences)
        order = np.argsort(-np.abs(row), kind="stable")[: len(sizes)]
        step = 10.0 ** -len(re.split("[.,]", NUMBER.findall(sentences[0])[0].rstrip(".,"))[-1])
        np.testing.assert_allclose(sizes, row[order], atol=0.51 * step)
        end, change, base = [*NUMBER.findall(sentences[0]), ""][:3]
        number = float(end.rstrip(".,").replace(",", ".").replace("−", "-"))
        assert number == pytest.approx(expected + row.sum(), abs=0.51 * step)
        assert float(base.rstrip(".,)").replace(",", ".").replace("−", "-")) == pytest.approx(expected, abs=0.51 * step)
        assert float(change.rstrip(".,").replace(",", ".")) == pytest.approx(abs(row.sum()), abs=0.51 * step)


def test_the_others_are_one_sentence():
    explainer, X = glasswood.Explainer(make_forest(), dtype="float64"), rows_of(20)
    for row, sentences in zip(explainer.shap_values(X), explainer.sentences(X, top=2), strict=True):
        others = sentences[-1]
        rest = np.sort(np.abs(row))[:2]
        signed = row[np.argsort(-np.abs(row), kind="stable")[2:]].sum()
        if rest.sum() > 0.05 and abs(signed) > 0.05:
            assert others.startswith("The other 2 features together ")
            assert sizes_of(sentences)[-1] == pytest.approx(signed, abs=0.01)
    three = explainer.sentences(X, top=3)  # a single other feature is named
    assert not any("other" in sentence for sentences in three for sentence in sentences)


def test_probabilities_are_points():
    forest, X = make_forest("logistic"), rows_of(30)
    forest = dataclasses.replace(forest, classes=(np.array(["no", "yes"]),))
    explainer = glasswood.Explainer(forest, X[:10], output="probability", dtype="float64")
    sentences, row = explainer.sentences(X.iloc[12]), explainer.shap_values(X[12:13])[0]
    assert re.match(
        r"Probability of yes: [\d.]+ %, [\d.]+ points (above|below) the mean of the 10 background rows \(", sentences[0]
    )
    assert all(sentence.endswith("points.") for sentence in sentences[1:])
    np.testing.assert_allclose(
        sizes_of(sentences), 100 * row[np.argsort(-np.abs(row))][: len(sentences) - 1], atol=0.051
    )


def test_log_odds_are_factors():
    forest, X = make_forest("logistic"), rows_of(30)
    explainer = glasswood.Explainer(forest, dtype="float64")
    for row, sentences in zip(explainer.shap_values(X), explainer.sentences(X), strict=True):
        factors = [abs(size) for size in sizes_of(sentences)]
        order = np.argsort(-np.abs(row), kind="stable")[: len(factors)]
        np.testing.assert_allclose(factors, np.exp(np.abs(row[order])), rtol=0.006)
        assert "times the average of the training rows" in sentences[0]
        margin = explainer.expected_value + row.sum()
        percent = float(re.search(r"Probability: ([\d.]+) %", sentences[0])[1])
        assert percent == pytest.approx(100 / (1 + np.exp(-margin)), rel=0.01, abs=0.01)


def test_logarithms_are_percent():
    forest, X = make_forest("exp"), rows_of(10)
    explainer = glasswood.Explainer(forest, dtype="float64")
    row, sentences = explainer.shap_values(X)[3], explainer.sentences(X)[3]
    order = np.argsort(-np.abs(row), kind="stable")[: len(sentences) - 1]
    np.testing.assert_allclose(sizes_of(sentences), 100 * np.expm1(row[order]), rtol=0.01, atol=0.06)
    assert all(sentence.endswith("%.") for sentence in sentences[1:])


def test_one_row_in_all_its_forms():
    explainer, X = glasswood.Explainer(make_forest()), rows_of(3)
    [expected] = explainer.sentences(X[1:2])
    assert isinstance(expected[0], str)
    for row in (X.iloc[1], X.to_numpy()[1], X.iloc[1].to_dict()):
        assert explainer.sentences(row) == expected
    grouped = glasswood.Explainer(make_forest(), groups={"both": ["age", "bmi"]})
    [in_frame] = grouped.sentences(X[1:2])
    assert grouped.sentences(X.iloc[1].to_dict()) == in_frame
    assert any("both (age = " in sentence for sentence in in_frame)


def test_names_values_and_units():
    X = pandas.DataFrame(
        {
            "age": np.arange(200.0),
            "city": pandas.Categorical(np.resize(["Oslo", "Bonn\x1b[31m"], 200)),
            "7": 1e5 + np.arange(200.0) % 3,
        }
    )
    model = pytest.importorskip("sklearn.ensemble").HistGradientBoostingRegressor(
        max_iter=20, categorical_features="from_dtype", min_samples_leaf=2
    )
    model.fit(X, X["age"] + 30 * X["city"].cat.codes + 100 * X["7"])
    explainer = glasswood.Explainer(model)
    said = " ".join(explainer.sentences(X.iloc[[0]], units={"age": "years", "prediction": "€"})[0])
    for part in ("age = 0 years", "city = Oslo", '"7" = 100,000', " €."):
        assert part in said
    assert "\x1b" not in " ".join(explainer.sentences(X.iloc[[1]])[0])
    assert '"7" = 100.000' in " ".join(explainer.sentences(X.iloc[[0]], language="de")[0])
    X.loc[0, "age"] = np.nan
    X.loc[0, "city"] = np.nan
    said = " ".join(explainer.sentences(X.iloc[[0]])[0])
    assert "age = missing" in said
    assert "city = missing" in said


def test_classes_and_outputs():
    forest = make_forest(n_outputs=3)
    X = rows_of(5)
    explainer = glasswood.Explainer(forest, dtype="float64")
    with pytest.raises(ValueError, match="the model has 3 outputs; say by output= which one: '0', '1', '2'"):
        explainer.sentences(X)
    with pytest.raises(ValueError, match="output is 3, expected 0 to 2"):
        explainer.sentences(X, output=3)
    assert explainer.sentences(X, output=1)[0][0].startswith("Prediction of 1: ")
    classes = dataclasses.replace(forest, link="softmax", classes=(np.array(["a", "b", "c"]),))
    explainer = glasswood.Explainer(classes, dtype="float64")
    chosen = classes.predict(X, output="margin").argmax(axis=1)
    for row, place in zip(explainer.sentences(X), chosen, strict=True):
        assert row[0].startswith(f"Score of {'abc'[place]}: ")
    assert explainer.sentences(X, output="b")[0][0].startswith("Score of b: ")


def test_errors_are_said_where_the_last_digit_shows_them():
    n = 26
    forest = dataclasses.replace(full_forest(0, 30, 3, n, "float64"), link="logistic", missing=np.nan)
    X = np.random.default_rng(0).normal(size=(12, n))
    explainer = glasswood.Explainer(forest, X[:3], output="probability")
    said = explainer.sentences(X[5], standard_errors=True)  # of the background: three rows
    assert all("points (± " in sentence for sentence in said[1:-1])
    assert not any("±" in sentence for sentence in explainer.sentences(X[5]))  # of estimates: 0.0003 points


def test_refusals():
    explainer, X = glasswood.Explainer(make_forest()), rows_of(3)
    with pytest.raises(ValueError, match="language is 'it', expected one of en, de, fr, es"):
        explainer.sentences(X, language="it")
    with pytest.raises(ValueError, match="units names 'agee'"):
        explainer.sentences(X, units={"agee": "years"})
    with pytest.raises(ValueError, match="top is 0"):
        explainer.sentences(X, top=0)
    with pytest.raises(NotImplementedError, match="no labels for output='log_loss'"):
        glasswood.Explainer(make_forest("logistic"), X, output="log_loss").sentences(X)


def test_mappers_and_the_command_line(tmp_path):
    pytest.importorskip("pyarrow")
    forest, X = make_forest(), rows_of(40)
    explainer = glasswood.Explainer(forest)
    expected = [" ".join(said) for said in explainer.sentences(X, language="fr", top=2)]
    mapper = explainer.mapper("sentences", language="fr", top=2)
    assert mapper(X)["sentences"].tolist() == expected
    assert mapper.ddl == "`sentences` string"
    with pytest.raises(ValueError, match="features selects columns of values"):
        explainer.mapper("sentences", features=["age"])
    forest.save(tmp_path / "model.glasswood")
    X.assign(id=np.arange(40)).to_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "out.parquet"
    arguments = ["explain", str(tmp_path / "model.glasswood"), str(tmp_path / "rows.parquet"), "-o", str(out)]
    more = ["--sentences", "--language", "fr", "--top", "2", "--columns", "id"]
    assert main([*arguments, *more]) == 0
    found = pandas.read_parquet(out)
    assert found.columns.tolist() == ["id", "sentences"]
    assert found["sentences"].tolist() == expected
    assert main([*arguments, "--sentences", "--interactions"]) == 1
