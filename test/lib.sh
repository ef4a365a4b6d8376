# What the scripts in this folder share. Source it; it needs bin/metaq.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
metaq=$PWD/bin/metaq
work=$(mktemp -d)
broker=

cleanup() {
	[ -z "$broker" ] || kill -9 "$broker" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

die() { echo "$0: $*" >&2; exit 1; }

# start DATA [FLAG…]: a broker in the background; sets broker (its process) and METAQ_SERVER.
start() {
	local data=$1 line
	shift
	rm -f "$work/ready"
	mkfifo "$work/ready"
	"$metaq" local --data "$data" --listen 127.0.0.1:0 --http off "$@" >"$work/ready" 2>>"$work/broker.log" &
	broker=$!
	read -r line <"$work/ready" || { cat "$work/broker.log" >&2; die "broker does not start"; }
	port=${line#*listen=127.0.0.1:}
	port=${port%% *}
	export METAQ_SERVER=meta://127.0.0.1:$port
}

# stop [SIGNAL]: ends the broker and waits for it.
stop() {
	kill "-${1:-TERM}" "$broker"
	wait "$broker" 2>/dev/null || [ "${1:-TERM}" != TERM ] || die "broker failed"
	broker=
}

# places turns the JSON of metaq get into the "PARTITION OFFSET ID" that metaq put prints.
places() { sed -E 's/^\{"topic":"[^"]*","partition":"([^"]*)","offset":([0-9]+),"id":(-?[0-9]+),.*/\1 \2 \3/'; }
