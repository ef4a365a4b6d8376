"""Reads a Parquet file by two readers that share no code with the writer, and prints what they found as JSON.

usage: read.py FILE

A value is null, true or false, or a text of a letter for its kind, a colon, and the value: i an integer, f the bits of
a double, s a text, b bytes in hexadecimal, n an instant in nanoseconds since 1970, t the same to the microsecond, d a day. Lists are
lists; structs and maps are objects.
"""

import json
import struct
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def value(s):
    """Turns an Arrow scalar into what is printed."""
    t = s.type
    if isinstance(s, pa.ExtensionScalar):
        return value(s.value) if s.is_valid else None
    if not s.is_valid:
        return None
    if pa.types.is_boolean(t):
        return s.as_py()
    if pa.types.is_integer(t):
        return "i:%d" % s.as_py()
    if pa.types.is_floating(t):
        f = s.as_py()
        return "f:nan" if f != f else "f:" + struct.pack(">d", f).hex()
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "s:" + s.as_py()
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_fixed_size_binary(t):
        return "b:" + s.as_py().hex()
    if pa.types.is_timestamp(t):
        return "%s:%d" % ("n" if t.unit == "ns" else "t", s.value * NANOS[t.unit])
    if pa.types.is_date(t):
        return "d:" + s.as_py().isoformat()
    if pa.types.is_struct(t):
        return {k: value(v) for k, v in s.items()}
    if pa.types.is_map(t):
        return {value(e["key"]): value(e["value"]) for e in s.values}
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        return [value(e) for e in s.values]
    raise TypeError("a value of type %s" % t)


def rows(table):
    columns = {name: [value(s) for s in table.column(name)] for name in table.column_names}
    return [{name: columns[name][i] for name in columns} for i in range(table.num_rows)]


def main(name):
    table = pq.read_table(name)
    meta = pq.read_metadata(name)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'America/New_York'")
    found = con.execute("SELECT * FROM read_parquet(?)", [name])
    types = {d[0]: str(d[1]) for d in found.description}
    print(json.dumps({
        "pyarrow": rows(table),
        "types": {f.name: str(f.type) for f in table.schema},
        "groups": [meta.row_group(i).num_rows for i in range(meta.num_row_groups)],
        "codecs": sorted({meta.row_group(i).column(c).compression for i in range(meta.num_row_groups) for c in range(meta.num_columns)}),
        "metadata": {k.decode(): v.decode() for k, v in (meta.metadata or {}).items() if k != b"ARROW:schema"},
        "duckdb": rows(found.fetch_arrow_table()),
        "duckdb_types": types,
    }))


main(sys.argv[1])
