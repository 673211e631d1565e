"""Write the .spark files of this folder: archives of folders in which Spark has saved models, and what these predict.

python tests/readers/data/make_spark.py [folder] [pyspark's version]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.readers.adversarial import adversarial_rows
from tests.readers.spark_models import MODELS, fit, make_rows, pack, responses, session

import glasswood


def main(folder: Path) -> None:
    """Fit, save and predict a model of each kind."""
    spark = session()
    X = make_rows(0)
    for name in MODELS:
        with tempfile.TemporaryDirectory() as work:
            path = Path(work) / "model"
            model = fit(spark, name, X, 0)
            model.save(str(path))
            rows = adversarial_rows(glasswood.load(path), X, allow_inf=False, max_rows=400)
            target = folder / f"spark-{spark.version}-{name}.spark"
            target.write_bytes(pack(path))
            np.savez_compressed(f"{target}.npz", rows=rows, **responses(spark, model, rows))
            shutil.rmtree(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
