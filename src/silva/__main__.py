"""`python -m silva` is the command line."""

import sys

from silva.cli import main

if __name__ == "__main__":
    sys.exit(main())
