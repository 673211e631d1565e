"""`python -m glasswood` is the command line."""

import sys

from glasswood.cli import main

if __name__ == "__main__":
    sys.exit(main())
