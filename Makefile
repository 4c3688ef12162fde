# Targets that need .venv create it, and update it when the requirements have changed.

PYTHON ?= python3
SCOPE ?=
DATA ?=
MAX_PAGES ?=
WORKERS ?= 1
EXTRAS ?=
ARGS ?=

BIN := .venv/bin
empty :=
space := $(empty) $(empty)
comma := ,

# A misspelt option is an error: without SEEDS, the demo would run.
KNOWN := SEEDS SCOPE DATA MAX_PAGES WORKERS EXTRAS ARGS PYTHON SHELL
GIVEN := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
UNKNOWN := $(filter-out $(KNOWN),$(GIVEN))
ifneq ($(and $(filter crawl,$(MAKECMDGOALS)),$(UNKNOWN)),)
$(error make crawl has no option $(UNKNOWN); it has $(filter-out SHELL,$(KNOWN)))
endif

ifneq ($(filter-out all,$(EXTRAS)),)
$(error EXTRAS=$(EXTRAS): it may be "all"; docs/installing.md has the command for a single extra)
endif

# Options reach the crawl literally, through the environment: neither make nor a shell expands the `$`, `&`, `?` or `%` of
# a URL.
override SEEDS := $(subst $(space),$(comma),$(strip $(value SEEDS)))
override DATA := $(value DATA)
export SEEDS SCOPE DATA MAX_PAGES WORKERS

MANY := $(filter-out 1,$(WORKERS))
ifeq ($(SEEDS),)
CRAWL := -m webcrawl.demo $(if $(MANY),--workers "$$WORKERS")
else
CRAWL := -m scrapy $(if $(MANY),workers "$$WORKERS",crawl) broad -a "seeds=$$SEEDS" -a "scope=$${SCOPE:-domain}"
endif
OPTIONS := $(if $(DATA),-s "DATA_DIR=$$DATA") $(if $(MAX_PAGES),-s "CRAWL_MAX_PAGES=$$MAX_PAGES")
DEMO_OPTIONS := $(if $(SCOPE),-a "scope=$$SCOPE")

.PHONY: help numbers crawl test fuzz test-slow test-newest coverage check settings constraints proto sbom wheel weight format picture pictures dashboard tutorial screenshots uplot docs bench bench-pair bench-long bench-frontier bench-urlfrontier bench-texts bench-hostile bench-traps bench-importance bench-recrawl bench-news bench-live bench-links bench-search bench-index bench-metadata bench-copies bench-duplicates bench-layout bench-structured read-texts read-lake read-fields read-states simulate first-hour replay chaos scrapys-tests structure clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo '  Options of crawl: SEEDS="URL URL..." SCOPE=path|host|domain|web DATA=folder MAX_PAGES=n WORKERS=n EXTRAS=all ARGS="..."'

numbers:
	@for given in "WORKERS=$$WORKERS" "MAX_PAGES=$$MAX_PAGES"; do case "$${given#*=}" in \
	*[!0-9]*) printf 'make crawl: %s: a whole number is needed\n' "$$given" >&2 ; exit 2 ;; esac ; done

crawl: numbers .venv/.$(if $(EXTRAS),extras,runtime) ## Crawl SEEDS="https://example.org/", or without SEEDS a demo web on this machine
	@WEBCRAWL_SHOWN_AS=$(BIN)/webcrawl exec $(BIN)/python $(CRAWL) $(if $(SEEDS),,$(DEMO_OPTIONS)) $(OPTIONS) $(ARGS)

# Most tests wait for processes, so several run at a time. The tests of a file stay together; the long ones come first.
# They start hundreds of processes, which must not compile the code anew, even where a container says so.
test: .venv/.dev ## Run the tests; ARGS="-k frontier" selects some
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PARALLEL) $(ARGS)

fuzz: .venv/.dev ## Feed damaged responses to the HTTP client for ten minutes; ARGS="--minutes 1"
	@$(BIN)/python -m tests.fuzz $(ARGS)

test-slow: .venv/.dev ## Run the slow tests, which the target test leaves out
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(PARALLEL) -m slow --timeout=1200 $(ARGS)

# The plugin for reruns would send messages for each test.
PARALLEL := --numprocesses=auto --maxprocesses=10 --dist=loadfile --no-loadscope-reorder -p no:rerunfailures

