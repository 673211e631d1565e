"""Count the public symbols whose types a checker knows without inferring them, as those who use glasswood have them."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEAST = 0.98
COMMAND = ["basedpyright", "--verifytypes", "glasswood", "--ignoreexternal", "--outputjson"]


def main() -> int:
    """Print the share, and what is not known where it is too small."""
    command = [*COMMAND, "--pythonpath", sys.executable]
    command[0] = str(Path(sys.executable).parent / command[0])
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout)["typeCompleteness"]
    share = found["completenessScore"]
    if share < LEAST:
        for symbol in found["symbols"]:
            for line in symbol["diagnostics"] if symbol["isExported"] and not symbol["isTypeKnown"] else ():
                print(f"{symbol['name']}: {line['message'].splitlines()[0]}")
    print(f"types of {share:.1%} of the public symbols are known, expected at least {LEAST:.0%}")
    return int(share < LEAST)


if __name__ == "__main__":
    sys.exit(main())
