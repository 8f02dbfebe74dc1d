# Everything here sets itself up: it takes Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: picture demo example example-nextflow test test-all field lint reference man pages results docs torture test-slurm lint-galaxy check dist placeholders release-check clean

demo: $(VENV)/.punoise
	$(BIN)/punoise simulate --out-dir demo --alpha 0.2 --beta 0.95
	$(BIN)/punoise run --labeled demo/labeled.csv --unlabeled demo/unlabeled.csv --out-dir demo/results
	@echo "truth  alpha 0.2000, beta 0.9500"

example: $(VENV)/.workflow
	cd snakemake_example && PATH="$(abspath $(BIN)):$$PATH" snakemake --cores 2
	@cat snakemake_example/results/summary.tsv

example-nextflow: $(VENV)/.nextflow
	cd nextflow_example && PATH="$(abspath $(BIN)):$$PATH" nextflow run main.nf -params-file example.yaml -ansi-log false
	@cat nextflow_example/results/summary.tsv

ROOM =
test: $(VENV)/.installed  # three minutes; ROOM=score for one room, a folder of tests/
	$(BIN)/python -m pytest -n 2 -m "not ci and not slurm" tests/$(ROOM)

test-all: $(VENV)/.test-all  # with the long ones and those that need much else, which .ci/run runs
	$(BIN)/python -m pytest -n 2 -m "not slurm" tests/$(ROOM)

field: $(VENV)/.installed  # two minutes: intervals where positives are rare and labels few
	$(BIN)/python benchmarks/field.py small

torture: $(VENV)/.installed  # ten minutes; PUNOISE_TORTURE_SECONDS sets another budget
	$(BIN)/python tests/torture

test-slurm: $(VENV)/.test-all  # as root; starts a one-node SLURM of its own
	tests/workflows/slurm.sh $(BIN)/python -m pytest -m slurm

lint-galaxy: $(VENV)/.planemo
	PATH="$(abspath $(BIN)):$$PATH" $(VENV)/planemo/bin/planemo lint packaging/galaxy

reference: $(VENV)/.punoise  # the generated parts of docs/reference/
	$(BIN)/python docs/make_reference.py

man: $(VENV)/.punoise
	$(BIN)/python docs/make_reference.py --man man

pages: $(VENV)/.punoise  # the output that README.md and the guides show
	$(BIN)/python docs/run_pages.py

results: $(VENV)/.test-all  # the plots of docs/results.md
	$(BIN)/python docs/make_plots.py

docs: $(VENV)/.mkdocs  # into site/; broken links are errors
	$(BIN)/python docs/make_reference.py --check
	$(BIN)/python docs/make_plots.py --check
	$(BIN)/python docs/make_report.py
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs/bin/mkdocs build --quiet --strict

picture: $(VENV)/.punoise  # docs/report.png, with Chromium
	$(BIN)/python docs/make_report.py --picture

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: lint test

dist: $(VENV)/.dist  # ten minutes: wheel and sdist, built twice, checked, installed on every Python at hand
	$(VENV)/dist/bin/python packaging/dist.py

release-check: dist  # also the suite with the lowest dependencies
	$(VENV)/dist/bin/python packaging/dist.py --lowest-suite

placeholders: $(VENV)/.dist  # what only a maintainer can complete
	$(VENV)/dist/bin/python packaging/dist.py --placeholders

$(VENV)/.punoise: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed: $(VENV)/.punoise
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.workflow: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[workflow]'
	@touch $@

$(VENV)/.test-all: $(VENV)/.workflow
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test-all]'
	@touch $@

$(VENV)/.planemo: $(VENV)/.installed  # pins much, so it has an environment of its own
	$(PYTHON) -m venv $(VENV)/planemo
	$(VENV)/planemo/bin/python -m pip install --quiet --disable-pip-version-check planemo
	@touch $@

$(VENV)/.dist: $(VENV)/.punoise  # the same
	$(PYTHON) -m venv $(VENV)/dist
	$(VENV)/dist/bin/python -m pip install --quiet --disable-pip-version-check \
		build check-wheel-contents cyclonedx-bom hatchling pyroma twine uv
	@touch $@

$(VENV)/.mkdocs: $(VENV)/.punoise  # the same
	$(PYTHON) -m venv $(VENV)/mkdocs
	$(VENV)/mkdocs/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs-material>=9.6,<10'
	@touch $@

$(VENV)/.axe: | $(VENV)/.punoise  # checks of accessibility, for the tests in a browser
	npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4
	@touch $@

$(VENV)/.nextflow: nextflow_example/pom.xml nextflow_example/get_nextflow.sh | $(VENV)/.punoise
	nextflow_example/get_nextflow.sh $(VENV)/nextflow $(BIN)/nextflow
	@touch $@

clean:
	rm -rf $(VENV) demo dist man site $(addprefix snakemake_example/,benchmarks inputs logs results .snakemake) \
		$(addprefix nextflow_example/,results work .nextflow .nextflow.log*)
