# All builds go into OUTRIDER_CACHE, outside the tree. docs/reference/environment.md has the settings.
export OUTRIDER_CACHE ?= $(HOME)/.cache/outrider
export PATH := $(OUTRIDER_CACHE)/bin:$(PATH)
# Results of a type check are also valid for a copy of the module in another tree.
export MYPY_CACHE_DIR := $(OUTRIDER_CACHE)/mypy
# Some images set it. Then every worker would compile every module of every package in every run.
unexport PYTHONDONTWRITEBYTECODE

HELM3 := $(OUTRIDER_CACHE)/bin/helm-v3.22.0
OLDEST_KUBERNETES := 1.30.14
OLDEST := $(OUTRIDER_CACHE)/bin/kube-apiserver-v$(OLDEST_KUBERNETES)
# The controller of LeaderWorkerSet, with its chart in the same folder.
GROUPS := $(OUTRIDER_CACHE)/build/leaderworkerset-0.9.0/manager
# KEDA's operator and its metrics server, with their manifests in the same folder.
KEDA := $(OUTRIDER_CACHE)/build/keda-2.21.0/keda
# CNCF Distribution, for the page that begins with `docker push`.
REGISTRY := $(OUTRIDER_CACHE)/build/registry-3.0.0/registry
# A controller in Go, with which `make bench-scale-reference` compares.
REFERENCE := $(OUTRIDER_CACHE)/build/scale-reference/reference
# The load generator of `outrider bench`, on top of the engine's environment, which has torch for it.
GUIDELLM := $(OUTRIDER_CACHE)/build/guidellm-0.8.1/guidellm
UP := python3 tests/environment/up.py
UV := $(OUTRIDER_CACHE)/tools/bin/uv
RUN := KUBECONFIG=$(OUTRIDER_CACHE)/kubeconfig $(UV) run --frozen

.DEFAULT_GOAL := help
.PHONY: records help demo test test-attack test-faults faults test-contract test-nightly test-cluster test-lifecycle test-keda test-guidellm unit explore explore-admission check prose check-types check-rest cluster docs generate golden mutants bench contract-flags clean clean-cache

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: cluster ## Set everything up and watch a model being retuned live. ARGS="--no-twin" and the like
	$(RUN) python -m examples.demo $(ARGS)

test: ## Set everything up and run every check and every test; ends with the minutes of each part
	+@MAKE="$(MAKE)" python3 tests/environment/timed.py cluster check unit test-attack+test-faults+test-contract test-cluster

test-attack: ## The operator under the chart's memory limit, while one tenant sends the most expensive input. ARGS="-k labelled" and the like
	$(RUN) pytest tests/attack $(ARGS)

# Python, and the programs of the control plane.
UP_TO_API_SERVER = $(UP) --until workspace && $(UP) --until "kubernetes programs" && $(UP) --until "cluster programs"

test-faults: ## The operator killed and answered wrongly, a sample of `make faults`; needs no cluster. ARGS="-k kills" and the like
	@$(UP_TO_API_SERVER)
	$(RUN) pytest tests/faults -m "not nightly" $(ARGS)

faults: ## Kill the operator at every call of a model's life, and answer it wrongly; half an hour, no cluster. ARGS="-k soak --soak-minutes 10" and the like
	@$(UP_TO_API_SERVER)
	$(RUN) pytest tests/faults --numprocesses 2 --dist worksteal $(ARGS)

test-contract: ## The plugin in real vLLM; needs no cluster. ARGS="-k push" and the like
	@$(UP) --until "sglang environment"
	$(RUN) pytest tests/contract -m "not nightly" --numprocesses 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-nightly: ## The V2 runner at length, by Triton's interpreter, and the end of SGLang; needs no cluster. ARGS="-k mtp" and the like
	@$(UP) --until "sglang environment"
	$(RUN) pytest tests/contract -m nightly $(ARGS)

# kubectl and helm run for a tenth of a second, a fifth of it for garbage collection.
test-cluster: export GOGC := off
test-cluster: export GOMEMLIMIT := 256MiB
test-cluster: ## The tests of a cluster that `make cluster` brought up
	$(RUN) pytest tests/cluster -m "not alone" --numprocesses 5
	$(RUN) pytest tests/cluster -m alone

