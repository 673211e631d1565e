"""python -m tests.stress --help."""

import os
import sys

from tests.stress.run import main

code = main()
sys.stderr.flush()
os._exit(code)  # a thread that hangs would keep the process
