# Two commands are all a fresh machine needs: `make demo` and `make test`.
# The venv is made anew only when setup.cfg or pyproject.toml changes, so both work offline afterwards.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
JOBS ?= 6
PYTEST = $(BIN)/pytest
unexport PYTHONDONTWRITEBYTECODE  # set in some containers: each worker would compile all tests again
export OPENBLAS_NUM_THREADS = 1
export OMP_NUM_THREADS = 1

.PHONY: help install demo test test-fast coverage mutants soak docs dist bench check format clean

help:
	@echo "make demo       a contest of all five tracks on synthetic recordings, with a leaderboard"
	@echo "make test       all checks and tests"
	@echo "make test-fast  the tests without LSL, browsers and other slow ones"
	@echo "make coverage   branch coverage of the four packages"
	@echo "make mutants    mutation testing of the rules in tracks/ with mutmut (hours)"
	@echo "make soak       eight teams under random faults, for an hour (SECONDS=...)"
	@echo "make docs       the documentation site, in docs/_build/html"
	@echo "make dist       sdist and wheel, in dist/"
	@echo "make bench      all benchmarks, as one table of ratios (half an hour)"
	@echo "make check      ruff, ruff format, mypy --strict, import-linter"
	@echo "make format     let ruff put the code in order"

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/python scripts/demo.py

# Six workers on two cores, because many tests wait for LSL, a browser or other processes. Quick tests come first;
# the checks, most of which is one process of mypy, run beside them. A failure of either fails the target, and what
# the checks printed is shown last.
test: $(STAMP)
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 & checks=$$!; \
	$(PYTEST) -n $(JOBS); tests=$$?; \
	wait $$checks; checked=$$?; cat $(VENV)/check.log; \
	[ $$checked = 0 ] || echo "make check failed; its output is above"; \
	[ $$tests = 0 ] && [ $$checked = 0 ]

# These compute: more workers than needed would only load all tests once more.
test-fast: $(STAMP)
	$(PYTEST) -n 3 -m "not lsl and not browser and not slow"

coverage: $(STAMP)
	$(PYTEST) -n $(JOBS) --cov --cov-report=
	$(BIN)/coverage report --skip-covered --sort=cover --fail-under=92

# MUTANTS: names or globs, for example MUTANTS='tracks.erp*'; the settings are in setup.cfg.
mutants: $(STAMP)
	$(BIN)/mutmut run $(MUTANTS)
	$(BIN)/mutmut results

SECONDS ?= 3600
soak: $(STAMP)
	$(BIN)/python -m scripts.soak --seconds $(SECONDS)

docs: $(STAMP)
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python scripts/check_links.py docs/_build/html

dist: $(STAMP)
	rm -rf dist
	$(BIN)/uv build --out-dir dist .

bench: $(STAMP)
	$(BIN)/python -m scripts.bench.all

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --config setup.cfg

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .demo build dist docs/_build docs/auto_gallery docs/reference/generated *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage .coverage.* mutants
