# The two commands are `make reproduce-pipesgd` and `make test`; both make the environment first, and ask nothing.

SCALE ?= small
ARGS ?=
SITE ?=
REPRO := .venv/bin/repro
# mpirun may come with the environment.
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup setup-horovod setup-cluster test reproduce-pipesgd reproduce-all baselines validate
.PHONY: slurm-pipesgd report ui bench doctor clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

setup:  ## make .venv with all that is needed, and an MPI; quick where that is done
	@setup/environment.sh

setup-horovod: setup  ## build Horovod from its PyPI source against the torch in .venv (needs a compiler; minutes)
	@setup/horovod.sh

setup-cluster: setup-horovod  ## what tests of clusters need besides: Slurm and munge, by apt-get where it may
	@setup/slurm.sh

test: setup  ## run the tests (ARGS=... is handed to pytest)
	.venv/bin/python -m pytest $(ARGS)

reproduce-pipesgd: setup  ## run all experiments of Pipe-SGD and build its page (SCALE=smoke, small or paper)
	$(REPRO) run pipesgd --scale $(SCALE)

reproduce-all: reproduce-pipesgd baselines validate  ## every paper that there is, the libraries, the validation

baselines: setup  ## Horovod, PyTorch's DDP and our own strategies: the same experiment in one table
	$(REPRO) run baselines --scale $(SCALE)

validate: setup  ## the simulation against measured steps on limited links (root: it makes network namespaces)
	$(REPRO) run validation --scale $(SCALE)

slurm-pipesgd: setup  ## submit all experiments of Pipe-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit pipesgd --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

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
