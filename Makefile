# `make run` and `make test` each work as the first command on a fresh clone: they set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test test-all bounds docs outputs wheel botorch doors matrix coverage speed release-check address workers attack lint format bench \
	simulators clean

run: $(READY)  ## the paper's main figure at reduced size, the radius dial, and the report of an example
	$(BIN)/drbo reproduce figure2 --quick
	$(BIN)/drbo reproduce dial
	$(BIN)/python examples/production.py out/plant.json
	$(BIN)/drbo report out/plant.json
	@echo "open out/plant.html in a browser: what the example in examples/production.py learned"

# One process a core: threads of the linear algebra library would only get in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
# Each process has one half of the files, so that most fixtures are made once; who is done first helps the other.
TWO := -n 2 --dist worksteal

test: lint  ## ruff, strict mypy, pytest
	$(BIN)/python -m pytest $(TWO)

test-all: lint botorch doors docs wheel bounds  ## the long sweeps too, compiled code that checks its bounds, the site, what users install
	$(BIN)/python -m pytest $(TWO) -m "slow or not slow" --hypothesis-profile long

bounds: $(READY)  ## the tests with compiled code that checks the bounds of arrays, in a cache of its own
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.matrix/numba-bounds $(BIN)/python -m pytest $(TWO) $(ARGUMENTS)

docs: $(READY)  ## the site, in out/docs; a warning is an error
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -b html docs out/docs
	@echo "open out/docs/index.html in a browser"

PAGES ?= README.md docs/*.md

outputs: $(READY)  ## run the code blocks of PAGES, and write what they print and draw into the pages
	$(BIN)/python tests/pages.py $(PAGES)

wheel: $(READY)  ## build the sdist and the wheel, install each in a fresh environment, run the examples against the wheel
	$(BIN)/python scripts/wheel.py

botorch: $(READY)  ## what needs torch, which is large: `make test` skips it where it is not installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,botorch]'
	$(BIN)/python -m pytest $(TWO) tests/integrations/test_botorch.py tests/test_bad_integrations.py tests/test_examples.py tests/test_readme.py -k botorch

doors: $(READY)  ## what needs MLflow, OptunaHub, Ray, Xopt or rattler-build: `make test` skips it where they are not installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,mlflow,ray]' optunahub py-rattler-build xopt
	$(BIN)/python -m pytest $(TWO) tests/integrations tests/test_examples.py tests/test_release.py -k "mlflow or hub or ray or xopt or rattler"

# These tests trace the lines that run, as coverage does on Python 3.11: both at once hang.
TRACING := $(addprefix --ignore=tests/,test_files.py test_signals.py test_threads_limit.py knowledge/test_nasty_files.py \
	$(addprefix optimizer/test_,calls.py interrupts.py interrupts_everywhere.py many_outcomes.py))

coverage: $(READY)  ## line and branch coverage of the tests, a table; pages in out/coverage
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pytest-cov
	$(BIN)/python -m pytest $(TWO) --cov=drbo --cov-branch --cov-report=term:skip-covered --cov-report=html:out/coverage $(TRACING) $(ARGUMENTS)

BASE ?= main

speed: $(READY)  ## this commit beside BASE, the same rows in alternating processes: ratios of CPU time
	rm -rf .matrix/base && mkdir -p .matrix/base && git archive $(BASE) src | tar -x -C .matrix/base
	$(BIN)/python benchmarks/pairs.py .matrix/base/src src --pairs $(or $(PAIRS),3)

release-check: $(READY)  ## build, check, install the wheel on every Python, lowest and newest packages; a table
	$(BIN)/python scripts/release_check.py $(PYTHONS)

address: $(READY)  ## fill in the owner of the repository: make address OWNER=...
	$(BIN)/python scripts/address.py $(OWNER)

workers: $(READY)  ## 16 workers on one PostgreSQL study, two killed, one restart; 45 minutes on an idle machine
	$(BIN)/python benchmarks/many_workers.py $(ARGUMENTS)

matrix: $(READY)  ## the tests on every Python, with the lowest packages, and as on other processors; a table
	$(BIN)/python scripts/matrix.py $(ENVIRONMENTS) -- $(ARGUMENTS)

attack: $(READY)  ## a million random worst cases, each checked; a table
	$(BIN)/python scripts/attack.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# An environment of its own: BoTorch brings torch, and the tests of `make test` skip what needs torch where it is missing.
BENCH := .bench-venv

bench: $(BENCH)/.ready  ## side by side with what people use today: writes benchmarks/RESULTS.md
	$(BENCH)/bin/python benchmarks/run.py

$(BENCH)/.ready: pyproject.toml constraints.txt
	test -x $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --group bench --editable '.[all,botorch]'
	touch $(BENCH)/.ready

# An environment of its own, too: PyBaMM and MuJoCo are large.
SIMULATORS := .simulators-venv

simulators: $(SIMULATORS)/.ready  ## whether printed bounds hold on real simulators: tables, runs in out/simulators
	PYTHONPATH=benchmarks $(SIMULATORS)/bin/python benchmarks/simulators/run.py --radius-zero $(ARGUMENTS)

$(SIMULATORS)/.ready: pyproject.toml
	test -x $(SIMULATORS)/bin/python || $(PYTHON) -m venv $(SIMULATORS)
	$(SIMULATORS)/bin/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(SIMULATORS)/bin/python -m pip install --quiet --group simulators --editable '.[experiments]'
	touch $(SIMULATORS)/.ready

clean:
	rm -rf $(VENV) $(BENCH) $(SIMULATORS) .matrix .mypy_cache .pytest_cache .ruff_cache .hypothesis out

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[all]'
	touch $(READY)
