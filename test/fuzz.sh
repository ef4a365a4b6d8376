#!/usr/bin/env bash
# Runs every fuzz target of the module for a while, one after the other: fuzz.sh [TIME], default 30s. Inputs that break
# something are kept below testdata/fuzz of their package, to be committed with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
	grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | awk '{print $2}' | while read -r target; do
		echo "$dir $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$dir"
	done
done
