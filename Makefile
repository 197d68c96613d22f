# The commands of the project: `make help` lists the first ones, `make help-all` all of them.

.DEFAULT_GOAL := help

VENV := .venv
# Another interpreter for an environment of its own: make test INTERPRETER=python3.13 VENV=.venv-3.13
INTERPRETER := python3.11 python3.12 python3.13 python3.14 python3
PYTHON := $(VENV)/bin/python
CODE := app bench blueprints clients examples schemas jobs docs/conf.py tests tools wsgi.py gunicorn.conf.py
# For two cores: two run while the others wait.
TEST_PROCESSES := 4
COMPILE := $(VENV)/bin/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

# Set-up costs one comparison of two files unless the lock has changed.
# $(call install,LOCK): the stamp is a copy of the lock, written when all of it is installed.
define install
	@cmp -s $(1) $(VENV)/.installed-$(subst /,-,$(1)) || { set -e; $(find-python); \
		$(PYTHON) -m pip --version >/dev/null 2>&1 || { echo "making $(VENV) with $$python"; $$python -m venv $(VENV); }; \
		$(PYTHON) -m tools.install $(1); \
		cp $(1) $(VENV)/.installed-$(subst /,-,$(1)); }
endef

# $(call install-node,FOLDER,TOOLS): what the lock of the folder says, into another one. Node's own lock has no registry
# in it; without npm nothing is installed.
define install-node
	@! command -v npm >/dev/null || cmp -s $(1)/package-lock.json $(2)/.installed || { set -e; \
		mkdir -p $(2); cp $(1)/package.json $(1)/package-lock.json $(2); \
		echo "installing $(1)/package-lock.json"; \
		(cd $(2) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null); \
		cp $(1)/package-lock.json $(2)/.installed; }
endef

# A name on the PATH may be a wrapper without an interpreter behind it, so each is tried.
define find-python
	python=; for name in $(INTERPRETER); do \
		if $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then echo "Python 3.11 or newer is needed, as one of: $(INTERPRETER)" >&2; exit 1; fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then echo "$$python cannot make virtual environments: install its venv package (such as python3-venv)" >&2; exit 1; fi
endef

FIRST := run test lint format migration verify
LIST_COMMANDS = awk -F ':.*\#\# ' -v first="$(1)" \
	'/^[a-z0-9-]+:.*\#\# / && (!first || index(" " first " ", " " $$1 " ")) { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

.PHONY: help
help: ## list the commands that a change needs
	@$(call LIST_COMMANDS,$(FIRST))
	@echo "  make help-all             list every command"

.PHONY: help-all
help-all: ## list every command
	@$(call LIST_COMMANDS,)

.PHONY: run
run: setup ## run the whole service in the foreground (docs/settings.md lists its settings)
	@exec $(PYTHON) -m app.launcher

# Tests start over a hundred processes, none of which should have to recompile the code. The slowest are named at the
# end: one of a minute waits for something that does not happen. Plugins of other suites would look at each of them.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -m pytest -p no:anyio -p no:schemathesis -p no:playwright \
	-n $(TEST_PROCESSES) --dist worksteal \
	--durations=5 --durations-min=20

# What starts processes of the service, or fills databases of its own.
PROCESSES := $(addprefix tests/,e2e/ server/ processes/ databases/ restore/ migrations/ docs/)
TARGETS_OF_THEIR_OWN := $(PROCESSES) $(addprefix tests/,guards/ interop/ openapi/ clients/ installed/ deploy/ monitoring/ browser/ scaling/)