test-lifecycle: $(HELM3) $(OLDEST) $(GROUPS) $(REGISTRY) ## Upgrades with Helm 3 and 4, the oldest Kubernetes, lost machines, several nodes, a fresh machine; an hour. ARGS="-k helm3" and the like
	OUTRIDER_HELM3=$(HELM3) OUTRIDER_OLDEST_API_SERVER=$(OLDEST) OUTRIDER_LEADERWORKERSET=$(dir $(GROUPS)) \
	  OUTRIDER_REGISTRY=$(REGISTRY) $(RUN) pytest tests/lifecycle --ignore=tests/lifecycle/test_keda.py $(ARGS)

test-keda: $(KEDA) ## KEDA scales a model to zero and back; the first build of KEDA takes more than an hour
	OUTRIDER_KEDA=$(dir $(KEDA)) $(RUN) pytest tests/lifecycle/test_keda.py $(ARGS)

test-guidellm: $(GUIDELLM) ## `outrider bench` with the real GuideLLM, on the cluster that `make cluster` brought up; eight minutes on a busy machine
	PATH="$(dir $(GUIDELLM)):$(PATH)" $(RUN) pytest tests/cluster/commands/test_bench.py $(ARGS)

# Without the stamp its version is v0.0.0, and Helm refuses the chart.
STAMP := $(foreach field,gitVersion=v$(OLDEST_KUBERNETES) \
  $(join gitMajor= gitMinor=,$(wordlist 1,2,$(subst ., ,$(OLDEST_KUBERNETES)))),-X k8s.io/component-base/version.$(field))

$(OLDEST): tests/environment/go/kubernetes-oldest/go.mod
	cd $(<D) && PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 \
	  go build -buildvcs=false -trimpath -ldflags "-s -w $(STAMP)" -o $@ k8s.io/kubernetes/cmd/kube-apiserver

$(GROUPS): tests/lifecycle/go/leaderworkerset/go.mod
	mkdir -p $(@D)
	cd $(<D) && export PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 && \
	  go build -buildvcs=false -trimpath -ldflags "-s -w" -o $@ sigs.k8s.io/lws/cmd && \
	  rm -rf $(@D)/chart && cp -r "$$(go list -m -f '{{.Dir}}' sigs.k8s.io/lws)/charts/lws" $(@D)/chart && chmod -R u+w $(@D)/chart

$(REGISTRY):
	PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 GOBIN=$(@D) \
	  go install -trimpath -ldflags "-s -w" \
	  github.com/distribution/distribution/v3/cmd/registry@v$(patsubst registry-%,%,$(notdir $(@D)))

$(GUIDELLM): tests/lifecycle/guidellm/requirements.txt
	$(UV) pip install --quiet --python $(OUTRIDER_CACHE)/engine-env/bin/python --target $(@D)/lib \
	  --no-deps --require-hashes --requirement $<
	printf '#!/bin/sh\nPYTHONPATH=%s exec %s -m guidellm "$$@"\n' \
	  $(@D)/lib $(OUTRIDER_CACHE)/engine-env/bin/python > $@
	chmod +x $@

$(KEDA): tests/lifecycle/go/keda/go.mod
	mkdir -p $(@D)
	cd $(<D) && export PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 && \
	  go build -buildvcs=false -trimpath -ldflags "-s -w" -o $@-adapter github.com/kedacore/keda/v2/cmd/adapter && \
	  go build -buildvcs=false -trimpath -ldflags "-s -w" -o $@ github.com/kedacore/keda/v2/cmd/operator && \
	  rm -rf $(@D)/config && cp -r "$$(go list -m -f '{{.Dir}}' github.com/kedacore/keda/v2)/config" $(@D)/config && chmod -R u+w $(@D)/config

# Only the tests of releases use it; the cluster uses Helm 4.
$(HELM3):
	PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 GOBIN=$(OUTRIDER_CACHE)/build/helm3 \
	  go install -trimpath -ldflags "-s -w" helm.sh/helm/v3/cmd/helm@$(@F:helm-%=%)
	mv $(OUTRIDER_CACHE)/build/helm3/helm $@

