"""python -m tests.fuzz --help."""

import sys

from tests.fuzz.run import main

sys.exit(main())
