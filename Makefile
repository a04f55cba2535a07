# Everything a contributor runs. Each target makes the environment it needs; plain `make` lists them.

PYTHON ?= python3

# Another torch gets an environment of its own: make test TORCH=2.11.0 TRITON=3.6.0
TORCH :=
TRITON :=
ARGS :=

# The commit that `make views` compares with.
BASE := HEAD

# Check the types as on another system: make types PLATFORM=darwin
PLATFORM :=

VENV := .venv$(if $(TORCH),-$(TORCH))
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := .venv-demo

# Each torch is built for one triton: given one, pip would happily install the newest of the other.
ifneq ($(if $(TORCH),set),$(if $(TRITON),set))
$(error name both, as in: make test TORCH=2.11.0 TRITON=3.6.0)
endif

# Type checkers follow no import hooks, so they get the folders under their installed names, and scripts side by side.
LINKED := cli inspector reports ctrace/__init__.py ctrace/__main__.py ctrace/py.typed

SCRIPTS := $(wildcard tools/*.py benchmarks/*.py)
PACKAGES := tools/matrix

MYPY := $(BIN)/mypy $(if $(PLATFORM),--platform $(PLATFORM)) -p ctrace -p tests $(addprefix -p ,$(notdir $(PACKAGES))) $(addprefix -m ,$(notdir $(SCRIPTS:.py=)))

# These tests import torch, which takes seconds.
WITH_TORCH := tests/inspector/capture $(wildcard tests/inspector/features/*/child) \
	tests/inspector/features/cluster/test_what_lacks.py tests/inspector/features/fix/repairs/source/test_means.py \
	tests/inspector/features/fix/repairs/source/test_runs.py tests/reports/dump/test_cpp_kernel.py \
	tests/reports/dump/test_ejected_tests.py tests/reports/dump/test_place.py
UNITS := tests/test_architecture.py tests/cli tests/inspector tests/reports
FAST := -q --hypothesis-profile=quick -m "not integration and not slow and not thorough" $(addprefix --ignore=,$(WITH_TORCH))
COVERED := -q -n 2 --dist worksteal -m "not integration and not slow" $(UNITS)

.DELETE_ON_ERROR:
.PHONY: help demo check check-types check-inspector check-screens coverage test long matrix lint format types editor bench truth traps schemas reference screens pictures docs views size clean

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo '  make test ARGS="-m \"not integration\""      pass arguments to pytest'
	@echo '  make test TORCH=2.11.0 TRITON=3.6.0        use another torch, in .venv-2.11.0'
	@echo '  make types PLATFORM=darwin                   check the types as on macOS'
	@echo '  make demo PYTHON=/path/to/python3.12       make the environment with another Python'

demo: $(DEMO)/.ready  ## Explain a small attention model
	$(DEMO)/bin/ctrace explain sample_models/attention.py

check: lint editor  ## Lint, types, architecture and the fast tests: before each commit
	@echo "Types and tests run side by side; each prints its output when it ends."
	@$(MAKE) --no-print-directory -j 3 check-types check-inspector check-screens

# Two plain processes, each with a half of the tests: workers of xdist would both collect all of them.
check-types:
	$(call apart,$(MYPY))

check-inspector:
	$(call apart,$(BIN)/python -m pytest $(FAST) -o cache_dir=.pytest_cache/$@ tests/inspector $(ARGS))

check-screens:
	$(call apart,$(BIN)/python -m pytest $(FAST) -o cache_dir=.pytest_cache/$@ $(filter-out tests/inspector,$(UNITS)) $(ARGS))

# Run a command and print its output at once. With ARGS, a half may have no test to run: that is 5.
define apart
@mkdir -p build/check
@$(1) > build/check/$@.txt 2>&1; status=$$?; cat build/check/$@.txt; test $$status = 0 -o $$status = "$(if $(ARGS),5)"
endef

coverage: $(READY)  ## Measure what the fast tests cover; less than fail_under is an error
	$(BIN)/python -m pytest --cov --cov-report=term $(COVERED) $(ARGS)

# Tests start thousands of processes, each of which would compile ctrace's modules again.
check coverage test long: export PYTHONDONTWRITEBYTECODE =

test: $(READY)  ## Run the tests, real compiles included: some of each feature
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

long: $(READY)  ## Run the longer tests, which CI runs, too
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "long and not slow" $(ARGS)

matrix:  ## Run every supported torch with every Python; takes hours
	$(PYTHON) tools/matrix $(ARGS)

lint: $(READY)  ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY)  ## Fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) editor  ## Type-check
	$(MYPY)

editor:  ## Lay out the code so that editors and pyright find it
	@rm -rf build/types
	@mkdir -p build/types/ctrace
	@ln -s $(addprefix ../../../,$(LINKED)) build/types/ctrace
	@ln -s $(addprefix ../../,tests $(SCRIPTS) $(PACKAGES)) build/types

bench: $(READY)  ## Run the benchmarks, one after the other
	@set -e; for script in benchmarks/[a-z]*.py; do \
		echo "== $$script"; \
		$(BIN)/python "$$script"; \
	done

truth: $(READY)  ## Compare explain with plain torch on foreign models, a random sample (see benchmarks/truth.py)
	$(BIN)/python benchmarks/truth.py --sample 20 $(ARGS)

traps: $(READY)  ## Repair 100 generated programs, and ask an oracle that knows no repair about each proof
	$(BIN)/python tools/traps.py $(ARGS)

schemas: $(READY)  ## Write the JSON Schemas of --json from the code
	$(BIN)/python tools/schemas.py

reference: $(READY)  ## Write the reference of commands and JSON from the code
	$(BIN)/python tools/pages.py reference

screens: $(READY)  ## Run the commands whose screens README and docs show, and update them
	$(BIN)/python tools/pages.py screens

pictures: $(READY)  ## Make the pictures of README and docs from real runs, in Chromium
	$(BIN)/python tools/pictures.py

views: $(READY)  ## Render every view of every recorded log, and compare with BASE
	$(BIN)/python tools/views.py compare $(BASE)

size: $(READY)  ## Print the size of each package beside BASE
	$(BIN)/python tools/size.py $(BASE)

docs: $(VENV)/.docs reference  ## Build the site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open build/site/index.html"

clean:  ## Remove what the other targets made; saved runs in .ctrace stay
	rm -rf .venv .venv-* build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install -q -c $(VENV)/constraints.txt -e '.[docs]'
	@touch $@

define new_enough
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	"ctrace needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3")'
endef

# Only what explaining a model needs: none of the packages of `dev`.
$(DEMO)/.ready: pyproject.toml constraints.txt
	$(new_enough)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install -q -c constraints.txt .
	@touch $@

$(READY): pyproject.toml constraints.txt
	$(new_enough)
	$(PYTHON) -m venv $(VENV)
	$(if $(TORCH),sed -e 's/^torch==.*/torch==$(TORCH)/' -e 's/^triton==.*/triton==$(TRITON)/',cat) \
		constraints.txt > $(VENV)/constraints.txt
	rm -rf ctrace.egg-info  # entry points of an older checkout, which Python would find before those just installed
	$(BIN)/python -m pip install -c $(VENV)/constraints.txt -e '.[dev,browser]'
	@touch $@
