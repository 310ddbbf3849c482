# Every target sets up .venv itself when it must, and does nothing twice.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
LOCK := uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --quiet $(UPGRADE)

.PHONY: demo setup test check docs bench bench-speed bench-cold bench-limits bench-history bench-large simulate-alarm \
	simulate-anchors simulate-intervals screenshots lock clean

demo: $(READY)
	$(BIN)/jury demo

setup: $(READY)

# Tests of one module stay together, because they share what is costly to make; `tests/conftest.py` says how many
# processes there are, and which modules are begun first. Python may keep what it compiled, even where the environment
# says no: it would compile the tests once for each process. Threads of OpenBLAS wait in a loop, on processors that the
# other tests need.
test: $(READY)
	OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/vulture

# The reference pages, from the code.
docs: $(READY)
	$(BIN)/python docs/generate.py

# All that people wait for, in about forty minutes; each table also by itself.
bench: $(READY)
	failed=0; for each in bench bench_cold bench_limits; do $(BIN)/python tests/$$each.py || failed=1; done; exit $$failed

bench-speed: $(READY)
	$(BIN)/python tests/bench.py

bench-cold: $(READY)
	$(BIN)/python tests/bench_cold.py

bench-limits: $(READY)
	$(BIN)/python tests/bench_limits.py

# What an index of 1,000 evaluations costs: how much longer a report step takes that makes it, and how soon it can be used
# in both browsers started anew each time: two minutes.
.PHONY: bench-index
bench-index: $(READY)
	$(BIN)/python tests/bench_index.py

# The page of a run of 5,000 figures: its size, and how soon it opens and scrolls in Chromium: two minutes.
.PHONY: bench-page
bench-page: $(READY)
	$(BIN)/python tests/bench_page.py

# Every kind of page in Firefox; `make test` has Chromium.
.PHONY: bench-firefox
bench-firefox: $(READY)
	$(BIN)/pytest -q tests/test_pages_browsers.py --browser=firefox

bench-history: $(READY)
	$(BIN)/python tests/bench_history.py

bench-large: $(READY)
	$(BIN)/python tests/bench_large.py

# What the intervals cover, in about ten minutes; with other seeds: `make simulate-intervals SEEDS="3 4"`.
simulate-intervals: $(READY)
	$(BIN)/python tests/simulate_intervals.py $(SEEDS)

# How often the nightly alarm comes falsely, and how soon it finds a drop: some minutes for each seed.
simulate-alarm: $(READY)
	$(BIN)/python tests/simulate_alarm.py $(SEEDS)

# How often anchors raise an alarm falsely, and what is said when judge or candidate moves: some minutes for each seed.
simulate-anchors: $(READY)
	$(BIN)/python tests/simulate_anchors.py $(SEEDS)

# What control samples say of judges whose habits are known.
.PHONY: simulate-controls
simulate-controls: $(READY)
	$(BIN)/python tests/simulate_controls.py

# How often a gate fails a candidate that is as good, and one that is ten points worse.
.PHONY: simulate-gate
simulate-gate: $(READY)
	$(BIN)/python tests/simulate_gate.py

# How often a bridge's interval holds the planted shift, and which sentence is said: some minutes.
.PHONY: simulate-bridge
simulate-bridge: $(READY)
	$(BIN)/python tests/simulate_bridge.py

# What runs cost that stop at a budget, in about two minutes; with other seeds: `make simulate-budget SEEDS="3 4"`.
.PHONY: simulate-budget
simulate-budget: $(READY)
	$(BIN)/python tests/simulate_budget.py $(SEEDS)

# What the intervals of scores cover that people have corrected, with 15 to 150 labels: about a minute for each seed.
.PHONY: simulate-labels
simulate-labels: $(READY)
	$(BIN)/python tests/simulate_labels.py $(SEEDS)

# The answers in the notebook of the documentation, as they are now.
.PHONY: notebook
notebook: $(READY)
	$(BIN)/python tests/test_notebook.py

screenshots: $(READY)
	$(BIN)/python tests/screenshots.py

# What is pinned stays so; for newer versions say `make lock UPGRADE=--upgrade`. Needs uv.
lock:
	$(LOCK) --group dev --output-file requirements.lock
	$(LOCK) --extra s3 --extra cluster --extra vector --constraint requirements.lock --output-file deployments/requirements.lock

clean:
	rm -rf .venv jury-store

# The lock file is whole, so nothing is resolved: what is downloaded has one of its hashes, or nothing is installed. Our
# own code is compiled, too, since each of our processes would do that anew where Python may not keep it.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Image Jury needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q flows tasks
	touch $@
