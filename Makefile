# Every target sets up what it needs in its own virtual environment; nothing is installed by hand.
#
#   make demo         the main job on a small real corpus: ingest, select, train, judge
#   make test         checks and tests (what CI runs)
#   make test-slow    the tests that take minutes (kill loops, scale)
#   make bench        the measurements of benchmarks/, as the README quotes them
#   make study        compare ways to choose training data on a real pool (../shared/data/speech)
#   make check        style, types, import contract
#   make format       rewrite the style
#   make clean        remove the environment and what the targets made

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
PIP_FLAGS ?=
PYTHON ?= $(shell scripts/find_python.sh)

.PHONY: help demo test test-slow bench bench-selection bench-ingest bench-take bench-packing \
	bench-decode bench-episodes bench-loader bench-store bench-video bench-curation study check format clean

help:
	@sed -n 's/^#   //p' Makefile

$(BIN)/python:
	@[ -n "$(PYTHON)" ] || { echo "make: no Python 3.11, 3.12 or 3.13 found; install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp an extra, made anew when the requirements change.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing datalake[$*] into $(VENV) (a few minutes the first time)" >&2
	$(BIN)/python -m pip install --quiet $(PIP_FLAGS) --constraint constraints.txt --editable '.[$*]'
	@touch $@

demo: $(VENV)/.installed-demo
	@scripts/system_packages.sh
	@$(BIN)/python scripts/demo/run.py

study: $(VENV)/.installed-demo $(VENV)/.installed-report
	@scripts/system_packages.sh
	@$(BIN)/python scripts/study/run.py $(STUDY_DESIGNS)

check: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadfile \
		--max-worker-restart 2 --maxfail 10

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

bench: bench-take bench-selection bench-ingest bench-packing bench-decode

bench-take: $(VENV)/.installed-test
	$(BIN)/python benchmarks/take.py --rounds 200

bench-selection: $(VENV)/.installed-test
	$(BIN)/python benchmarks/selection.py
	$(BIN)/python benchmarks/selection.py --rows 100000000

bench-ingest: $(VENV)/.installed-test
	$(BIN)/python benchmarks/ingest.py --rounds 5
	$(BIN)/python benchmarks/ingest.py --memory 20000 200000

bench-packing: $(VENV)/.installed-test
	$(BIN)/python benchmarks/packing.py

bench-decode: $(VENV)/.installed-test
	$(BIN)/python benchmarks/decode.py

# The peers' versions clash with ours: they get an environment of their own.
PEERS ?= .venv-peers
BENCH_DATA ?= .bench

$(PEERS)/.installed: benchmarks/loader/peers.txt benchmarks/loader/peers_alone.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --upgrade pip
	$(PEERS)/bin/python -m pip install --quiet $(PIP_FLAGS) -r benchmarks/loader/peers.txt
	$(PEERS)/bin/python -m pip install --quiet $(PIP_FLAGS) --no-deps -r benchmarks/loader/peers_alone.txt
	@touch $@

bench-loader: $(VENV)/.installed-test $(PEERS)/.installed
	$(BIN)/python -m benchmarks.loader.run $(BENCH_DATA) --peers-python $(PEERS)/bin/python

# A real S3-compatible server behind 20 ms and a bandwidth cap.
bench-store: $(VENV)/.installed-test
	$(BIN)/python benchmarks/loader_store.py

#   make bench-video LEROBOT_PYTHON=/path/to/python
bench-video: $(VENV)/.installed-test
	$(BIN)/python benchmarks/loader_video.py --lerobot-python $(LEROBOT_PYTHON)

# Needs an environment with the real lerobot package, whose versions clash with ours:
#   make bench-episodes LEROBOT_PYTHON=/path/to/python DATASET=/path/to/dataset
bench-episodes: $(VENV)/.installed-test
	$(BIN)/python benchmarks/ingest_episodes.py --data $(DATASET) --lerobot-python $(LEROBOT_PYTHON)

# Peers in folders and environments of their own: the ASVspoof 5 evaluation package, faiss-cpu,
# apricot-select, lerobot-doctor, py-data-juicer.
#   make bench-curation OFFICIAL=/path/to/evaluation-package FAISS_PYTHON=/path/to/python …
bench-curation: $(VENV)/.installed-test
	$(BIN)/python benchmarks/metrics.py --official $(OFFICIAL)
	$(BIN)/python benchmarks/kmeans.py --faiss-python $(FAISS_PYTHON)
	$(BIN)/python benchmarks/duplicates.py
	$(BIN)/python benchmarks/facility_location.py --apricot-python $(APRICOT_PYTHON)
	$(BIN)/python benchmarks/facility_location.py --rows 200000 --rounds 1
	$(BIN)/python benchmarks/selection.py --domains 500 --peer
	$(BIN)/python benchmarks/robot_audit.py --doctor-python $(DOCTOR_PYTHON)
	$(BIN)/python benchmarks/audio_scan.py --peer-python $(JUICER_PYTHON)

format: $(VENV)/.installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