# Workers share the cores, so threads of their linear algebra would only wait for each other.
unit: ## The unit tests; needs no cluster. ARGS="-k replica" and the like
	@$(UP) --until workspace
	OPENBLAS_NUM_THREADS=1 $(RUN) pytest tests/unit --numprocesses 3 --dist worksteal $(ARGS)

explore: ## The properties among the unit tests, on new examples. ARGS="-k schedule" and the like
	@$(UP) --until workspace
	$(RUN) pytest tests/unit --numprocesses auto --hypothesis-profile=explore -m hypothesis $(ARGS)

explore-admission: ## Dry runs of 10,000 random models at the cluster's API server. ARGS="--objects 500 --seed 7"
	$(RUN) python -m tests.cluster.admission_fuzz $(ARGS)

check: ## Style, types, import rules, prose and the chart; needs no cluster
	@$(UP) --until vale
	@+$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-rest

check-types:
	$(RUN) mypy

check-rest:
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) lint-imports
	$(RUN) python -m tests.prose
	@if command -v helm > /dev/null; then helm lint --strict charts/outrider; else echo "helm is not built: chart not linted"; fi

prose: ## Check the prose of pages, docstrings and messages. ARGS="docs/guide" and the like
	@$(UP) --until vale
	$(RUN) python -m tests.prose $(ARGS)

cluster: ## Build what is missing and bring the cluster up, with Prometheus and the operator
	@$(UP)

docs: ## Write the site of docs/ to out/site, with every link checked; open out/site/index.html
	@$(UP) --until workspace
	NO_MKDOCS_2_WARNING=1 $(RUN) --group docs mkdocs build --strict

