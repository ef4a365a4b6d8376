#!/usr/bin/env bash
# While a million lines are being put, the broker is killed with -9. Every line that put printed as acknowledged must be
# there after a restart, with the same partition, offset and id. kill-rounds.sh [ROUNDS], default 50; the folder is kept
# from round to round.
source "$(dirname "$0")/lib.sh"
rounds=${1:-50}
total=0
: >"$work/acked"
for ((round = 1; round <= rounds; round++)); do
	start "$work/data" --topic test:4
	(seq 1 1000000 | "$metaq" put test >"$work/out" 2>"$work/err") &
	putter=$!
	sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
	stop KILL
	if wait "$putter"; then
		: # it was faster than the kill
	elif ! grep -q 'message .* was not acknowledged\|no broker can be reached\|connection' "$work/err"; then
		cat "$work/err" >&2
		die "round $round: put fails without naming a message:"
	fi
	# the last line may be cut off only if put itself was: it was not
	cat "$work/out" >>"$work/acked"
	total=$((total + $(wc -l <"$work/out")))
	if ((round % 5 == 0 || round == rounds)); then
		start "$work/data" --topic test:4
		"$metaq" get test --json | places | LC_ALL=C sort >"$work/there"
		stop
		LC_ALL=C sort "$work/acked" >"$work/acked.sorted"
		lost=$(LC_ALL=C comm -23 "$work/acked.sorted" "$work/there" | wc -l)
		[ "$(uniq -d "$work/acked.sorted" | wc -l)" -eq 0 ] || die "round $round: one place acknowledged twice"
		[ "$lost" -eq 0 ] || die "round $round: $lost acknowledged messages are not there"
		rm -rf "$work/data"
		: >"$work/acked"
	fi
done
[ "$total" -gt 0 ] || die "nothing was ever acknowledged: the rounds prove nothing"
echo "$0: $rounds rounds, $total acknowledged messages, none lost"
