package parquet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

// found is what testdata/read.py prints of a file.
type found struct {
	PyArrow     []map[string]any  `json:"pyarrow"`
	Types       map[string]string `json:"types"`
	Groups      []int             `json:"groups"`
	Codecs      []string          `json:"codecs"`
	Metadata    map[string]string `json:"metadata"`
	DuckDB      []map[string]any  `json:"duckdb"`
	DuckDBTypes map[string]string `json:"duckdb_types"`
}

// python has DuckDB and pyarrow; the environment variable METAQ_PYTHON names another than that of test/install.sh.
func python() string {
	if p := os.Getenv("METAQ_PYTHON"); p != "" {
		return p
	}
	return filepath.Join("..", "..", ".cache", "venv", "bin", "python")
}

// readers has DuckDB and pyarrow read a file.
func readers(tb testing.TB, name string) found {
	tb.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(python(), "testdata/read.py", name)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		tb.Fatalf("DuckDB and pyarrow read what was written. If they are not there, run test/install.sh, or\n"+
			"  python3 -m venv .cache/venv && .cache/venv/bin/pip install 'duckdb==1.4.*' pyarrow\n"+
			"in the module's root: %v\n%s", err, errs.String())
	}
	var f found
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		tb.Fatal(err)
	}
	return f
}

// printed returns a Go value as read.py prints what should be read of it.
func printed(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("i:%d", v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("i:%d", v.Uint())
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(v.Float()) {
			return "f:nan"
		}
		return fmt.Sprintf("f:%016x", math.Float64bits(v.Float()))
	case reflect.String:
		return "s:" + v.String()
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return printed(v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			return printedTime(v.Interface().(time.Time))
		}
		m := make(map[string]any)
		printFields(v, m)
		return m
	case reflect.Map:
		m := make(map[string]any)
		for it := v.MapRange(); it.Next(); {
			m[printed(it.Key()).(string)] = printed(it.Value())
		}
		return m
	}
	if v.Type().Elem().Kind() == reflect.Uint8 { // slice or array
		b := reflect.MakeSlice(reflect.TypeFor[[]byte](), v.Len(), v.Len())
		reflect.Copy(b, v)
		return "b:" + hex.EncodeToString(b.Bytes())
	}
	list := make([]any, 0)
	for i := range v.Len() {
		list = append(list, printed(v.Index(i)))
	}
	return list
}

func printedTime(t time.Time) string { return "n:" + strconv.FormatInt(t.UnixNano(), 10) }

func printFields(v reflect.Value, m map[string]any) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if name == "" {
			name = f.Name
		}
		switch {
		case f.Anonymous:
			printFields(v.Field(i), m)
			continue
		case name == "-" && f.Tag.Get("parquet") != "-,", !f.IsExported():
			continue
		}
		m[name] = printed(v.Field(i))
		nilable := v.Field(i).Kind() == reflect.Slice || v.Field(i).Kind() == reflect.Map
		switch {
		case nilable && strings.Contains(options, "optional") && v.Field(i).IsNil():
			m[name] = nil
		case strings.Contains(options, "date"):
			m[name] = "d:" + time.Unix(v.Field(i).Int()*86400, 0).UTC().Format(time.DateOnly)
		case v.Field(i).Kind() == reflect.Int64 && strings.Contains(options, "timestamp(microsecond"):
			m[name] = fmt.Sprintf("t:%d", v.Field(i).Int()*1000)
		case v.Field(i).Kind() == reflect.Slice && (strings.Contains(options, "string") || strings.Contains(options, "json")):
			m[name] = "s:" + string(v.Field(i).Bytes())
		case v.Field(i).Kind() == reflect.String && strings.Contains(options, "bytes"):
			m[name] = "b:" + hex.EncodeToString([]byte(v.Field(i).String()))
		}
	}
}

// compare compares what a reader found with the rows written.
func compare[T any](tb testing.TB, reader string, got []map[string]any, want []T) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%s reads %d rows, want %d", reader, len(got), len(want))
	}
	for i := range want {
		w := printed(reflect.ValueOf(want[i])).(map[string]any)
		if len(got[i]) != len(w) {
			tb.Errorf("%s finds the columns %v in row %d, want %v", reader, got[i], i, w)
		}
		for column := range w {
			if !same(got[i][column], w[column]) {
				tb.Errorf("%s, row %d, column %s: got %.200q, want %.200q", reader, i, column, fmt.Sprint(got[i][column]), fmt.Sprint(w[column]))
			}
		}
	}
}

// same allows for what readers and units are: an instant may be cut to the microsecond if the reader says that it has no finer ones.
func same(got, want any) bool {
	switch want := want.(type) {
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return false
		}
		for i := range want {
			if !same(g[i], want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(want) {
			return false
		}
		for k := range want {
			if !same(g[k], want[k]) {
				return false
			}
		}
		return true
	case string:
		g, _ := got.(string)
		micro, isMicro := strings.CutPrefix(g, "t:")
		nano, isTime := strings.CutPrefix(want, "n:")
		if isMicro && isTime {
			a, errA := strconv.ParseInt(micro, 10, 64)
			b, errB := strconv.ParseInt(nano, 10, 64)
			return errA == nil && errB == nil && a-b < 1000 && b-a < 1000
		}
	}
	return reflect.DeepEqual(got, want)
}
