package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/broker"
	"github.com/metaq-go/metaq/broker/brokertest"
	"github.com/metaq-go/metaq/protocol"
)

// shell runs commands against a broker of its own.
type shell struct {
	*testing.T
	server string
	broker *brokertest.Broker
}

func newShell(t *testing.T, opts ...brokertest.Option) *shell {
	b := brokertest.Start(t, opts...)
	t.Setenv("METAQ_SERVER", "meta://"+b.Addr())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	return &shell{T: t, server: b.Addr(), broker: b}
}

// outcome is what a command left.
type outcome struct {
	code           int
	stdout, stderr string
}

func command(stdin string, args ...string) outcome {
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(stdin), &out, &errs)
	return outcome{code, out.String(), errs.String()}
}

// must runs a command that has to succeed and returns its standard output.
func (s *shell) must(stdin string, args ...string) string {
	s.Helper()
	o := command(stdin, args...)
	if o.code != exitDone {
		s.Fatalf("metaq %s: exit %d\n%s", strings.Join(args, " "), o.code, o.stderr)
	}
	return o.stdout
}

func TestPutPrintsPlacesInOrder(t *testing.T) {
	s := newShell(t, brokertest.Topic("test", 4))
	var in strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&in, "line %d\n", i)
	}
	lines := strings.Split(strings.TrimSuffix(s.must(in.String(), "put", "test"), "\n"), "\n")
	if len(lines) != 5000 {
		t.Fatalf("%d places printed, want 5000", len(lines))
	}
	// Each place, in the order of the input, holds the line of that number.
	stored := map[string]string{}
	for _, m := range decodeJSON(t, s.must("", "get", "test", "--json")) {
		stored[fmt.Sprintf("%s %d %d", m.Partition, m.Offset, m.ID)] = m.Payload
	}
	for i, place := range lines {
		if got, want := stored[place], fmt.Sprintf("line %d", i); got != want {
			t.Fatalf("place %d, %q, holds %q, want %q", i, place, got, want)
		}
	}
}

