PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# what the commands need, and what tests, lint and documentation need besides
CORE := $(VENV)/.installed-core
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt

.PHONY: setup demo test lint docs clean

setup: $(STAMP)

# torch comes first and pinned: any other order lets another package pull a CUDA build.
# CI sets its variable and gets each file by its hash; elsewhere versions alone are pinned, as files differ by platform.
$(CORE): pyproject.toml constraints.txt constraints-hashed.txt
	@test -x $(BIN)/python || { echo "making a virtual environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
ifdef CI
	@echo "installing everything that is pinned, with hashes"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r constraints-hashed.txt
endif
	@echo "installing torch (the largest part: about a minute)"
	@$(PIP) torch
	@echo "installing statewise and what its commands need"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation -e .
	@touch $(CORE)

$(STAMP): $(CORE)
	@echo "installing what tests, lint and documentation need"
	@$(PIP) --no-build-isolation -e '.[test,lint,docs]'
	@touch $(STAMP)

demo: $(CORE)
	$(BIN)/statewise demo

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PYRIGHT_PYTHON_USE_BUNDLED_PYRIGHT=1 $(BIN)/pyright
	$(BIN)/lint-imports

test: lint docs
	$(BIN)/python -m pytest

docs: setup
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