# A copy of what is committed, without upper bounds except that of setuptools, which scrapyd needs.
test-newest: ## Run the tests with the newest version of every dependency, in an environment of their own
	@rm -rf build/newest && git checkout-index --all --prefix=build/newest/
	@sed -i -E '/setuptools/!s/,<[0-9.]+"/"/' build/newest/pyproject.toml
	@"$(PYTHON)" -m venv build/newest/.venv
	@cd build/newest && .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' && \
	.venv/bin/python -m pytest $(PARALLEL) $(ARGS)

# What was measured in single processes is added up. A killed process leaves nothing, so the figures are lower bounds.
coverage: .venv/.dev ## Run the tests with coverage.py, and print the share of lines that they run, by room
	@rm -rf build/coverage
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m coverage run -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadfile \
	--no-loadscope-reorder --timeout=600 $(ARGS) || echo 'Some tests failed.'
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m tests.project.room_coverage

check: .venv/.dev ## Check format, lint, types and import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy tests/public_types
	@$(BIN)/lint-imports --no-logo

proto: .venv/.dev ## Write webcrawl/urlfrontier/urlfrontier.binpb from the .proto files beside it
	@$(BIN)/python -m grpc_tools.protoc -Iwebcrawl/urlfrontier \
	--descriptor_set_out=webcrawl/urlfrontier/urlfrontier.binpb urlfrontier.proto health.proto reflection.proto

settings: .venv/.dev ## Write docs/reference/settings.md from the declarations in webcrawl/config
	@$(BIN)/python -m webcrawl.config.page > docs/reference/settings.md

# The files of requirements/ build on each other, so each leaves out what those before it pin for every platform.
constraints: ## Pin versions and hashes of all requirements; ARGS="--upgrade" takes the newest versions
	@"$(PYTHON)" -m venv build/uv
	@build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV)
	@$(pin) $(ARGS) --extra dev pyproject.toml --output-file constraints.txt
	@$(call lock,build,,-)
	@$(call lock,crawler,build,pyproject.toml)
	@$(call lock,stores,build crawler,$(foreach extra,$(CONTAINER),--extra $(extra)) pyproject.toml)
	@$(call lock,extras,build crawler stores,--extra all pyproject.toml)
	@$(call lock,tests,build crawler stores extras,--extra dev pyproject.toml)

sbom: ## Write what requirements/stores.txt pins as CycloneDX to dist/sbom.json; ARGS names another file
	@"$(PYTHON)" -m venv build/sbom
	@build/sbom/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom==$(CYCLONEDX)
	@mkdir -p dist
	@build/sbom/bin/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
	--output-format JSON --output-file dist/sbom.json $(or $(ARGS),requirements/stores.txt)

