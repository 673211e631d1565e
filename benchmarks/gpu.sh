#!/bin/sh
# Builds glasswood, tests it and measures its explanations on a machine with NVIDIA GPUs.
#
#     benchmarks/gpu.sh build test memcheck racecheck train tables throughput background responses shap
#     benchmarks/gpu.sh categories large wide strongest wide_background divided_background roofline
#     benchmarks/gpu.sh report
#
# The kernels of explanations alone, minutes of sanitizers instead of an hour:
#
#     TESTS=tests/cuda/test_every_kernel.py benchmarks/gpu.sh memcheck racecheck
#
# Steps run in the order given. Two at a time want a GPU each (CUDA_VISIBLE_DEVICES); "report" makes one table of all
# that lies in RESULTS.
# DATA: folder with the data sets of benchmarks/cuda_models.py. RESULTS: where results go. SITE: where glasswood is
# installed. TRAINED: where models are kept. MODELS: rows of the tables. NAME: their file. SKIP: rivals left out. TESTS:
# what pytest is given. WORKERS: processes of tests. LIMIT: seconds a step. RIVAL: run rivals too. COMMIT: what is measured.
set -u
: "${DATA:=.data}" "${RESULTS:=benchmarks/results}" "${SITE:=build/gpu}" "${TRAINED:=build/trained}" "${SKIP:=}"
: "${TESTS:=tests/cuda tests/explain tests/evaluate}" "${WORKERS:=$(nproc)}" "${LIMIT:=300}" "${NAME:=tables}"
: "${MODELS:=cal_housing-small cal_housing-med adult-small adult-med covtype-small covtype-med}"
: "${COMMIT:=$(git rev-parse --short HEAD 2>/dev/null)}"
export PYTHONPATH="$SITE:.${PYTHONPATH:+:$PYTHONPATH}"
mkdir -p "$RESULTS" "$TRAINED"
failed=0
# pytest-benchmark, where it is installed, warns beside pytest-xdist, and warnings are errors.
pytest="python3 -m pytest -p no:cacheprovider -p no:benchmark -m gpu"
tables="python3 benchmarks/cuda_tables.py --data $DATA --results $RESULTS --trained $TRAINED --commit ${COMMIT:-unknown}"

run() {
  timeout "$LIMIT" "$@" || { failed=1; echo "failed: $*"; }
}

# The tools make kernels hundreds of times slower and follow no worker processes: every process takes each n-th test,
# with fewer examples and repeats. That an allocation fails is what one of the tests wants.
sanitize() {
  quiet=$([ "$1" = memcheck ] && echo "--report-api-errors no")
  rm -f "$RESULTS/$1".*
  $pytest -q --collect-only $TESTS | grep '^tests.*::' >"$RESULTS/$1.ids"
  seq 0 $((WORKERS - 1)) | GLASSWOOD_MOST_REPEATS=3 xargs -P "$WORKERS" -I{} sh -c "
    awk 'NR % $WORKERS == {}' $RESULTS/$1.ids | xargs -r -d '\n' timeout $LIMIT \
      compute-sanitizer --tool $1 $quiet --error-exitcode 9 $pytest -v >$RESULTS/$1.{}.part 2>&1
    echo \"process {}: exit \$?, \$(grep 'SUMMARY' $RESULTS/$1.{}.part | tail -n 1)\"" | tee "$RESULTS/$1.log"
  grep -hE '^tests.* (PASSED|SKIPPED)' "$RESULTS/$1".*.part | sed -E 's/ (PASSED|SKIPPED).*//' | sort >"$RESULTS/$1.passed"
  sort "$RESULTS/$1.ids" | comm -23 - "$RESULTS/$1.passed" | sed 's/^/not passed: /' >>"$RESULTS/$1.log"
  grep -hE '^(FAILED|ERROR)|=========.*(Invalid|Error|hazard|race)' "$RESULTS/$1".*.part | sort | uniq -c |
    sort -rn | head -n 40 >>"$RESULTS/$1.log"
  echo "$(wc -l <"$RESULTS/$1.passed") of $(wc -l <"$RESULTS/$1.ids") tests passed," \
    "$(cat "$RESULTS/$1".*.part | grep -cE '^tests.* SKIPPED') of them skipped" | tee -a "$RESULTS/$1.log"
  grep -q 'not passed' "$RESULTS/$1.log" && failed=1
  rm -f "$RESULTS/$1".*.part "$RESULTS/$1.ids" "$RESULTS/$1.passed"
}

for step in "$@"; do
  echo "== $step"
  case $step in
    build) run python3 -m pip install --quiet --no-build-isolation --no-deps --upgrade --target "$SITE" . ;;
    test) run $pytest -q -n "$WORKERS" $TESTS >"$RESULTS/test.log" 2>&1; tail -n 15 "$RESULTS/test.log" ;;
    memcheck | racecheck) sanitize "$step" ;;
    train) run $tables --train $MODELS ;;
    tables) run $tables --name "$NAME" --skip "$SKIP" $MODELS ;;
    throughput) run $tables --name throughput --throughput ;;
    background) run $tables --name background --background ;;
    responses) GLASSWOOD_DATA=$DATA run python3 -m benchmarks.responses --gpu "$RESULTS" ;;
    shap) run python3 benchmarks/cuda_shap.py --results "$RESULTS" --commit "${COMMIT:-unknown}" ;;
    large) run python3 benchmarks/cuda_large.py --results "$RESULTS" --commit "${COMMIT:-unknown}" ;;
    categories) GLASSWOOD_DATA=$DATA run python3 benchmarks/cuda_categories.py --results "$RESULTS" --commit "${COMMIT:-unknown}" ;;
    wide_background) run python3 -m benchmarks.wide_background --results "$RESULTS" ${RIVAL:+--rival} ;;
    divided_background) run python3 -m benchmarks.divided_background --results "$RESULTS" ;;
    strongest) run python3 -m benchmarks.strongest --device cuda --results "$RESULTS" ;;
    score) run python3 -m benchmarks.score --device cuda --results "$RESULTS" ;;
    wide) run $tables --name wide --wide ;;
    roofline) run python3 benchmarks/cuda_roofline.py --data "$DATA" --trained "$TRAINED" --results "$RESULTS" ;;
    report)
      # It takes every JSON file for a call's results.
      [ "$RESULTS" = benchmarks/results ] && { echo "report: set RESULTS to the folder of these calls alone"; exit 2; }
      run python3 -m benchmarks.cuda_report "$RESULTS" benchmarks/results/cuda_h200
      ;;
    *) echo "unknown step $step" && failed=1 ;;
  esac
done
exit $failed
