"""Print the requirements of extras and groups, one a line: `python tools/requirements.py files test`."""

import sys

from install import requirements

if __name__ == "__main__":
    print("\n".join(sorted({line for part in sys.argv[1:] for line in requirements(part)})))
