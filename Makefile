# The commands are `make reproduce-pipesgd`, `reproduce-pipedream`, `reproduce-gtopk`, `reproduce-eagersgd`, `reproduce-ibatch` and `make test`; all make the environment first, and ask nothing.

SCALE ?= quick
ARGS ?=
# one more than there are cores: many tests wait
JOBS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SITE ?=
# VENV=DIR on the command line: an environment that is there already, taken as it is (no network, another Python).
VENV = .venv
REPRO := $(if $(filter .venv,$(VENV)),.venv/bin/repro,$(VENV)/bin/python -m repro)
# mpirun may come with the environment.
export PATH := $(abspath $(VENV))/bin:$(PATH)

.PHONY: help setup setup-horovod setup-cluster test test-cluster test-all reproduce-pipesgd reproduce-pipedream reproduce-gtopk reproduce-eagersgd
.PHONY: reproduce-ibatch reproduce-all profile-pipedream slurm-pipedream slurm-ibatch
.PHONY: baselines validate slurm-pipesgd slurm-gtopk slurm-eagersgd report verify ui bench gpu-check faults lock doctor clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

setup:  ## make .venv with all that is needed, and an MPI; quick where that is done (LOCKED=1: with the versions of requirements.lock)
	@[ "$(VENV)" != .venv ] || setup/environment.sh

setup-horovod: setup  ## build Horovod from its PyPI source against the torch in .venv (needs a compiler; minutes)
	@setup/horovod.sh

setup-cluster: setup-horovod  ## what tests of clusters need besides: Slurm, munge and PMIx, by apt-get where it may
	@setup/slurm.sh

test: setup  ## run the tests, JOBS at a time (ARGS=... is handed to pytest)
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-cluster: setup  ## run the tests of Slurm, Horovod, network namespaces, an MLflow server, preemption and faults; those that lack something are skipped
	$(VENV)/bin/python -m pytest tests/cluster $(ARGS)

test-all: test test-cluster  ## run all tests

reproduce-pipesgd: setup  ## run the main experiments of Pipe-SGD, with SCALE=full all, and build its page
	$(REPRO) run pipesgd --scale $(SCALE)

reproduce-pipedream: setup  ## run the main experiments of PipeDream, with SCALE=full all, and build its page
	$(REPRO) run pipedream --scale $(SCALE)

profile-pipedream: setup  ## profile this machine for the measured experiments of PipeDream, in the place of the committed profiles
	$(REPRO) profile vgg16 model.width=0.25 --dataset cifar10 --minibatches 100 --out paper_configs/profile/measured-vgg.json
	$(REPRO) profile alexnet_cifar model.width=0.5 --dataset cifar10 --minibatches 100 --out paper_configs/profile/measured-alexnet.json

reproduce-gtopk: setup  ## run the main experiments of gTop-k S-SGD, with SCALE=full all, and build its page
	$(REPRO) run gtopk --scale $(SCALE)

reproduce-eagersgd: setup  ## run the main experiments of eager-SGD, with SCALE=full all, and build its page
	$(REPRO) run eagersgd --scale $(SCALE)

reproduce-ibatch: setup  ## run the main experiments of iBatch, with SCALE=full all, and build its page
	$(REPRO) run ibatch --scale $(SCALE)

reproduce-all: reproduce-pipesgd reproduce-pipedream reproduce-gtopk reproduce-eagersgd reproduce-ibatch baselines validate  ## the five papers, the libraries, the validation

baselines: setup  ## Horovod, PyTorch's DDP and our own strategies: the same experiment in one table
	$(REPRO) run baselines --scale $(SCALE)

validate: setup  ## the simulation against measured steps on limited links (root: it makes network namespaces)
	$(REPRO) run validation --scale $(SCALE)

slurm-pipesgd: setup  ## submit all experiments of Pipe-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit pipesgd --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-pipedream: setup  ## submit all experiments of PipeDream to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit pipedream --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-gtopk: setup  ## submit all experiments of gTop-k S-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit gtopk --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-eagersgd: setup  ## submit all experiments of eager-SGD to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit eagersgd --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

slurm-ibatch: setup  ## submit all experiments of iBatch to Slurm (SITE=file, ARGS=--dry-run)
	$(REPRO) submit ibatch --scale $(SCALE) $(if $(SITE),--site $(SITE)) $(ARGS)

report: setup  ## build all pages from results, and the site of them and docs/: results/pages/site
	$(REPRO) report

ui: setup  ## open the MLflow UI on 127.0.0.1
	$(REPRO) ui

verify: setup  ## are the committed results, and the verdicts on them, as published?
	$(REPRO) verify

bench: setup  ## measure the harness itself; writes results/bench/
	$(REPRO) bench all

gpu-check: setup  ## on a machine with a GPU: what one can show, in the order of value (MINUTES=9 stops after so many; goes on where it was left; VENV=DIR takes that environment)
	$(if $(MINUTES),timeout --kill-after=30 $(MINUTES)m) $(REPRO) run gpu device=cuda $(ARGS)

faults: setup  ## strike real runs with seeded faults and count what is lost (over 250 trials, half an hour on two idle cores; goes on where it was left)
	$(REPRO) faults $(ARGS)

lock: setup  ## write requirements.lock anew, from the versions in .venv
	$(VENV)/bin/python setup/lock.py requirements.lock

doctor: setup  ## what this machine has and what it lacks
	$(REPRO) doctor

clean:  ## remove caches; results and .venv stay
	rm -rf .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis build *.egg-info
	find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
