#!/usr/bin/env bash
# Attacks on a core that is built with sanitizers: tools/sanitize.sh address | thread.
#   address: AddressSanitizer and UndefinedBehaviorSanitizer; files, and the core's tests, with the kernels of each
#            instruction set in turn (LEVELS).
#   thread:  ThreadSanitizer; tests of what several threads do at a time, growing on emulated GPUs, and the stress.
# The first run compiles for minutes. SECONDS_EACH of fuzzing a level and of stress; SEED. GLASSWOOD_LEVELS=machine LEVELS="v2 v4"
# compiles less.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind=${1:?address or thread}
case $kind in
address) sanitizers=address,undefined levels=${GLASSWOOD_LEVELS:-all} library=libasan.so ;;
thread) sanitizers=thread levels=one library=libtsan.so ;;
*) echo "tools/sanitize.sh: $kind, expected address or thread" >&2 && exit 2 ;;
esac
CXX=${CXX:-g++} SEED=${SEED:-1} SECONDS_EACH=${SECONDS_EACH:-60} LEVELS=${LEVELS:-scalar v2 v3 v4}
folder=build/sanitize/$kind
python=$folder/venv/bin/python
log=$PWD/$folder/log

# An environment of its own, with the libraries of .venv.
if [[ ! -e $python ]]; then
  .venv/bin/python -m venv --without-pip "$folder/venv"
  .venv/bin/python -c 'import sys; print(*(p for p in sys.path if p.endswith("site-packages")), sep="\n")' \
    >"$($python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/libraries.pth"
fi
.venv/bin/python -m pip --python "$python" --disable-pip-version-check -qq install --no-build-isolation --no-deps \
  --force-reinstall --editable . -C cmake.define.GLASSWOOD_SANITIZE=$sanitizers -C cmake.define.GLASSWOOD_LEVELS=$levels \
  -C build-dir="$folder/objects" -C install.strip=false

# The false frames of use-after-return, on by default since GCC 13, are not aligned for AVX-512: loads from the stack fault.
# Python itself is not instrumented: the sanitizer comes first, and what Python keeps until the end is no leak.
sanitized() {
  LD_PRELOAD="$("$CXX" -print-file-name=$library) $("$CXX" -print-file-name=libstdc++.so)" PYTHONMALLOC=malloc \
    ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1:max_allocation_size_mb=4096 \
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
    TSAN_OPTIONS="exitcode=66:history_size=4:die_after_fork=0:log_path=$log" \
    "$python" "$@"
}
# What a sanitizer says before it ends the process is not to be held back by pytest: --capture=sys.
tests() { sanitized -m pytest -q -x --capture=sys -p no:cacheprovider -o timeout=1200 -m "not slow and not gpu" "$@"; }

rm -f "$log"*
if [[ $kind == address ]]; then
  for level in $LEVELS; do
    echo "== $level"
    export GLASSWOOD_ISA=$level
    tests tests/evaluate tests/explain tests/grow/test_evaluation.py tests/grow/test_operators.py \
      tests/grow/test_polish.py tests/grow/test_linear_leaves.py tests/test_storage.py
    sanitized -m tests.fuzz --seconds "$SECONDS_EACH" --seed "$SEED" --memory 0 --case-seconds 120 \
      --workers "${WORKERS:-2}" --keep "build/fuzz-$level"
  done
else
  tests tests/evaluate/test_parallel.py tests/evaluate/test_predictor.py tests/explain/test_contract.py \
    tests/explain/test_row.py tests/grow/test_evaluation.py tests/cuda/test_grow.py
  sanitized -m tests.stress --seconds "$SECONDS_EACH" --seed "$SEED" --no-forks
fi
