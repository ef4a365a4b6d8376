#!/usr/bin/env bash
# metaq demo --log on real samples (../shared/data/loghub, where that is there) and on a file made to be nasty: as many rows
# as records, byte for byte, the file's own bytes put together again from SQLite.
source "$(dirname "$0")/lib.sh"
command -v sqlite3 >/dev/null || die "sqlite3 is missing: test/install.sh installs it"

printf 'plain\ncrlf\r\nlone\rcr\n\n\n\xff\xfe no utf-8\nnul\0inside\n\xf0\x9f\x98\x80 "quotes" \\ \x27\ttab\n' >"$work/nasty.log"
head -c 70000 /dev/zero | tr '\0' x >>"$work/nasty.log"
printf '\nthe last line has no newline' >>"$work/nasty.log"

samples=("$work/nasty.log")
if [ -d ../shared/data/loghub ]; then
	samples+=(../shared/data/loghub/*.log)
else
	echo "$0: ../shared/data/loghub is not there: only the made file is tried" >&2
fi
for log in "${samples[@]}"; do
	records=$(grep -ac '' "$log") # counts a last line without newline too
	rm -rf "$work/demo"
	"$metaq" demo --log "$log" --data "$work/demo" >"$work/ledger" || { cat "$work/ledger"; die "$log: the ledger does not agree"; }
	rows=$(sqlite3 "$work/demo/demo.db" 'SELECT count(*) FROM records')
	[ "$rows" -eq "$records" ] || die "$log: $records records, $rows rows"
	# the lines, in order, joined by newlines, are the file
	sqlite3 "$work/demo/demo.db" 'SELECT hex(line) FROM records ORDER BY pos' |
		python3 -c 'import sys; sys.stdout.buffer.write(b"\n".join(bytes.fromhex(l.strip()) for l in sys.stdin))' >"$work/joined"
	[ "$(tail -c 1 "$log" | od -An -tx1 | tr -d ' ')" != 0a ] || echo >>"$work/joined"
	cmp "$work/joined" "$log" || die "$log: the bytes differ"
done
echo "$0: ${#samples[@]} files, as many rows as records, byte for byte"