func decodeJSON(t *testing.T, text string) (all []jsonMessage) {
	dec := json.NewDecoder(strings.NewReader(text))
	for dec.More() {
		var m jsonMessage
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestPutWays(t *testing.T) {
	tests := []struct {
		name  string
		args  []string
		stdin string
		want  []string // payloads
	}{
		{"lines", nil, "a\nb\n", []string{"a", "b"}},
		{"last line without newline", nil, "a\nb", []string{"a", "b"}},
		{"empty lines", nil, "\n\na\n", []string{"", "", "a"}},
		{"carriage returns are kept", nil, "a\r\nb\r\n", []string{"a\r", "b\r"}},
		{"nothing", nil, "", nil},
		{"null", []string{"--null"}, "a\nb\x00c\x00", []string{"a\nb", "c"}},
		{"whole", []string{"--whole"}, "a\nb\n", []string{"a\nb\n"}},
		{"whole and empty", []string{"--whole"}, "", []string{""}},
		{"plain protocol", []string{"--plain"}, "a\nb\n", []string{"a", "b"}},
		{"long line", nil, strings.Repeat("x", 1<<20) + "\ny\n", []string{strings.Repeat("x", 1<<20), "y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newShell(t)
			s.must(tt.stdin, append([]string{"put", "test"}, tt.args...)...)
			var got []string
			for _, m := range decodeJSON(t, s.must("", "get", "test", "--json")) {
				got = append(got, m.Payload)
			}
			if fmt.Sprintf("%.50q", got) != fmt.Sprintf("%.50q", tt.want) {
				t.Errorf("got %.50q, want %.50q", got, tt.want)
			}
		})
	}
}

func TestPutPartitionAndKeyAndAttr(t *testing.T) {
	s := newShell(t, brokertest.Topic("test", 4))
	s.must("a\nb\n", "put", "test", "--partition", "2", "--attr", "héllo")
	s.must("a\nb\nc\n", "put", "test", "--key", "k", "--attr", "")
	parts := map[string]int{}
	for _, m := range decodeJSON(t, s.must("", "get", "test", "--json")) {
		if m.Attr == nil {
			t.Fatalf("attribute of %q is missing", m.Payload)
		}
		parts[m.Partition+*m.Attr]++
	}
	if parts["0-2héllo"] != 2 || len(parts) != 2 {
		t.Errorf("partitions and attributes: %v; want two in 0-2, three in one other", parts)
	}
	if o := command("a\n", "put", "test", "--partition", "4"); o.code != exitFailed || !strings.Contains(o.stderr, "partition") {
		t.Errorf("partition that is not there: %+v", o)
	}
}

func TestPutNamesTheFirstMessageThatFailed(t *testing.T) {
	s := newShell(t, brokertest.Topic("test", 1), brokertest.Configure(func(c *broker.Config) { c.MaxMessage = 1000 }))
	in := "one\ntwo\n" + strings.Repeat("x", 5000) + "\nfour\n"
	o := command(in, "put", "test", "--plain")
	if o.code != exitFailed || !strings.Contains(o.stderr, "message 3 was not acknowledged") {
		t.Errorf("got %+v", o)
	}
	if got := s.must("", "get", "test"); !strings.HasPrefix(got, "one\ntwo\n") || strings.Contains(got, "x") {
		t.Errorf("stored: %q", got)
	}
	if o := command("a\n", "put", "unknown"); o.code != exitFailed || !strings.Contains(o.stderr, "unknown") {
		t.Errorf("a topic that is not taken: %+v", o)
	}
}

func TestGet(t *testing.T) {
	s := newShell(t, brokertest.Topic("test", 2))
	places := strings.Fields(s.must("1\n2\n3\n", "put", "test", "--partition", "0"))
	s.must("4\n\xff\xfe\n", "put", "test", "--partition", "1")
	tests := []struct {
		args string
		want string
	}{
		{"test", "1\n2\n3\n4\n\xff\xfe\n"},
		{"test --partition 0-1", "4\n\xff\xfe\n"},
		{"test --max 2", "1\n2\n"},
		{"test --max 5", "1\n2\n3\n4\n\xff\xfe\n"},
		{"test --from latest", ""},
		{"test --partition 0-0 --from " + places[4], "2\n3\n"},
		{"test --from 2000-01-01", "1\n2\n3\n4\n\xff\xfe\n"},
		{"test --from 1h", "1\n2\n3\n4\n\xff\xfe\n"},
		{"test --from 2999-01-01T00:00:00Z", ""},
	}
	for _, tt := range tests {
		if got := s.must("", append([]string{"get"}, strings.Fields(tt.args)...)...); got != tt.want {
			t.Errorf("get %s: got %q, want %q", tt.args, got, tt.want)
		}
	}
	all := decodeJSON(t, s.must("", "get", "test", "--json"))
	if m := all[4]; !m.Base64 || m.Payload != "//4=" || m.Attr != nil || m.Topic != "test" || m.Partition != "0-1" {
		t.Errorf("bytes that are no UTF-8: %+v", m)
	}
}

func TestConsumeGoesOnWhereItWas(t *testing.T) {
	s := newShell(t, brokertest.Topic("test", 2))
	s.must("1\n2\n3\n", "put", "test", "--partition", "0")
	consume := func(args ...string) string {
		return s.must("", append([]string{"consume", "test", "--group", "g"}, args...)...)
	}
	if got := consume("--max", "2"); got != "1\n2\n" {
		t.Errorf("first two: %q", got)
	}
	if got := consume("--idle", "300ms"); got != "3\n" {
		t.Errorf("the rest: %q", got)
	}
	s.must("4\n", "put", "test")
	if got := consume("--max", "1", "--json"); !strings.Contains(got, `"payload":"4"`) {
		t.Errorf("what came later: %q", got)
	}
	if got := s.must("", "consume", "test", "--group", "other", "--from", "latest", "--idle", "300ms"); got != "" {
		t.Errorf("a group that begins at the end: %q", got)
	}
	for _, member := range []string{"a", "b", "a"} {
		got := s.must("", "consume", "test", "--group", "fan", "--broadcast", "--member", member, "--idle", "300ms")
		lines := len(strings.Fields(got))
		if want := map[string]int{"a": 4, "b": 4}[member]; lines != want {
			t.Errorf("member %s of a broadcast: %d messages, want %d", member, lines, want)
		}
		if member == "b" {
			break
		}
	}
	if got := s.must("", "consume", "test", "--group", "fan", "--broadcast", "--member", "a", "--idle", "300ms"); got != "" {
		t.Errorf("member a again: %q", got)
	}
}

func TestTail(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	write("a.log", "1\n2\nlast")
	args := []string{"tail", filepath.Join(dir, "*.log"), "--topic", "lines", "--idle", "300ms"}
	s.must("", args...)
	write("b.log", "3\n")
	s.must("", args...)
	if got := s.must("", "get", "lines"); got != "1\n2\nlast\n3\n" {
		t.Errorf("got %q", got)
	}
	config := filepath.Join(dir, "tail.yaml")
	write("tail.yaml", "state: "+filepath.Join(dir, "state")+"\nidle: 300ms\ninputs:\n  - topic: again\n    paths: ["+dir+"/*.log]\n")
	s.must("", "tail", "-f", config)
	if got := s.must("", "get", "again"); strings.Count(got, "\n") != 4 {
		t.Errorf("by file: got %q", got)
	}
	write("bad.yaml", "inputs:\n  - topic: x\n    pathz: [a]\n")
	o := command("", "tail", "-f", filepath.Join(dir, "bad.yaml"))
	if o.code != exitFailed || !regexp.MustCompile(`bad\.yaml.*\[3:\d+\]`).MatchString(o.stderr) || !strings.Contains(o.stderr, "pathz") {
		t.Errorf("a bad key must be named with file and line: %s", o.stderr)
	}
}

func TestStatsAndVersion(t *testing.T) {
	s := newShell(t)
	if got := s.must("", "stats"); !strings.HasPrefix(got, "STATS\r\npid ") || !strings.HasSuffix(got, "END\r\n") {
		t.Errorf("stats is not verbatim: %q", got)
	}
	if got := s.must("", "stats", "help"); !strings.Contains(got, "realtime Returns") {
		t.Errorf("stats help: %q", got)
	}
	var v versionInfo
	if err := json.Unmarshal([]byte(s.must("", "version", "--json")), &v); err != nil || v.Version != broker.Version ||
		v.Protocol != protocol.Level || strings.Join(v.Extensions, " ") != "append poll topics" {
		t.Errorf("version --json: %+v, %v", v, err)
	}
}

func TestWrongUse(t *testing.T) {
	t.Setenv("METAQ_SERVER", "")
	for _, args := range []string{
		"put", "get", "get a b", "consume test", "tail", "tail x", "tail x --topic t --from middle", "nosuch",
		"get test --from yesterday", "get test --max -1", "get test --nosuch", "put test --whole --null",
		"local --topic a:0", "local --topic a:b", "local --topic a --topic a:2", "local --id 1024", "local --zk 127.0.0.1:2181",
		"get test --server nowhere", "demo --seconds 0", "stats a b", "version x", "consume test --group g --from never",
	} {
		if o := command("", strings.Fields(args)...); o.code != exitUsage || !strings.Contains(o.stderr, "--help") || o.stdout != "" {
			t.Errorf("metaq %s: %+v, want exit 2 and a hint", args, o)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Example == "" || c.Short == "" {
			t.Errorf("metaq %s --help has no example or summary", c.Name())
		}
		if o := command("", c.Name(), "--help"); o.code != exitDone || !strings.Contains(o.stdout, "Examples:") {
			t.Errorf("metaq %s --help: %+v", c.Name(), o)
		}
	}
}

func TestNoBroker(t *testing.T) {
	for _, args := range []string{"put test", "get test", "stats", "consume test --group g"} {
		t.Setenv("XDG_STATE_HOME", t.TempDir())
		o := command("x\n", append(strings.Fields(args), "--server", "meta://127.0.0.1:1")...)
		if o.code != exitFailed || !strings.Contains(o.stderr, "metaq local") {
			t.Errorf("metaq %s without a broker: %+v; want exit 1 and what to do", args, o)
		}
	}
}