wheel: .venv/.runtime ## Build the package into dist/
	@rm -rf build/lib dist/*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

weight: ## Install the package alone, and print its size, its packages and how long its command takes to start
	@"$(PYTHON)" benchmarks/weight.py $(ARGS)

format: .venv/.dev ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

picture: ## Draw docs/architecture.svg from docs/architecture.dot; needs graphviz
	@dot -Tsvg docs/architecture.dot -o docs/architecture.svg

pictures: .venv/.dev ## Draw the plots of the benchmarks, and the panel of a crawl of the demo
	@$(BIN)/python docs/site/plots.py
	@$(BIN)/python docs/site/panel.py

dashboard: .venv/.dev ## Show the crawls of DATA in a browser; ARGS="--port 8781"
	@$(BIN)/python -m scrapy dashboard $(if $(DATA),-s "DATA_DIR=$$DATA") $(ARGS)

tutorial: .venv/.dev ## Run the commands of docs/tutorial.md, and write what they print into the page
	@$(BIN)/python -m tests.project.tutorial

screenshots: .venv/.dev ## Take the pictures of the dashboard, and note their layout; needs Chromium
	@$(BIN)/python docs/site/screenshots.py

uplot: ## Fetch the library that draws the plots of the dashboard; needs npm
	@mkdir -p build/uplot && cd build/uplot && npm pack --silent uplot@$(UPLOT) >/dev/null && tar xzf uplot-$(UPLOT).tgz
	@cp build/uplot/package/dist/uPlot.iife.min.js build/uplot/package/dist/uPlot.min.css build/uplot/package/LICENSE \
	webcrawl/web/static/uplot/

docs: .venv/.dev ## Build the documentation as a site in build/site, and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo build/site/index.html

bench: .venv/.dev ## Compare crawls of the same pages by this project and others; ARGS="--only links,scrapy"
	@$(BIN)/python -m benchmarks.compare $(ARGS)

bench-pair: .venv/.dev ## Compare the CPU of two crawls that run at the same time; ARGS="--of full-stored --to full"
	@$(BIN)/python -m benchmarks.pair $(ARGS)

bench-long: .venv/.dev ## Check memory and pace in a crawl of 100,000 generated pages; ARGS="--pages 20000"
	@$(BIN)/python -m benchmarks.long $(ARGS)

bench-hostile: .venv/.dev ## Measure what attacks cost honest hosts; ARGS="--only robots,links"
	@$(BIN)/python -m benchmarks.hostile $(ARGS)

bench-traps: .venv/.dev ## Measure what endless sites take of a crawl; ARGS="--only calendar,random --pages 2000"
	@$(BIN)/python -m benchmarks.traps $(ARGS)

bench-importance: .venv/.dev ## Measure how early a crawl with importance fetches important pages; ARGS="--json FILE"
	@$(BIN)/python -m benchmarks.importance $(ARGS)

bench-recrawl: .venv/.dev ## Simulate policies of fetching known pages again, then crawl changing pages; ARGS="--zipf 0" CRAWL="--day 20"
	@$(BIN)/python -m benchmarks.recrawl $(ARGS)
	@$(BIN)/python -m benchmarks.recrawl_crawl $(CRAWL)

bench-news: .venv/.dev ## Measure how soon a recrawl fetches new articles; ARGS="--hubs 200 --articles 20000 --day 1500 --threshold 1e-4"
	@$(BIN)/python -m benchmarks.news $(ARGS)

bench-live: .venv/.dev ## Measure the live lane beside a broad crawl, with kills; ARGS="--seconds 60 --rate 20 --no-kill"
	@$(BIN)/python -m benchmarks.live $(ARGS)

bench-links: .venv/.dev ## Measure the link store: cost a page, bytes a link, questions; ARGS="--edges 1e6"
	@$(BIN)/python -m benchmarks.links $(ARGS)

bench-index: .venv/.dev ## Measure the index of generated pages: time, memory, size; ARGS="--pages 100000"
	@$(BIN)/python -m benchmarks.big_index $(ARGS)

bench-metadata: .venv/.dev ## Measure table pages in PostgreSQL, with partitions, and in Iceberg; ARGS="--rows 5e7"
	@$(BIN)/python -m benchmarks.metadata $(ARGS)

bench-frontier: .venv/.dev ## Measure the frontier on one Valkey process; ARGS="--scale 0.1" shortens it
	@$(BIN)/python -m benchmarks.frontier $(ARGS)

simulate: .venv/.dev ## Simulate a crawl of many hosts: memory, cost, order; ARGS="--only size --hosts 1e7 --urls 3e7"
	@$(BIN)/python -m benchmarks.simulate $(ARGS)

bench-urlfrontier: .venv/.dev ## Measure the open frontier by a client of gRPC; ARGS="--urls 10000" shortens it
	@$(BIN)/python -m benchmarks.urlfrontier $(ARGS)

first-hour: .venv/.dev ## Run every command of README, tutorial and docs/start in a new environment; ARGS="--only tutorial"
	@$(BIN)/python -m benchmarks.first_hour $(ARGS)

replay: .venv/.dev ## Replay a crawl with pywb in a separate environment; validate its WACZ file and index
	@$(BIN)/python -m benchmarks.replay $(ARGS)

bench-search: .venv/.dev ## Measure how often search finds the wanted page, beside other engines; ARGS="--fit"
	@$(BIN)/python -m benchmarks.search $(ARGS)

bench-texts: .venv/.dev ## Measure how well the main part of pages is found; ARGS="--annotated FILE"
	@$(BIN)/python -m benchmarks.main_parts $(ARGS)

bench-duplicates: .venv/.dev ## Measure the index of duplicates in files, at 100 million texts; ARGS="--texts 1e6"
	@$(BIN)/python -m benchmarks.duplicates $(ARGS)

bench-copies: .venv/.dev ## Measure how many changed copies of pages are found in clusters
	@$(BIN)/python -m benchmarks.copies $(ARGS)

bench-layout: .venv/.dev ## Read exports with DuckDB, Polars, pyarrow and Spark, beside what was stored
	@$(BIN)/python -m benchmarks.layout $(ARGS)

read-texts: .venv/.dev ## Read WET, WAT and texts of a crawl of known pages with other programs; ARGS="--pages 1000"
	@$(BIN)/python -m benchmarks.read_texts $(ARGS)

read-lake: .venv/.dev ## Read tables of Iceberg in S3 with pyiceberg, DuckDB and Spark; ARGS="--pages 1000"
	@$(BIN)/python -m benchmarks.read_lake $(ARGS)

read-fields: .venv/.dev ## Read extracted fields and mined tables with DuckDB, Polars and Python; ARGS="--pages 1000"
	@$(BIN)/python -m benchmarks.read_fields $(ARGS)

read-states: .venv/.dev ## Compare states and checked pages on the terminal, in lists and by the HTTP API; ARGS="--pages 1000"
	@$(BIN)/python -m benchmarks.read_states $(ARGS)

bench-structured: .venv/.dev ## Read the structured data of HTML files with extruct, beside what the project reads: ARGS=folder
	@$(BIN)/python -m benchmarks.structured_data $(ARGS)

chaos: .venv/.dev ## Crawl a local web while killing and stopping workers and Valkey; SECONDS=600 SEED=2 WORKERS=12
	@$(BIN)/python -m benchmarks.chaos $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(WORKERS),--workers $(WORKERS)) $(ARGS)

scrapys-tests: .venv/.dev ## Run Scrapy's own tests with the add-on in every crawler; ARGS="--modules crawl"
	@$(BIN)/python -m benchmarks.scrapys_tests $(ARGS)

structure: .venv/.dev ## Print rooms, imports, sizes and names of the code; ARGS="webcrawl/hosts" lists those of a folder
	@$(BIN)/python -m tests.project.structure $(ARGS)

clean: ## Remove build and installation files; keep crawled data
	@rm -rf .venv .bench build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.runtime: pyproject.toml requirements/build.txt requirements/crawler.txt
	@$(call install,crawler)
	@touch $@

.venv/.extras: pyproject.toml $(wildcard requirements/*.txt)
	@$(call install,extras)
	@touch .venv/.runtime $@

.venv/.dev: pyproject.toml $(wildcard requirements/*.txt)
	@$(call install,tests)
	@touch .venv/.runtime .venv/.extras $@

# Creates .venv again if its Python is gone, for example after an upgrade. What builds packages is installed first,
# because pip would fetch it without a hash otherwise. setuptools warns of editable installations.
define install
	$(BIN)/python -c '' >/dev/null 2>&1 || { $(new_venv) ; } && \
	echo 'Installing what the $(1) need$(if $(filter crawler,$(1)),s) into .venv: up to $(MB_$(1)) MB to load ...' && \
	$(PIP) --require-hashes -r requirements/build.txt && \
	if [ -t 1 ]; then { $(filter-out --quiet,$(PIP)) --progress-bar off $(call pinned,$(1)) && echo installed ; } | awk "$(progress)" ; \
	else $(PIP) $(call pinned,$(1)) ; fi && \
	PYTHONWARNINGS=ignore $(PIP) --no-deps --no-build-isolation -e .
endef

# What the packages of a file weigh as they are loaded, and an awk program that shows how many of them pip has come to.
MB_crawler := 80
MB_extras := 300
MB_tests := 470
progress := \
	/^Collecting/ { printf \"\r  %d packages\", ++n ; fflush() } \
	/^Installing/ { printf \"\r  %d packages, unpacking ...\", n ; fflush() } \
	{ last = \$$0 } END { if (n) print \"\" ; exit last != \"installed\" }
pinned = --require-hashes --no-build-isolation -r requirements/$(1).txt

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# For all platforms and Pythons. What builds the documentation needs 3.11.5.
UV := 0.13.9
CYCLONEDX := 7.5.0
# what a container has beside the crawler
CONTAINER := postgresql parquet metrics traces service images media documents languages
UPLOT := 1.6.32
pin = build/uv/bin/uv pip compile --quiet --universal --python-version 3.11.5 --no-annotate \
	--custom-compile-command "make constraints"

# $(call lock,FILE,EARLIER FILES,OPTIONS AND SOURCES) writes the hashes of the versions in constraints.txt.
define lock
	{ $(if $(2),echo '-r $(lastword $(2)).txt' && )echo setuptools | $(pin) --generate-hashes -c constraints.txt \
	$(3) $$(cat /dev/null $(patsubst %,requirements/%.txt,$(2)) \
	| sed -En 's/^([^ ]+)==[^;]*$$/--no-emit-package \1/p') ; } > build/$(1).txt && mv build/$(1).txt requirements/$(1).txt
endef

define new_venv
	"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo 'webcrawl needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)' >&2; exit 1; } ; \
	"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
	|| { echo 'The venv module of $(PYTHON) is missing (on Debian and Ubuntu: apt install python3-venv)' >&2; exit 1; } ; \
	"$(PYTHON)" -m venv --clear .venv
endef
