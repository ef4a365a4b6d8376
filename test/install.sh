#!/usr/bin/env bash
# Installs what the tests talk to: Debian packages, and DuckDB and pyarrow as independent readers of Parquet, in a venv of their own.
# What is there already is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."
want=()
command -v sqlite3 >/dev/null || want+=(sqlite3)
command -v nc >/dev/null || want+=(netcat-openbsd)
python3 -c 'import venv, ensurepip' 2>/dev/null || want+=(python3 python3-venv)
if [ ${#want[@]} -gt 0 ]; then
	sudo=
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	$sudo apt-get update -q
	DEBIAN_FRONTEND=noninteractive $sudo apt-get install -q -y --no-install-recommends "${want[@]}"
fi
venv=.cache/venv
if ! "$venv/bin/python" -c 'import duckdb, pyarrow' 2>/dev/null; then
	python3 -m venv "$venv"
	"$venv/bin/pip" install -q --disable-pip-version-check 'duckdb==1.4.*' 'pyarrow==22.*'
fi
