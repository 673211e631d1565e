#!/bin/sh
# Builds silva, tests it and measures its explanations on a machine with NVIDIA GPUs.
#
#     benchmarks/gpu.sh build test tables throughput
#
# Steps, in the order given: build, test, memcheck, racecheck, tables, throughput, roofline.
# DATA: folder with the data sets of benchmarks/cuda_tables.py. RESULTS: where results go. SITE: where silva is
# installed. MODELS: rows of the tables. SKIP: rivals left out. TEST: arguments of pytest. LIMIT: seconds a step.
set -u
: "${DATA:=.data}" "${RESULTS:=benchmarks/results}" "${SITE:=build/gpu}" "${SKIP:=}" "${TEST:=-n 4}" "${LIMIT:=300}"
: "${MODELS:=cal_housing-small cal_housing-med adult-small adult-med covtype-small covtype-med}"
export PYTHONPATH="$SITE:.${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$RESULTS"
failed=0

run() {
  timeout "$LIMIT" "$@" || { failed=1; echo "failed: $*"; }
}

for step in "$@"; do
  echo "== $step"
  case $step in
    build) run python3 -m pip install --quiet --no-build-isolation --no-deps --upgrade --target "$SITE" . ;;
    # The package that was built is tested, not the sources beside it.
    test) run python3 -m pytest -q -p no:cacheprovider -m gpu $TEST tests ;;
    memcheck | racecheck)
      run compute-sanitizer --tool "$step" --error-exitcode 9 --target-processes all \
        python3 -m pytest -q -p no:cacheprovider -m gpu $TEST tests/cuda ;;
    tables) run python3 benchmarks/cuda_tables.py --data "$DATA" --results "$RESULTS" --skip "$SKIP" $MODELS ;;
    throughput) run python3 benchmarks/cuda_tables.py --data "$DATA" --results "$RESULTS" --name cuda_throughput ;;
    roofline) run python3 benchmarks/cuda_roofline.py --data "$DATA" --results "$RESULTS" ;;
    *) echo "unknown step $step" && failed=1 ;;
  esac
done
exit $failed
