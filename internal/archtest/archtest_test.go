package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/metaq-go/metaq"

// rule says what the packages of a folder may import of ours. The most specific folder that matches counts.
type rule struct {
	folder string   // and below, unless a more specific rule exists
	ours   []string // folders; "x/..." includes what is below
	others []string // modules that only this folder may import, beside the free ones
}

// rules is the table. What is not listed is not allowed.
var rules = []rule{
	{folder: "protocol"},
	{folder: "pipeline"},
	{folder: "pipeline/pipelinetest", ours: []string{"pipeline"}},
	{folder: "internal/vfs"},
	{folder: "internal/vfs/faultfs", ours: []string{"internal/vfs"}},
	{folder: "internal/coord"},
	{folder: "internal/coord/memcoord", ours: []string{"internal/coord"}},
	{folder: "internal/coord/coordtest", ours: []string{"internal/coord"}},
	{folder: "internal/archtest"},
	{folder: "client", ours: []string{"protocol", "internal/coord/...", "internal/vfs"}},
	{folder: "broker/store", ours: []string{"protocol", "internal/vfs"}},
	{folder: "broker/server", ours: []string{"protocol", "broker/store"}},
	{folder: "broker/admin", others: []string{"github.com/prometheus/client_golang"}},
	{
		folder: "broker", ours: []string{"protocol", "internal/...", "broker/..."},
		others: []string{"github.com/prometheus/client_golang"},
	},
	{folder: "broker/brokertest", ours: []string{"broker", "internal/..."}},
	{
		folder: "tail4go", ours: []string{"client", "protocol", "internal/vfs"},
		others: []string{"github.com/bmatcuk/doublestar", "github.com/goccy/go-yaml"},
	},
	{folder: "spout", ours: []string{"client", "pipeline"}},
	{folder: "connectors/file", ours: []string{"pipeline", "internal/vfs"}},
	{folder: "sinks/file", ours: []string{"pipeline", "internal/vfs"}},
	{
		folder: "sinks/parquet", ours: []string{"pipeline", "internal/vfs"},
		others: []string{"github.com/parquet-go/parquet-go"},
	},
	{folder: "sinks/sqldb", ours: []string{"pipeline"}},
	{folder: "cmd/metaq", ours: []string{"..."}, others: []string{
		"github.com/spf13/cobra", "github.com/schollz/progressbar", "github.com/goccy/go-yaml", "modernc.org/sqlite", "github.com/parquet-go/parquet-go",
		"github.com/prometheus/client_golang", "github.com/HdrHistogram/hdrhistogram-go",
	}},
	{folder: "examples", ours: publicFolders, others: []string{"modernc.org/sqlite"}},
	{folder: "test", ours: publicFolders},
}

var publicFolders = []string{
	"protocol", "client", "broker", "tail4go", "spout", "pipeline", "connectors/...", "sinks/...",
}

// free are modules that any folder may import: the standard library's own annex.
var free = []string{"golang.org/x/"}

// testOnly are modules for tests of any folder.
var testOnly = []string{"pgregory.net/rapid", "go.uber.org/goleak", "github.com/nxadm/tail", "modernc.org/sqlite", "github.com/parquet-go/parquet-go"}

func TestArrows(t *testing.T) {
	root := moduleRoot(t)
	seen := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, otherModule := os.Stat(filepath.Join(name, "go.mod"))
			if name != root && (otherModule == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		seen++
		rel, _ := filepath.Rel(root, name)
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range f.Imports {
			p, _ := strconv.Unquote(imp.Path.Value)
			if why := judge(filepath.ToSlash(rel), p); why != "" {
				t.Errorf("%s imports %s: %s", rel, p, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Fatalf("looked at %d files only: is this the module's root? %s", seen, root)
	}
}

// judge returns why file may not import p, or nothing.
func judge(file, p string) string {
	folder, isTest := path.Dir(file), strings.HasSuffix(file, "_test.go")
	r := find(folder)
	if r == nil {
		return "no rule for folder " + folder + "; add one to the table, and to ARCHITECTURE.md"
	}
	if of, ok := strings.CutPrefix(p, module+"/"); ok {
		switch {
		case of == folder || isTest && strings.HasSuffix(of, "test"):
			return ""
		case strings.HasSuffix(of, "test"):
			return "folders named …test are for tests"
		case isTest && (strings.HasPrefix(of, "internal/") || folder == "client" && of == "broker"):
			return ""
		case !matches(r.ours, of):
			return "not among what " + r.folder + " may import"
		}
		return ""
	}
	first, _, _ := strings.Cut(p, "/")
	if !strings.Contains(first, ".") || hasPrefix(free, p) || hasPrefix(r.others, p) || isTest && hasPrefix(testOnly, p) {
		return ""
	}
	return "an outside library that " + r.folder + " has no reason for"
}

func find(folder string) *rule {
	for f := folder; f != "."; f = path.Dir(f) {
		if i := slices.IndexFunc(rules, func(r rule) bool { return r.folder == f }); i >= 0 {
			return &rules[i]
		}
	}
	return nil
}

func matches(list []string, folder string) bool {
	return slices.ContainsFunc(list, func(allowed string) bool {
		below, ok := strings.CutSuffix(allowed, "...")
		return folder == allowed || ok && (strings.HasPrefix(folder+"/", below) && !strings.HasSuffix(folder, "test"))
	})
}

func hasPrefix(list []string, p string) bool {
	return slices.ContainsFunc(list, func(prefix string) bool { return strings.HasPrefix(p, prefix) })
}

// TestJudge makes sure that the table bites.
func TestJudge(t *testing.T) {
	tests := []struct {
		file, imports string
		allowed       bool
	}{
		{"protocol/reader.go", "fmt", true},
		{"protocol/reader.go", module + "/internal/vfs", false},
		{"pipeline/run.go", module + "/client", false},
		{"client/conn.go", module + "/broker", false},
		{"client/conn_test.go", module + "/broker/brokertest", true},
		{"client/conn.go", module + "/broker/brokertest", false},
		{"broker/server/put.go", module + "/broker/store", true},
		{"broker/server/put.go", module + "/client", false},
		{"broker/broker.go", module + "/client", false},
		{"broker/store/log.go", module + "/broker/server", false},
		{"spout/spout.go", module + "/pipeline", true},
		{"spout/spout.go", module + "/sinks/file", false},
		{"sinks/file/file.go", module + "/sinks/parquet", false},
		{"sinks/parquet/parquet.go", "github.com/parquet-go/parquet-go", true},
		{"sinks/file/file.go", "github.com/parquet-go/parquet-go", false},
		{"examples/quickstart/main.go", module + "/internal/vfs", false},
		{"examples/quickstart/main.go", module + "/broker", true},
		{"examples/quickstart/main.go", module + "/broker/store", false},
		{"cmd/metaq/put.go", module + "/client", true},
		{"cmd/metaq/put.go", module + "/pipeline/pipelinetest", false},
		{"unheard/of.go", "fmt", false},
	}
	for _, tt := range tests {
		if why := judge(tt.file, tt.imports); (why == "") != tt.allowed {
			t.Errorf("%s imports %s: got %q, allowed should be %v", tt.file, tt.imports, why, tt.allowed)
		}
	}
}

func moduleRoot(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above")
		}
	}
}
