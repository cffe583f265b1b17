# The two commands are `make reproduce-pipesgd` and `make test`; both make the environment first, and ask nothing.

SCALE ?= small
ARGS ?=
REPRO := .venv/bin/repro
# mpirun may come with the environment.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup test reproduce-pipesgd reproduce-all report ui bench doctor clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

setup:  ## make .venv with all that is needed, and an MPI; quick where that is done
	@setup/environment.sh

test: setup  ## run the tests (ARGS=... is handed to pytest)
	.venv/bin/python -m pytest $(ARGS)

reproduce-pipesgd: setup  ## run all experiments of Pipe-SGD and build its page (SCALE=smoke, small or paper)
	$(REPRO) run pipesgd --scale $(SCALE)

reproduce-all: reproduce-pipesgd  ## every paper that there is

report: setup  ## rebuild all pages from results/
	$(REPRO) report

ui: setup  ## open the MLflow UI on 127.0.0.1
	$(REPRO) ui

bench: setup  ## measure the harness itself; writes results/bench/
	$(REPRO) bench all

doctor: setup  ## what this machine has and what it lacks
	$(REPRO) doctor

clean:  ## remove caches; results and .venv stay
	rm -rf .pytest_cache .ruff_cache .hypothesis build *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
