# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MCPB := npx --yes @anthropic-ai/mcpb@2.1.2
CONFORMANCE := @modelcontextprotocol/conformance@0.2.0-alpha.12
NODE := .node
EXAMPLES := .examples
E2E := .e2e
K8S := .k8s
IMAGES ?= gateway worker
FRAMEWORKS := $(wildcard examples/requirements/*.txt)
SIE_SDK := .sie-sdk
DOCLING := .docling
# SIE's SDK wants a newer Python than we do.
PYTHON312 ?= python3.12
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: console sie-sdk docling demo test check bench quality mcpb conformance e2e examples chart chart-docs terraform images image-base clean

demo: $(VENV)/.engine  ## fetch the starter models and run the main job on real input
	$(BIN)/sie-mcp models pull starter
	$(BIN)/python -m evals.demo

test: check  ## everything a change must pass
	$(BIN)/sie-mcp models pull starter
	$(MAKE) --no-print-directory $(EXAMPLES)/.installed || echo "the agents of examples/ are not tested: their frameworks could not be installed"
	# Long files first, as tests/conftest.py sorts them; sockets need short paths.
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --basetemp=$$(mktemp -d)

check: $(VENV)/.dev  ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

quality: $(VENV)/.dev  ## retrieval, similarity and taxonomy figures on real data
	$(BIN)/sie-mcp models pull starter
	$(BIN)/python -m evals.quality

bench: $(VENV)/.dev  ## speed against peers, in one run
	$(BIN)/sie-mcp models pull starter
	$(BIN)/python -m evals.bench

sie-sdk: $(VENV)/.dev  ## SIE's own SDK against our worker and gateway; needs Python 3.12
	$(PYTHON312) -m venv $(SIE_SDK)
	$(SIE_SDK)/bin/pip install --quiet --disable-pip-version-check sie-sdk==0.10.1
	SIE_SDK_RESULTS=evals/results/sie_sdk.json $(BIN)/python -m pytest tests/dialects/test_sie_sdk.py

docling:  ## Docling reads real documents, in a venv of its own: 600 MB
	$(PYTHON) -m venv $(DOCLING)
	$(DOCLING)/bin/pip install --quiet --disable-pip-version-check '.[docling,parquet]' pytest pytest-timeout
	$(DOCLING)/bin/python -m pytest -rs tests/tools/test_docling_documents.py

console: $(VENV)/.dev  ## the web console in a real browser; needs an index and Chromium, or fetches one
	$(PIP) install --quiet playwright==1.65.2
	command -v chromium || command -v google-chrome || $(BIN)/playwright install --with-deps chromium
	$(BIN)/python -m pytest -rs tests/gateway/console

mcpb:  ## the bundle for Claude Desktop; needs Node
	mkdir -p dist
	$(MCPB) validate bundle/manifest.json
	$(MCPB) pack bundle dist/sie-mcp.mcpb

conformance: $(VENV)/.dev $(NODE)/.installed  ## the protocol's own suite and Inspector; needs npm
	PATH="$(CURDIR)/$(NODE)/node_modules/.bin:$$PATH" $(BIN)/python -m pytest -rs \
		tests/conformance tests/e2e/test_conformance_of_tasks.py tests/e2e/test_inspector.py tests/test_publishing.py
	$(BIN)/python -m evals.conformance

e2e: $(E2E)/.installed $(E2E)-weaviate/.installed  ## stores, frameworks and clients of others, as they are
	$(E2E)/bin/sie-mcp models pull starter
	E2E_RESULTS=evals/results/e2e.json $(E2E)/bin/python -m pytest -rs -W default tests/integrations
	E2E_RESULTS=evals/results/e2e.json $(E2E)-weaviate/bin/python -m pytest -rs -W default tests/integrations/test_weaviate.py

examples: $(VENV)/.dev $(EXAMPLES)/.installed  ## agents of four frameworks; needs an index
	$(BIN)/python -m pytest -rs tests/examples

chart: $(VENV)/.dev $(K8S)/.installed  ## the chart held to Helm 3 and 4, schemas, promtool, checkov, hadolint
	$(BIN)/python -m k8s.tools.chart_docs --check
	$(BIN)/python -m k8s.tools.dashboards --check
	$(BIN)/python -m pytest -rs tests/chart tests/cluster/test_service.py tests/cluster/test_endpoint_picker.py \
		tests/gateway/endpoint_picker/test_protocol.py

terraform: $(VENV)/.dev $(K8S)/.installed $(K8S)/.terraform  ## the plan's tests, schemas of clouds, checkov; needs terraform, npm
	$(BIN)/python -m pytest -rs tests/terraform

chart-docs: $(VENV)/.dev  ## what is written from the chart's values and from the settings
	$(BIN)/python -m k8s.tools.chart_docs
	$(BIN)/python -m k8s.tools.dashboards

# Typings of the clouds' providers, 0.8 GB unpacked; the providers themselves are not needed.
$(K8S)/.terraform: k8s/terraform/package.json
	mkdir -p $(K8S)/node
	cp $< $(K8S)/node/
	npm install --prefix $(K8S)/node --ignore-scripts --legacy-peer-deps --no-audit --no-fund
	touch $@

# promtool is a program of Debian's package prometheus, which is not installed here but unpacked.
$(K8S)/.installed: k8s/requirements.txt k8s/tools/fetch_helm.py | $(VENV)/bin/python
	$(BIN)/python -m venv $(K8S)/venv
	$(PIP) --python $(K8S)/venv/bin/python install --quiet -r k8s/requirements.txt
	$(BIN)/python -m k8s.tools.fetch_helm $(K8S)/bin
	-command -v promtool || (mkdir -p $(K8S)/deb && cd $(K8S)/deb && apt-get download prometheus && \
		dpkg -x prometheus_*.deb . && cp usr/bin/promtool ../bin/)
	touch $@

images:  ## both images, by buildah; BASE=... for another base, IMAGES=gateway for one
	set -e; for name in $(IMAGES); do \
		buildah bud --isolation chroot $(if $(BASE),--build-arg BASE=$(BASE)) $(BUILD_FLAGS) \
			-f k8s/docker/Dockerfile.$$name -t sie-mcp/$$name .; \
	done

image-base:  ## a base where no registry can be reached, as localhost/python:3.11; needs mmdebstrap
	mkdir -p build/base
	mmdebstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm build/base/base.tar
	buildah bud --isolation chroot -f k8s/docker/Dockerfile.base -t localhost/python:3.11 build/base

# Apart from the server's own, and from each other: they ask for different versions of protobuf.
$(E2E)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(E2E)
	$(PIP) --python $(E2E)/bin/python install --quiet -c constraints.txt openai cohere \
		-e '.[engine,dev,chroma,haystack,langchain,llamaindex,qdrant]'
	touch $@

$(E2E)-weaviate/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(E2E)-weaviate
	$(PIP) --python $(E2E)-weaviate/bin/python install --quiet -c constraints.txt \
		pytest pytest-timeout scipy -e '.[engine,weaviate]'
	touch $@

# One environment for all four, apart from the server's: they want an older mcp than it has.
$(EXAMPLES)/.installed: $(FRAMEWORKS) | $(VENV)/bin/python
	$(BIN)/python -m venv --without-pip $(EXAMPLES)
	$(PIP) --python $(EXAMPLES)/bin/python install --quiet --retries 1 $(FRAMEWORKS:%=-r %)
	touch $@

$(NODE)/.installed: Makefile
	mkdir -p $(NODE)
	npm install --prefix $(NODE) --no-save --no-audit --no-fund node@24 $(CONFORMANCE)
	touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.engine: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e '.[engine]'
	touch $@

$(VENV)/.dev: $(VENV)/.engine
	$(PIP) install --quiet -c constraints.txt -e '.[engine,dev]'
	touch $@

clean:
	rm -rf $(VENV) $(NODE) $(EXAMPLES) $(E2E) $(E2E)-weaviate $(K8S) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
