# `make help` lists the commands. Everything lies below one ignored folder, STATE.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3 || echo python3.11)
STATE := $(abspath $(or $(VERL_REGRESSION_STATE),.state))
VENV := $(STATE)/venv
DEV := $(STATE)/venv-dev
BEGAN := $(shell date +%s)
# A machine that sets it would compile every import of every process anew.
unexport PYTHONDONTWRITEBYTECODE
# Airflow's own settings of the calling shell are not ours.
unexport AIRFLOW_HOME
export PATH := $(STATE)/uv/bin:$(PATH)

STACK = $(VENV)/bin/python -m include.localstack --began $(BEGAN)
BUILD = $(PYTHON) -m include.node.environment --python $(PYTHON) --tools $(STATE)/uv

.PHONY: help
help:  ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: python
python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { \
	  echo "ERROR: PYTHON = '$(PYTHON)': not Python 3.11. Fix: install Python 3.11 (with venv), or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }

.PHONY: setup
setup: python  ## install Airflow and this project's dependencies below .state
	@mkdir -p $(STATE)
	@$(BUILD) --into $(VENV) --lock requirements.lock --smoke airflow >$(STATE)/setup.log 2>&1 || { cat $(STATE)/setup.log >&2; exit 1; }

.PHONY: setup-dev
setup-dev: python
	@mkdir -p $(STATE)
	@$(BUILD) --into $(DEV) --lock requirements-dev.lock --smoke airflow --smoke pytest >$(STATE)/setup-dev.log 2>&1 || { cat $(STATE)/setup-dev.log >&2; exit 1; }

.PHONY: demo
demo: setup  ## the whole pipeline on this machine, to the verdict (RELEASE=, CLUSTER=, SUITE=)
	@$(STACK) demo $(if $(SUITE),--suite $(SUITE)) $(if $(RELEASE),--release $(RELEASE)) $(if $(CLUSTER),--cluster $(CLUSTER))

.PHONY: up
up: setup  ## start Postgres, the SSH node and Airflow
	@$(STACK) up

.PHONY: down
down: setup  ## stop all of it, and whatever runs on the node
	@$(STACK) down

.PHONY: status
status: setup  ## what runs, and the login
	@$(STACK) status

.PHONY: logs
logs: setup  ## follow the logs of Airflow and the node
	@tail -n 50 -F $$($(STACK) logs)

.PHONY: migrate
migrate: setup  ## bring the results database (VERL_REGRESSION_DB) to the newest schema
	@$(STACK) migrate

.PHONY: airflow
airflow: setup  ## Airflow's own command line in the stack's environment (CMD="dags list")
	@$(STACK) airflow $(CMD)

.PHONY: doctor
doctor: setup  ## what is wrong with a cluster, and how to mend it (CLUSTER=, SUITE=, RELEASE=)
	@$(STACK) doctor $(if $(CLUSTER),--cluster $(CLUSTER)) $(if $(SUITE),--suite $(SUITE)) $(if $(RELEASE),--release $(RELEASE))

.PHONY: matrix
matrix: setup  ## which suite applies to which release, and why not
	@$(STACK) matrix

.PHONY: plan
plan: setup  ## every command of a run, rendered, no node touched (SUITE=, RELEASE=, CLUSTER=)
	@$(STACK) plan $(if $(SUITE),--suite $(SUITE)) $(if $(RELEASE),--release $(RELEASE)) $(if $(CLUSTER),--cluster $(CLUSTER))

.PHONY: compare
compare: setup  ## releases of a suite side by side (SUITE=, RELEASES="v0.9.0 v0.9.1")
	@$(STACK) compare $(if $(SUITE),--suite $(SUITE)) $(RELEASES)

.PHONY: test
test: setup-dev  ## all checks and tests, the whole pipeline included
	@$(MAKE) --no-print-directory lint
	@$(DEV)/bin/python -m pytest tests

.PHONY: test-fast
test-fast: setup-dev  ## the tests that take seconds
	@$(DEV)/bin/python -m pytest tests -m "not integration and not e2e"

.PHONY: lint
lint: setup-dev  ## ruff, mypy, import-linter
	@$(DEV)/bin/ruff check .
	@$(DEV)/bin/ruff format --check .
	@$(DEV)/bin/mypy
	@PYTHONPATH=.:plugins $(DEV)/bin/lint-imports --no-logo

.PHONY: format
format: setup-dev  ## let ruff format and mend what it can
	@$(DEV)/bin/ruff check --fix-only --quiet .
	@$(DEV)/bin/ruff format .

.PHONY: lock
lock: setup-dev  ## resolve the lock files anew from requirements and include/releases/locks/*.in
	@include/releases/locks/resolve.sh

.PHONY: clean
clean:  ## stop everything and remove the state folder, results included
	@if [ -x $(VENV)/bin/python ]; then $(STACK) down; fi
	@rm -rf $(addprefix $(STATE)/,airflow bin node postgres uv venv venv-dev) $(STATE)/*.log $(STATE)/*.lock $(STATE)/airflow.pid
	@if [ -d $(STATE) ]; then rmdir --ignore-fail-on-non-empty $(STATE); fi
