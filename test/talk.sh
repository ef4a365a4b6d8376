#!/usr/bin/env bash
# Talking to the broker by hand, with nc, good and bad.
source "$(dirname "$0")/lib.sh"
command -v nc >/dev/null || die "nc is missing: test/install.sh installs it"
start "$work/data" --topic test:4
say() { printf "$1" | timeout 5 nc -N 127.0.0.1 "$port" || true; }

# an answer of each kind, in order
got=$(say 'put test 0 5 0 7\r\nhelloget test g 0 0 100 8\r\nstats\r\nquit\r\n' | tr -d '\000\r')
grep -qE '^result 200 [0-9]+ 7$' <<<"$got" || die "put: $got"
grep -qE '^[0-9]+ 0 0value 25 8$' <<<"$got" || die "get: $got"
grep -q 'helloresult 200 [0-9]* 2147483647' <<<"$got" || die "stats: $got"
grep -q '^END$' <<<"$got" || die "end of stats: $got"

# garbage, half lines, negative and huge lengths: closed without an answer, and the broker lives on
for bad in 'help\r\n' 'GET / HTTP/1.1\r\nHost: x\r\n\r\n' '\r\n' 'put test 0 -1 0 7\r\n' 'put test 0 2147483647 0 7\r\n' \
	'put test 0 99999999999 0 7\r\n' 'put test 0 x 0 7\r\n' 'get test\r\n' 'version 1' 'put test 0 5 0 7\r\nhel' '\x00\xff\xfe\r\n'; do
	[ -z "$(say "$bad" | tr -d '\000')" ] || die "answered to: $bad"
	say 'version 1\r\n' | grep -q '^result 200' || die "broker is gone after: $bad"
done
head -c 300000 /dev/zero | tr '\0' a | timeout 5 nc -N 127.0.0.1 "$port" || true
head -c 1000000 /dev/urandom | timeout 5 nc -N 127.0.0.1 "$port" >/dev/null || true
say 'version 1\r\n' | grep -q '^result 200' || die "broker is gone after a long line"
stop
echo "$0: talks as it should, and survives garbage"