generate: ## Write the CRD and the reference pages from the code
	@$(UP) --until workspace
	$(RUN) python -m engine_image.releases --write
	$(RUN) python -m outrider.api.crd --write crds/
	cp crds/*.yaml charts/outrider/files/
	$(RUN) python -m outrider.api.reference --write docs/reference/
	$(RUN) python -m outrider.api.conditions_page --write docs/runbooks/
	$(RUN) python -m outrider.runtimes.vllm.methods_reference --write docs/reference/
	$(RUN) python -m outrider.runtimes.vllm.defects_reference --write docs/runbooks/
	$(RUN) python -m outrider.cli.settings_reference --write docs/reference/
	$(RUN) python -m outrider.sizing.reference --write docs/reference/
	$(RUN) python -m engine_image.testing.contract.reference --write docs/reference/
	$(RUN) python -m charts.dashboard --write charts/outrider/dashboards/
	$(RUN) python -m charts.injection --write charts/outrider/files/
	$(RUN) python -m charts.readme --write charts/outrider/
	$(RUN) python -m tests.bench.records --pages

golden: ## Write the golden manifests and traces; read the diff
	@$(UP) --until workspace
	$(RUN) python -m tests.unit.plan.golden --write
	$(RUN) python -m tests.unit.tuning.golden --write
	$(RUN) python -m tests.unit.cli.plan_golden --write
	$(RUN) python -m tests.unit.cli.render_golden --write
	$(RUN) python -m tests.unit.importing.import_golden --write
	$(RUN) python -m tests.unit.docs.how_to --write

mutants: ## Change the safety files in small ways, and list changes that no test notices. Result in out/mutants. ARGS="--only law"
	@$(UP) --until workspace
	$(RUN) python -m tests.mutants $(ARGS)

bench: bench-tuning ## Run the benchmarks; results in out/bench

bench-tuning: ## The tuner on published step times and moving traffic; no cluster needed
	@$(UP) --until workspace
	$(RUN) python -m tests.bench.tuning
	$(RUN) python -m tests.bench.tuning.alternating

records: ## Which published measurements are of older code; exit code 1 if some are. ARGS="--write" writes ages and tables into pages
	@$(UP) --until workspace
	@$(RUN) python -m tests.bench.records $(ARGS)

bench-traffic: ## Rules of today by kind of traffic, simulated; draws follow from the commit. ARGS="--kind ramps" and the like
	@$(UP) --until workspace
	$(RUN) python -m tests.bench.traffic $(ARGS)

bench-engine: cluster ## Outrider against other policies on real vLLM; needs a quiet machine. ARGS="--engine twin:h100_8b" for a simulated engine
	$(RUN) python -m tests.bench.engine $(ARGS)

bench-sglang: ## Outrider against SGLang's adaptive mode in SGLang, at the step times of a GPU (simulated). ARGS="--repeats 1"
	@$(UP) --until "sglang environment"
	$(RUN) python -m tests.bench.sglang $(ARGS)

bench-engine-control: ## Latency of a push and cost of the plugin on real vLLM; needs a quiet machine
	@$(UP) --until models
	$(RUN) python -m tests.bench.engine.control

bench-idle: ## Overhead of an idle drafter at K=0; needs a quiet machine. ARGS="--method eagle3"
	@$(UP) --until models
	$(RUN) python -m tests.bench.k0 $(ARGS)

bench-idle-parts: ## Overhead of an idle drafter by part of a step; needs a quiet machine. ARGS="--method eagle3"
	@$(UP) --until models
	$(RUN) python -m tests.bench.k0.parts $(ARGS)

bench-map: ## Difference between the startup profile and live steps; needs a quiet machine. ARGS="--method eagle3"
	@$(UP) --until models
	$(RUN) python -m tests.bench.live_map $(ARGS)

bench-twin: ## Difference between a simulated engine and the engine of its step times; needs a quiet machine. ARGS="--seconds 10"
	@$(UP) --until models
	$(RUN) python -m tests.bench.twin $(ARGS)

bench-ends: cluster ## End pods while clients keep connections open, and count lost requests. ARGS="--count 3"
	$(RUN) python -m tests.bench.ends $(ARGS)

bench-scale: cluster ## One operator with many models: CPU, memory, delays. ARGS="--models 30,100"
	$(RUN) python -m tests.bench.scale $(ARGS)

bench-scale-reference: $(REFERENCE) ## Creation by a controller in Go with the same writes, to compare. ARGS="--models 30,100"
	@$(UP_TO_API_SERVER)
	$(RUN) python -m tests.bench.scale --reference $(REFERENCE) $(ARGS)

$(REFERENCE): tests/bench/scale/go/main.go tests/bench/scale/go/go.mod
	mkdir -p $(@D)
	cd $(<D) && PATH="$(PATH):/usr/local/go/bin" CGO_ENABLED=0 \
	  go build -buildvcs=false -trimpath -ldflags "-s -w" -o $@ .

gpu-check: ## What only a GPU can show, in 20 minutes, as one page in out/gpu. ARGS="--engine cpu" for a dry run; exit code 2 without a GPU
	@$(UP) --until workspace
	@$(RUN) python -m tests.gpu $(ARGS)

gpu-image: ## Build, start and remove the GPU image on a replacement of its base. Needs `make cluster` once, and a Python 3.12
	@$(RUN) python -m tests.gpu.image $(ARGS)

contract: ## Check the source of every supported vLLM against the plugin's expectations
	@$(UP) --until workspace
	$(RUN) python -m engine_image.testing.contract --write engine_image/testing/contract
	$(RUN) python -m engine_image.testing.contract.reference --write docs/reference/

contract-flags: ## Read the flags of every supported vLLM from its own parser, and of every SGLang from its source; read the diff
	@$(UP) --until models
	$(RUN) python -m engine_image.testing.contract.flags --write operator/outrider/runtimes/vllm/known_flags.py
	$(RUN) python -m tests.contract.flag_words --write operator/outrider/runtimes/vllm/flag_words.py
	$(RUN) python -m engine_image.testing.contract.sglang_flags --write operator/outrider/runtimes/sglang/known_flags.py

clean: ## Remove the cluster and stop the Docker Engine that the set-up started; the cache stays
	@python3 tests/environment/down.py
	@rm -rf out dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .import_linter_cache

clean-cache: clean ## Also remove all builds from the cache
	@python3 tests/environment/down.py --cache
