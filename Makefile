# The two commands: `make demo` runs Vigil on an embedded fleet, `make test` runs every check. Both set up what they need.
PYTHON := .venv/bin/python
ENGINES := 0.5.23 0.5.16 0.5.10.post1

.PHONY: setup demo test check test-engine test-engines test-web web screenshots openapi release-document lock score fuzz fuzz-api \
    bench-detection bench-start-overhead bench-watch-fleet bench-verdict-matrix bench-read-log bench-metrics-scrape \
    bench-benchmark-statistics bench-event-readers bench-api-speed bench-soak bench-write-steps

setup:
	@tools/setup.sh
	@tools/build_web.sh

demo: setup
	@$(PYTHON) -m service demo

test:
	@tools/setup.sh sshd
	@$(MAKE) --no-print-directory check
	@echo "test: unit, contract and restart tests"
	@$(PYTHON) -m pytest

check:
	@echo "check: ruff, import rules, mypy"
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports
	@.venv/bin/mypy

# The real SGLang, CPU only: about 3.4 GB and two minutes for a first set-up.
test-engine:
	@tools/setup.sh sshd
	@$(PYTHON) -m tests.engine.install.install 0.5.23
	@VIGIL_TEST_ENGINES=0.5.23 $(PYTHON) -m pytest tests/engine -m engine

test-engines:
	@tools/setup.sh sshd
	@$(PYTHON) -m tests.engine.install.install $(ENGINES)
	@VIGIL_TEST_ENGINES="$(ENGINES)" $(PYTHON) -m pytest tests/engine -m engine

# The page, built into the package.
web:
	@tools/build_web.sh needed

# The page in Chromium, as an operator uses it.
test-web: setup web
	@tools/setup.sh chromium
	@$(PYTHON) -m pytest tests/web -m web

screenshots: setup web
	@tools/setup.sh chromium
	@$(PYTHON) -m tests.web.screenshots

openapi: setup
	@$(PYTHON) -m service openapi openapi.json

release-document: openapi
	@cp openapi.json docs/releases/openapi-$$($(PYTHON) -c 'from importlib.metadata import version; print(version("vigil-control"))').json

lock: setup
	@$(PYTHON) -m pip install --quiet uv
	@.venv/bin/uv pip compile pyproject.toml --group dev --extra postgres --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header --quiet -o requirements.lock
	@.venv/bin/uv pip compile pyproject.toml --extra postgres --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header --quiet --constraint requirements.lock -o deploy/requirements.lock
	@.venv/bin/uv pip compile tests/clients/generator/requirements.in --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header --quiet -o tests/clients/generator/requirements.lock

score: setup
	@$(PYTHON) tools/score.py

# The benchmarks; numbers depend on the machine, so compare within one run.
bench-detection bench-start-overhead bench-watch-fleet bench-verdict-matrix bench-read-log bench-metrics-scrape bench-benchmark-statistics \
    bench-event-readers bench-api-speed bench-soak bench-write-steps: setup
	@PYTHONPATH=. $(PYTHON) bench/$(subst -,_,$(@:bench-%=%)).py

fuzz: setup
	@PYTHONPATH=. $(PYTHON) tools/fuzz_log_reader.py --seconds 600

# Made-up requests to every operation of the API, on the embedded fleet; `make test` has a short run of it.
fuzz-api: setup
	@$(PYTHON) -m tests.fuzz
