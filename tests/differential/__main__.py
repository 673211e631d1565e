"""python -m tests.differential --help."""

import sys

from tests.differential.run import main

sys.exit(main())
