#!/bin/sh
# usage: check_build.sh PYTHON CXX; says what to install if glasswood cannot be built here.
set -u
python=$1
compiler=${2:-c++}

complain() {
  echo "glasswood: $1" >&2
  exit 1
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  complain "needs Python 3.11 or later, and $python is $("$python" --version 2>&1 | head -n 1); install one (Debian, Ubuntu: apt-get install python3 python3-venv python3-dev; macOS: brew install python) or name it: make PYTHON=python3.12"

"$python" -c 'import ensurepip, venv' 2>/dev/null ||
  complain "$python cannot make virtual environments; install its venv module (Debian, Ubuntu: apt-get install python3-venv)"

"$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  complain "the header Python.h of $python is missing; install it (Debian, Ubuntu: apt-get install python3-dev)"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo '#include <span>
int main() { return static_cast<int>(std::span<const int>().size()); }' >"$folder/probe.cpp"
"$compiler" -std=c++20 "$folder/probe.cpp" -o "$folder/probe" 2>/dev/null ||
  complain "needs a C++20 compiler, and $compiler is none; install one (Debian, Ubuntu: apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install) or name it: make CXX=clang++"
