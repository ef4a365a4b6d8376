package store

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitDir(t *testing.T) {
	tests := []struct {
		name      string
		topic     string
		partition int
		ok        bool
	}{
		{"orders-0", "orders", 0, true},
		{"orders-12", "orders", 12, true},
		{"meta-test-0", "meta-test", 0, true},
		{"a--1", "a-", 1, true},
		{"--0", "-", 0, true},
		{"1-2-3", "1-2", 3, true},
		{"äöü-7", "äöü", 7, true},
		{"t-1048576", "t", 1048576, true},
		{"t-1048577", "", 0, false},
		{"t-9223372036854775808", "", 0, false},
		{"transactions", "", 0, false},
		{"orders", "", 0, false},
		{"orders-", "", 0, false},
		{"-0", "", 0, false},
		{"-", "", 0, false},
		{"", "", 0, false},
		{"orders-x", "", 0, false},
		{"orders-01", "", 0, false},
		{"orders-+1", "", 0, false},
		{"orders- 1", "", 0, false},
		{"orders-1 ", "", 0, false},
		{"orders-1.bak", "", 0, false},
		{"orders-٣", "", 0, false},
	}
	for _, tt := range tests {
		topic, partition, ok := splitDir(tt.name)
		if topic != tt.topic || partition != tt.partition || ok != tt.ok {
			t.Errorf("splitDir(%q): got %q, %d, %t, want %q, %d, %t", tt.name, topic, partition, ok, tt.topic, tt.partition, tt.ok)
		}
	}
}

// TestDirNames: a folder's name leads back to its topic and partition, whatever valid topic that is.
func TestDirNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := rapid.StringN(1, -1, 200).Filter(func(s string) bool { return ValidTopic(s) == nil }).Draw(t, "topic")
		partition := rapid.IntRange(0, maxPartition).Draw(t, "partition")
		name := dirName(topic, partition)
		gotTopic, gotPartition, ok := splitDir(name)
		if !ok || gotTopic != topic || gotPartition != partition {
			t.Errorf("folder %q: got %q, %d, %t", name, gotTopic, gotPartition, ok)
		}
		if len(name) > 255 || strings.Contains(name, "/") {
			t.Errorf("no file system takes the name %q", name)
		}
	})
}

func TestSegmentNames(t *testing.T) {
	for offset, want := range map[int64]string{
		0:             "00000000000000000000.meta",
		83:            "00000000000000000083.meta",
		1073741850:    "00000000001073741850.meta",
		math.MaxInt64: "09223372036854775807.meta",
	} {
		if got := segmentName(offset); got != want {
			t.Errorf("segment at %d: got name %s, want %s", offset, got, want)
		}
	}
	tests := []struct {
		name  string
		start int64
		ok    bool
	}{
		{"00000000000000000000.meta", 0, true},
		{"00000000000000000083.meta", 83, true},
		{"0.meta", 0, true},
		{"83.meta", 83, true},
		{"00000000000000000000000000000083.meta", 83, true}, // 32 digits, as some texts have it
		{"9223372036854775807.meta", math.MaxInt64, true},
		{"9223372036854775808.meta", 0, false},
		{".meta", 0, false},
		{"-1.meta", 0, false},
		{"+1.meta", 0, false},
		{"1e3.meta", 0, false},
		{"1_0.meta", 0, false},
		{"0x10.meta", 0, false},
		{" 1.meta", 0, false},
		{"1 .meta", 0, false},
		{"٣.meta", 0, false},
		{"83", 0, false},
		{"83.META", 0, false},
		{"83.meta.arc", 0, false},
		{"83.meta.zip", 0, false},
		{"83.meta.corrupt-20260101T000000.000000000", 0, false},
		{"83.meta.tmp", 0, false},
	}
	for _, tt := range tests {
		start, ok := parseSegmentName(tt.name)
		if ok != tt.ok || ok && start != tt.start {
			t.Errorf("parseSegmentName(%q): got %d, %t, want %d, %t", tt.name, start, ok, tt.start, tt.ok)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Min(0).Draw(t, "offset")
		name := segmentName(offset)
		if start, ok := parseSegmentName(name); !ok || start != offset || len(name) != 25 {
			t.Errorf("segment at %d: name %s is read as %d, %t", offset, name, start, ok)
		}
	})
}

func TestValidTopic(t *testing.T) {
	for _, topic := range []string{"t", "meta-test", "a.b", "A_b-1", "主题", "x:y", "\xff\xfe", strings.Repeat("n", 200), "transactions", "-"} {
		if err := ValidTopic(topic); err != nil {
			t.Errorf("topic %q: got error %v", topic, err)
		}
	}
	bad := []string{"", strings.Repeat("n", 201), ".", "..", ".hidden", "a b", "a/b", `a\b`, "a*", "*", "a\tb", "a\r\nb", "a\x00", "\x7f", " a", "../x"}
	for _, topic := range bad {
		err := ValidTopic(topic)
		if err == nil {
			t.Errorf("topic %q: got no error", topic)
			continue
		}
		if !strings.Contains(err.Error(), "must") {
			t.Errorf("topic %q: error %q does not say what a topic must be", topic, err)
		}
		if len(topic) < 20 && topic != "" && !strings.Contains(err.Error(), strconv.Quote(topic)) {
			t.Errorf("topic %q: error %q does not name it", topic, err)
		}
	}
}
