#!/usr/bin/env bash
# Everything that is tested on the built binary from outside.
set -euo pipefail
cd "$(dirname "$0")"
for script in talk.sh million.sh kill-rounds.sh loghub.sh; do
	echo "test/$script"
	"./$script"
done
