# metaq. Needs nothing but Go and make beforehand; tools and what tests talk to are installed by the targets that need them.

GO      ?= go
BIN     := $(CURDIR)/bin
TOOLS   := $(BIN)/golangci-lint $(BIN)/staticcheck $(BIN)/gofumpt
SECONDS ?= 15

.DEFAULT_GOAL := help

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: $(BIN)/metaq ## bin/metaq, one static file

.PHONY: $(BIN)/metaq
$(BIN)/metaq:
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -o $@ ./cmd/metaq

.PHONY: demo
demo: build ## the whole way of a record, on this machine, in a temporary folder
	$(BIN)/metaq demo --seconds $(SECONDS)

.PHONY: test
test: ## everything CI runs: check, race tests, readers from outside, kill rounds
	test/install.sh
	$(MAKE) check
	$(GO) test -race ./...
	$(MAKE) test-process

.PHONY: test-process
test-process: build ## tests of the built binary: kill rounds, talking by hand, the documents' commands
	test/all.sh

.PHONY: check
check: $(TOOLS) ## format, vet, lint
	@out=$$($(BIN)/gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); if [ -n "$$out" ]; then echo "gofumpt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(BIN)/staticcheck ./...
	$(BIN)/golangci-lint run ./...

# The tools' versions are pinned by tools/go.mod, a module of its own.
$(TOOLS): tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	cd tools && $(GO) build -o $(BIN)/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint honnef.co/go/tools/cmd/staticcheck mvdan.cc/gofumpt
	@touch $(TOOLS)

.PHONY: bench
bench: build ## micro benchmarks, then whole processes: put, get, latency, CPU seconds for a million messages
	$(GO) test -run '^$$' -bench . -benchmem ./protocol ./broker/... ./client ./tail4go ./pipeline ./sinks/...
	cd bench && $(GO) run . -metaq $(BIN)/metaq

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (default 30s)
	test/fuzz.sh $(or $(FUZZTIME),30s)

.PHONY: clean
clean: ## removes bin
	rm -rf $(BIN)
