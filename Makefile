# Everything here sets itself up: it takes Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check clean

demo: $(VENV)/.installed
	$(BIN)/punoise simulate --out-dir demo --alpha 0.2 --beta 0.95
	$(BIN)/punoise run --labeled demo/labeled.csv --unlabeled demo/unlabeled.csv --out-dir demo/results
	@echo "truth  alpha 0.2000, beta 0.9500"

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) demo
