# make demo | test | test-slow | test-others | test-oldest | lint | types | docs | bench | wheel | clean, and attacks (tests/README.md): fuzz | differential | stress | sanitize
# Everything runs in .venv, which is made on first use. PYTHON=python3.12 and CXX=clang++ choose others than the default.
# `make bench` has its own environment: the libraries that it compares with need Python 3.12 (BENCH_PYTHON). It takes its
# data sets from GLASSWOOD_DATA, and options by BENCH="values interactions"; BENCH=--help lists them.

find_python = $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
  $(name) -c 'import sys; sys.version_info >= (3, $(1)) and print("$(name)")' 2>/dev/null)) python3)
PYTHON ?= $(call find_python,11)
VENV := .venv
BIN := $(VENV)/bin
# As many processes of tests as cores, of which each takes a gigabyte: at most eight.
CORES := $(or $(shell getconf _NPROCESSORS_ONLN 2>/dev/null),2)
WORKERS ?= $(shell echo $$(($(CORES) < 8 ? $(CORES) : 8)))
# Each worker begins with a stretch of its own, so that modules' fixtures are made once.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_OPTIONS)
# Images of containers set it; every worker, and every process that tests start, would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
NATIVE := $(shell find src/glasswood/native -type f)
CXX_SOURCES := $(filter %.h %.cuh %.cpp %.cu,$(NATIVE) $(shell find tests -type f))

ROWS := 1000000
FRAMES := 2000
BATCHES := 1000
SEED ?= $(shell date +%s)

.PHONY: demo test test-slow test-others run-test-others test-oldest run-test-oldest lint format types docs bench run-bench wheel clean fuzz differential stress sanitize
.DELETE_ON_ERROR:

demo: $(VENV)/demo.stamp
	$(BIN)/glasswood demo

test: $(VENV)/test.stamp
	$(PYTEST) -m "not slow"

test-slow: $(VENV)/test.stamp $(VENV)/engines.stamp
	$(PYTEST) -m slow

# Readers of libraries that do not go together with the others; they have an environment of their own.
test-others:
	$(MAKE) run-test-others VENV=build/others-venv

run-test-others: $(VENV)/others.stamp
	$(PYTEST) tests/readers/test_causalml.py tests/readers/test_lineartree.py tests/readers/test_ngboost.py \
	  tests/readers/test_sklearn_pickles.py

# With the oldest versions of the libraries that glasswood supports (tests/oldest.txt); shap 0.47 reads no XGBoost 3.1.
test-oldest:
	$(MAKE) run-test-oldest VENV=build/oldest-venv

run-test-oldest: $(VENV)/oldest.stamp
	$(PYTEST) -m "not slow" -W ignore::DeprecationWarning -W ignore::FutureWarning @tests/core.txt tests/cli tests/display \
	  tests/inputs tests/inspection tests/mapping tests/neighbors tests/populations \
	  --deselect "tests/explain/test_background.py::test_values_are_those_of_shap"

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)
	@$(BIN)/python tools/check_commits.py

format: $(VENV)/lint.stamp
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	@$(BIN)/clang-format -i $(CXX_SOURCES)

types: $(VENV)/lint.stamp $(VENV)/test.stamp
	$(BIN)/python tools/stub.py glasswood._core src/glasswood/_core.pyi
	$(BIN)/mypy
	$(BIN)/python tools/check_types.py

# The site, in build/docs. Tutorials (examples/) are executed, warnings are errors.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going -q docs build/docs
	@echo "build/docs/index.html"

# Mutated model files for SECONDS, files of neighbours, summaries and tables, hostile names through all writers; SEED
# makes the same ones again. What is found is kept in build/fuzz.
fuzz: SECONDS ?= 600
fuzz: $(VENV)/test.stamp
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) --workers $(WORKERS) $(FUZZ)
	$(BIN)/python -m tests.fuzz.stored --seed $(SEED) $(STORED)
	$(BIN)/python -m tests.fuzz.names --seed $(SEED) $(NAMES)

# Random models of every library against adversarial rows; FRAMES of mixed columns, and BATCHES as DMatrix;
# MODELS of scikit-learn around them.
differential: MODELS ?= 2360
differential: $(VENV)/test.stamp
	$(BIN)/python -m tests.differential --rows $(ROWS) --seed $(SEED)
	$(BIN)/python -m tests.differential.frames --frames $(FRAMES) --batches $(BATCHES) --seed $(SEED)
	$(BIN)/python -m tests.differential.wrapped --models $(MODELS) --seed $(SEED)

# Threads that predict, explain, grow, fail, fork and are interrupted at a time.
stress: SECONDS ?= 60
stress: $(VENV)/test.stamp
	$(BIN)/python -m tests.stress --seconds $(SECONDS) --seed $(SEED)

# The attacks on a core with sanitizers: KIND=address (and undefined behaviour) or thread.
sanitize: $(VENV)/test.stamp
	SEED=$(SEED) WORKERS=$(WORKERS) tools/sanitize.sh $(or $(KIND),address)

# Into dist/, audited and tried in fresh environments: tools/wheel.sh says which.
wheel:
	tools/wheel.sh

bench:
	$(MAKE) run-bench VENV=build/bench-venv PYTHON="$(or $(BENCH_PYTHON),$(call find_python,12))"

run-bench: $(VENV)/bench.stamp
	$(BIN)/python -m benchmarks.run $(BENCH)

clean:
	rm -rf $(VENV) build dist glasswood-demo docs/tutorials .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The build tools live in .venv, so that a changed kernel is recompiled there without downloading anything.
$(VENV)/tools.stamp: pyproject.toml tools/check_build.sh
	@sh tools/check_build.sh "$(PYTHON)" "$(if $(filter default,$(origin CXX)),c++,$(CXX))"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python tools/install.py build
	@touch $@

$(VENV)/core.stamp: $(VENV)/tools.stamp CMakeLists.txt $(NATIVE)
	$(BIN)/python tools/install.py core
	@touch $@

$(VENV)/lint.stamp: $(VENV)/tools.stamp
	$(BIN)/python tools/install.py lint
	@touch $@

$(VENV)/%.stamp: $(VENV)/tools.stamp | $(VENV)/core.stamp
	$(BIN)/python tools/install.py $*
	@touch $@
