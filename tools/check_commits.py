"""Check the messages of commits since BASE: a subject of at most 72 characters, an empty line, a body."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BASE = "4b2b5eee1020bc5b5c55a5e57458bf40e6284540"
"""Commits up to this one are older than the rule."""

MOST = 72


def git(*arguments: str) -> str | None:
    """Output of git, None where it fails."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def faults(message: str) -> list[str]:
    """List what is wrong with a commit message."""
    subject, *rest = message.strip().split("\n")
    found = []
    if len(subject) > MOST:
        found.append(f"the subject has {len(subject)} characters, expected at most {MOST}")
    if rest and rest[0].strip():
        found.append("the line below the subject is not empty")
    if not "".join(rest).strip():
        found.append("there is no body, say why")
    return found


def main() -> int:
    """Check what HEAD has beyond BASE; nothing outside of a checkout that has BASE, such as a shallow clone."""
    log = git("log", "--no-merges", "--format=%h%x1f%B%x1e", f"{BASE}..HEAD")
    if log is None:
        return 0
    commits = [entry.strip().split("\x1f") for entry in log.split("\x1e") if entry.strip()]
    wrong = [(commit, message.partition("\n")[0], fault) for commit, message in commits for fault in faults(message)]
    for commit, subject, fault in wrong:
        print(f"commit {commit} ({subject}): {fault}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
