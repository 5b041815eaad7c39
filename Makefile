# Two commands do everything: `make book` and `make test`. Neither needs an activated environment.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv
READY  := $(VENV)/.ready
PORT   ?= 8000
# Which processor the checks run on: the machine's own, or one that tests/processor.py can emulate.
PROCESSOR ?= own

export PYDEVD_DISABLE_FILE_VALIDATION := 1
export JUPYTER_PLATFORM_DIRS := 1
# Hundreds of processes import the same modules: each is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup book stored pdf test suite lint render unit notebooks pages bench mutants serve lab store lock clean

# One suite on three workers (see tests/lanes.py), one thread each.
suite unit notebooks pages: export OMP_NUM_THREADS ?= 1
suite unit notebooks pages: export OPENBLAS_NUM_THREADS ?= 1
EMULATED = $(BIN)/python tests/processor.py $(PROCESSOR) $(BIN)/python
LANES    = -n 3 --dist loadscope --no-loadscope-reorder
NBVAL    = --nbval --nbval-cell-timeout=1200

help:      ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/'

setup: $(READY)   ## create the environment from the lock

# Compiled at once: kernels start sooner, and what compilers warn of is not said in a chapter.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "attnflow needs Python 3.11 or newer, not " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(UV) pip install --quiet --compile-bytecode --require-hashes -r requirements.lock
	$(UV) pip install --quiet --no-deps --editable .
	@touch $@

book: $(READY)    ## execute the chapters, write the ledger, render _build/html
	$(BIN)/attnflow book

stored: $(READY)  ## render the committed outputs, executing nothing
	$(BIN)/attnflow book --stored

pdf: book         ## the book as one PDF, _build/attnflow.pdf, printed by Chromium
	$(BIN)/attnflow pdf

test: $(READY)    ## every check: style and types, then units, claims, controls, notebooks and pages
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint suite
	@echo "make test: all checks passed"

suite: $(READY)   ## all of it but `make lint`
	+$(EMULATED) -m pytest $(LANES) $(NBVAL) --durations=15 tests book

lint: $(READY)    ## style, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

render: $(READY)  ## the committed outputs as pages, with warnings as errors
	$(BIN)/attnflow book --stored --strict

# The parts of `make test`, one at a time.
unit: $(READY)    ## unit, property and doctests; claims and their controls
	$(EMULATED) -m pytest $(LANES) --durations=15 -m "not built and not browser" tests

notebooks: $(READY)   ## nbval: every chapter says again what is committed
	$(EMULATED) -m pytest -n 2 --dist loadfile -p no:warnings $(NBVAL) book

pages: $(READY)   ## links and pages in a browser
	$(BIN)/python -m pytest $(LANES) -m "built or browser" tests/test_pages.py

bench: $(READY)   ## ratios to peers, measured in one run, in an environment of its own
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	VIRTUAL_ENV=$(CURDIR)/.venv-bench $(BIN)/uv pip install --quiet --editable '.[fast,trained,bench]'
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-bench/bin/python benchmarks/transport.py
	.venv-bench/bin/python benchmarks/general.py
	.venv-bench/bin/python benchmarks/small.py
	.venv-bench/bin/python benchmarks/heat.py
	.venv-bench/bin/python benchmarks/sphere.py
	.venv-bench/bin/python benchmarks/meanfield.py
	.venv-bench/bin/python benchmarks/lipschitz.py
	$(BIN)/python benchmarks/cluster.py

NUMBER ?= 500
SEED   ?= 0
mutants: $(READY) ## how many of NUMBER random changes of the mathematics the tests notice (an hour)
	@$(BIN)/python -c 'import cosmic_ray' 2>/dev/null || $(UV) pip install --quiet --constraint requirements.lock --editable '.[mutants]'
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONPATH=src:tests $(BIN)/python -m mutants --number $(NUMBER) --seed $(SEED)

serve: $(READY)   ## the built book on http://localhost:$(PORT), with reruns from its pages
	$(BIN)/attnflow serve --port $(PORT)

lab: $(READY)     ## JupyterLab on the chapters; what is saved there is saved as text, too
	@test -x $(BIN)/jupyter-lab || $(UV) pip install --quiet --constraint requirements.lock --editable '.[lab]'
	$(BIN)/jupyter lab book

store: $(READY)   ## execute the chapters at defaults and write their outputs back into book/
	$(BIN)/attnflow store

lock: $(READY)    ## solve the dependencies again
	$(UV) pip compile pyproject.toml --extra book --extra test --generate-hashes --universal \
	  --python-version 3.11 --custom-compile-command "make lock" --quiet -o requirements.lock

clean:     ## forget what was built and run (the environment too)
	rm -rf _build $(VENV)
