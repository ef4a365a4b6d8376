#!/usr/bin/env bash
# A million lines go in and come out the same, also when the broker is killed with -9 between the two.
source "$(dirname "$0")/lib.sh"
seq 1 1000000 >"$work/want"
for signal in none KILL; do
	start "$work/data.$signal" --topic test:4
	"$metaq" put test --quiet <"$work/want"
	if [ "$signal" = KILL ]; then
		stop KILL
		start "$work/data.$signal" --topic test:4
	fi
	"$metaq" get test | sort -n | cmp - "$work/want" || die "signal $signal: output differs"
	stop
done
echo "$0: a million lines the same, with and without kill -9"