.PHONY: test
test: setup-dev ## run the tests, on SQLite and on PostgreSQL (ARGS="-k name" for a selection)
	@$(PYTEST) $(or $(ARGS),$(filter-out $(TARGETS_OF_THEIR_OWN),$(dir $(wildcard tests/*/__init__.py))))

.PHONY: verify
verify: setup-dev ## run every suite, with a table at the end (ARGS="--since COMMIT", --short as .ci/run, --only, --list)
	@$(PYTHON) -m tools.verify $(ARGS)

.PHONY: e2e
e2e: setup-dev ## test the whole service as `make run` starts it, its processes, what works on whole databases, and the pages
	@$(PYTEST) $(PROCESSES) $(ARGS)

.PHONY: scaling
scaling: setup-dev ## test that no work grows with a table or faster than a text, and what each request and mail costs
	@$(PYTEST) tests/scaling $(ARGS)

.PHONY: coverage-of-spec
coverage-of-spec: setup-dev ## show which test produces which error code, and fail for a code without one
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	SPEC_COVERAGE=$$folder $(PYTHON) -m pytest tests/api -n $(TEST_PROCESSES) -q; \
	$(PYTHON) -m tests.support.coverage $$folder

PROVIDER_TOOLS := $(VENV)/provider-tools

.PHONY: interop
interop: setup-dev interop-packages ## test against Postfix, OpenDKIM, Kannel, PgBouncer, mailers, an SMPP server and an OpenID provider (on Debian, as root: installs them)
	@INTEROP=1 PROVIDER_TOOLS=$(PROVIDER_TOOLS) $(PYTHON) -m pytest tests/interop $(ARGS)

.PHONY: interop-packages
interop-packages:
	@apt-get update -qq
	@DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		postfix sasl2-bin libsasl2-modules opendkim kannel kannel-extras pgbouncer \
		swaks libnet-ssleay-perl libio-socket-ssl-perl php-cli libphp-phpmailer nodejs node-nodemailer >/dev/null
	$(call install,requirements/interop.lock)
	$(call install-node,tests/interop/provider,$(PROVIDER_TOOLS))
	@! command -v npm >/dev/null || cp tests/interop/provider/provider.mjs $(PROVIDER_TOOLS)

.PHONY: monitoring
monitoring: setup-dev monitoring-packages ## test the alert rules with Prometheus itself (on Debian, as root: installs it)
	@MONITORING=1 $(PYTHON) -m pytest tests/monitoring $(ARGS)

.PHONY: monitoring-packages
monitoring-packages:
	@command -v promtool >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >/dev/null; }

.PHONY: browser
browser: setup-dev browser-packages ## test the console in a real browser (on Debian, as root: installs Chromium)
	@BROWSER=1 $(PYTHON) -m pytest tests/browser $(ARGS)

.PHONY: screenshots
screenshots: setup-dev browser-packages ## take pictures of the console's pages, into var/screenshots (ARGS=--readme)
	@$(PYTHON) -m tests.browser.screenshots $(ARGS)

.PHONY: browser-packages
browser-packages: setup-dev
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		command -v google-chrome-stable >/dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }
	$(call install,requirements/browser.lock)

.PHONY: deploy-check
deploy-check: setup-dev deploy-packages ## test the image, the services of the compose file, the units, the proxies and the manifests of Kubernetes (on Debian, as root: installs the proxies and strace)
	@DEPLOY=1 $(PYTHON) -m pytest tests/deploy $(ARGS)

# A line of the tests says what is left out where this is not possible. No proxy is started by its installation.
.PHONY: deploy-packages
deploy-packages:
	@missing=; \
	for name in nginx haproxy caddy strace openssl; do command -v $$name >/dev/null || missing="$$missing $$name"; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends $$missing >/dev/null || true; \
	fi
	$(call install,requirements/deploy.lock)

NODE_TOOLS := $(VENV)/openapi-tools

.PHONY: openapi
openapi: setup-dev openapi-packages ## check the OpenAPI description: validator, linters, and clients that are generated from it
	@if command -v npm >/dev/null; then export NODE_TOOLS=$(NODE_TOOLS); \
	else echo "left out, since there is no npm: redocly, spectral and the TypeScript client"; \
	fi; OPENAPI=1 $(PYTHON) -m pytest -n 2 --dist loadfile tests/openapi $(ARGS)

.PHONY: openapi-packages
openapi-packages: setup-dev
	$(call install,requirements/openapi.lock)
	$(call install-node,tests/openapi,$(NODE_TOOLS))

.PHONY: release-description
release-description: setup-dev ## store what later versions are compared with: the OpenAPI description of a release, and its names
	@$(PYTHON) -m tests.support.description > docs/released/openapi.json.new
	@$(PYTHON) -m tests.support.names > docs/released/names.txt.new
	@mv docs/released/openapi.json.new docs/released/openapi.json
	@mv docs/released/names.txt.new docs/released/names.txt

.PHONY: clients
clients: setup-dev client-interpreters ## test the library and the examples against the running service (as root on Debian: installs Node and PHP)
	@CLIENTS=1 $(PYTHON) -m pytest tests/clients $(ARGS)

# Where this is not possible, a line of the tests says what is left out.
.PHONY: client-interpreters
client-interpreters:
	@missing=; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	php -m 2>/dev/null | grep -qx curl || missing="$$missing php-cli php-curl"; \
	command -v curl >/dev/null || missing="$$missing curl"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null || true; \
	fi

# The wheel is packed without fetching a build backend: the locked one is there.
.PHONY: package
package: setup-dev ## build the wheel, the source distribution and the SBOM into dist/
	@rm -rf dist
	@$(PYTHON) -m hatchling build -d dist
	@cp requirements.lock dist
	@$(MAKE) --no-print-directory sbom

# The description is the same whenever it is written: without a time and a random serial number.
.PHONY: sbom
sbom: setup-dev ## write the SBOM of the locked dependencies (CycloneDX) into dist/
	$(call install,requirements/package.lock)
	@set -e; mkdir -p dist; version=$$($(PYTHON) -c 'from app.distribution import VERSION; print(VERSION)'); \
	folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > $$folder/pyproject.toml; \
	$(VENV)/bin/cyclonedx-py requirements requirements.lock --pyproject $$folder/pyproject.toml --mc-type application \
		--output-format JSON --output-reproducible -o dist/transactional_messaging_service-$$version.cdx.json

.PHONY: installed
installed: setup-dev ## test the wheel: built twice, installed into an empty environment, run outside of the checkout, upgraded
	$(call install,requirements/package.lock)
	@INSTALLED=1 $(PYTHON) -m pytest tests/installed $(ARGS)

.PHONY: newcomer
newcomer: setup-dev ## time a stranger's first hour: from a clone to the first mail, webhook and automation, by the lines of the pages
	@env -u PYTHONDONTWRITEBYTECODE $(PYTHON) -W 'ignore:XDG_RUNTIME_DIR is not set' -m bench.newcomer

.PHONY: bench
bench: setup-bench ## measure the service against its floors and peers (ARGS="--only reading --rounds 9", --short, --sqlite)
	@$(PYTHON) -m bench $(ARGS)

.PHONY: growth
growth: setup-bench ## measure every filter and page at 10,000 and at 5,000,000 rows (ARGS="--rows 1000000", --sqlite)
	@$(PYTHON) -m bench.growth $(ARGS)

.PHONY: chaos
chaos: setup-dev ## inject faults into the running service and check its guarantees (ARGS="--only kill-sender --seed 7", --short, --broken)
	@$(PYTHON) -m tests.chaos $(ARGS)

.PHONY: cluster
cluster: setup-dev cluster-packages ## break hosts, networks and engines under a service on many hosts (as root on Debian: installs the engines; ARGS="--only switchover", --short, --broken, --list)
	@$(PYTHON) -m tests.cluster $(ARGS)

# A line of the suite says that it is left out where this is not possible. No engine is started by its installation.
.PHONY: cluster-packages
cluster-packages:
	@missing=; \
	for name in patroni etcd redis-sentinel haproxy ip psql; do command -v $$name >/dev/null || missing=yes; done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		timeout 120 apt-get update -qq && \
		RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y -qq --no-install-recommends \
			postgresql patroni etcd-server redis-sentinel haproxy iproute2 >/dev/null || true; \
	fi

.PHONY: fuzz
fuzz: setup-dev ## try very many inputs on the API and on what reads the texts of others (ARGS="--only api", --short, --list)
	$(call install,requirements/fuzz.lock)
	@$(PYTHON) -m tests.fuzz $(ARGS)

.PHONY: attack
attack: setup-dev ## attack the running service from outside: isolation, SSRF, injection, floods (ARGS="--only ssrf", --short, --broken, --list)
	@$(PYTHON) -m tests.attack $(ARGS)

.PHONY: rolling
rolling: setup-dev ## upgrade the running service under load, from the last code before the baseline and to a next release (ARGS="--short", --sqlite)
	@$(PYTHON) -m tests.rolling $(ARGS)

.PHONY: lint
lint: setup-dev ## check format, style, types, the rules of the code base, and the dependencies for known vulnerabilities
	@$(VENV)/bin/ruff format --quiet --check $(CODE)
	@$(VENV)/bin/ruff check --quiet $(CODE)
	@$(VENV)/bin/mypy --no-error-summary
	@$(PYTEST) --quiet tests/guards
	@$(PYTHON) -m tools.audit requirements.lock requirements/dev.lock

.PHONY: format
format: setup-dev ## format the code
	@$(VENV)/bin/ruff format --quiet $(CODE)
	@$(VENV)/bin/ruff check --quiet --fix $(CODE)

.PHONY: docs
docs: setup ## write the pages that are generated from the code
	@for page in settings seed; do \
		$(PYTHON) -m tools.generated_docs.$$page > docs/$$page.md.new && mv docs/$$page.md.new docs/$$page.md || exit 1; done
	@for page in errors body-errors send-errors; do \
		$(PYTHON) -m tools.generated_docs.errors $$page > docs/$$page.md.new && mv docs/$$page.md.new docs/$$page.md || exit 1; done
	@$(PYTHON) -m tools.attribute_pages
	@$(PYTHON) -m tools.generated_docs.commands docs/commands
	@$(PYTHON) -m tools.generated_docs.environment > deploy/environment.example.new
	@mv deploy/environment.example.new deploy/environment.example

.PHONY: site
site: setup-dev ## build the documentation as a searchable site into build/site, and check its links
	$(call install,requirements/site.lock)
	@rm -rf build/site
	@$(PYTHON) -m sphinx --fail-on-warning --keep-going --quiet docs build/site
	@$(PYTHON) -m tests.support.site build/site

.PHONY: migration
migration: setup-dev ## write a migration for changed models: make migration m="add a column"
	@test -n "$(m)" || { echo 'say what it does: make migration m="add a column"' >&2; exit 2; }
	@$(VENV)/bin/flask --app wsgi db generate "$(m)"
	@$(VENV)/bin/ruff check --quiet --fix app/db/migrations || true
	@$(VENV)/bin/ruff format --quiet app/db/migrations

.PHONY: translations
translations: setup-dev ## read the texts of the pages for recipients into the catalogues, and compile these
	@$(PYTHON) -m tools.translations

.PHONY: vendor
vendor: setup-dev ## renew the styles and scripts of others that the console serves (needs npm)
	@$(PYTHON) -m tools.vendor

.PHONY: upgrade
upgrade: setup-dev ## lock the newest versions of all dependencies
	@$(COMPILE) -o requirements.lock
	@$(COMPILE) --group dev -c requirements.lock -o requirements/dev.lock
	@$(COMPILE) --group dev --group bench -c requirements/dev.lock -o requirements/bench.lock
	@$(COMPILE) --group interop -c requirements/dev.lock -o requirements/interop.lock
	@$(COMPILE) --group deploy -c requirements/dev.lock -o requirements/deploy.lock
	@$(COMPILE) --group browser -c requirements/dev.lock -o requirements/browser.lock
	@$(COMPILE) --group dev --group site -c requirements/dev.lock -o requirements/site.lock
	@$(COMPILE) --group openapi -c requirements/dev.lock -o requirements/openapi.lock
	@$(COMPILE) --group fuzz -c requirements/dev.lock -o requirements/fuzz.lock
	@$(COMPILE) --group package -c requirements/dev.lock -o requirements/package.lock

.PHONY: setup
setup:
	$(call install,requirements.lock)

.PHONY: setup-dev
setup-dev: setup
	$(call install,requirements/dev.lock)

.PHONY: setup-bench
setup-bench: setup-dev
	$(call install,requirements/bench.lock)
