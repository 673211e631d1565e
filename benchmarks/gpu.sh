#!/bin/sh
# Builds silva, tests it and measures its explanations on a machine with NVIDIA GPUs.
#
#     benchmarks/gpu.sh build test tables throughput
#
# Steps, in the order given: build, test, memcheck, racecheck, tables, throughput, wide, roofline.
# DATA: folder with the data sets of benchmarks/cuda_tables.py. RESULTS: where results go. SITE: where silva is
# installed. MODELS: rows of the tables. SKIP: rivals left out. TESTS: what pytest is given. LIMIT: seconds a step.
set -u
: "${DATA:=.data}" "${RESULTS:=benchmarks/results}" "${SITE:=build/gpu}" "${SKIP:=}" "${LIMIT:=300}"
: "${TESTS:=tests/cuda tests/test_cli.py tests/test_inputs.py}"
: "${MODELS:=cal_housing-small cal_housing-med adult-small adult-med covtype-small covtype-med}"
export PYTHONPATH="$SITE:.${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$RESULTS"
failed=0
# pytest-benchmark, where it is installed, warns beside pytest-xdist, and warnings are errors.
pytest="python3 -m pytest -q -p no:cacheprovider -p no:benchmark -m gpu"

run() {
  timeout "$LIMIT" "$@" || { failed=1; echo "failed: $*"; }
}

# Each test in a process of its own: the tools make kernels hundreds of times slower, and follow no worker processes.
# That an allocation fails is what one of them wants.
sanitize() {
  quiet=$([ "$1" = memcheck ] && echo "--report-api-errors no")
  $pytest --collect-only $TESTS | sed -n 's/^\(tests[^[]*\).*/\1/p' | sort -u |
    xargs -P "$(nproc)" -I{} sh -c "timeout $LIMIT compute-sanitizer --tool $1 $quiet --error-exitcode 9 $pytest {} \
      >$RESULTS/$1.tmp.\$\$ 2>&1; echo {} \$?; tail -n 4 $RESULTS/$1.tmp.\$\$; rm $RESULTS/$1.tmp.\$\$" |
    tee "$RESULTS/$1.log" | grep -E '^tests'
  grep -E '^tests' "$RESULTS/$1.log" | grep -qv ' 0$' && failed=1
}

for step in "$@"; do
  echo "== $step"
  case $step in
    build) run python3 -m pip install --quiet --no-build-isolation --no-deps --upgrade --target "$SITE" . ;;
    test) run $pytest -n 8 $TESTS ;;
    memcheck | racecheck) sanitize "$step" ;;
    tables) run python3 benchmarks/cuda_tables.py --data "$DATA" --results "$RESULTS" --name "${NAME:-cuda}" --skip "$SKIP" $MODELS ;;
    throughput) run python3 benchmarks/cuda_tables.py --data "$DATA" --results "$RESULTS" --name cuda_throughput ;;
    wide) run python3 benchmarks/cuda_tables.py --data "$DATA" --results "$RESULTS" --name cuda_wide --wide ;;
    roofline) run python3 benchmarks/cuda_roofline.py --data "$DATA" --results "$RESULTS" ;;
    *) echo "unknown step $step" && failed=1 ;;
  esac
done
exit $failed
