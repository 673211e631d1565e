"""Predict, explain and grow on the frames, arrays and futures of Dask, where their parts are."""

from silva.dask.fitting import fit
from silva.dask.mapping import explain, predict

__all__ = ["explain", "fit", "predict"]
