package vfs_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/metaq-go/metaq/internal/vfs"
)

// possible is what a file may hold after a crash, worked out from the calls made on it and nothing of Mem's own.
type possible struct {
	synced           []byte
	live             []byte
	bytes            []byteSet // per position: what an unsynced call may have put there
	minSize, maxSize int
}

type byteSet [4]uint64

func (s *byteSet) add(c byte)      { s[c/64] |= 1 << (c % 64) }
func (s *byteSet) has(c byte) bool { return s[c/64]&(1<<(c%64)) != 0 }

func (p *possible) reach(n int) {
	for len(p.bytes) < n {
		p.bytes = append(p.bytes, byteSet{})
	}
	p.maxSize = max(p.maxSize, n)
}

func (p *possible) write(b []byte, off int) {
	p.reach(off + len(b))
	if gap := off + len(b) - len(p.live); gap > 0 {
		p.live = append(p.live, make([]byte, gap)...)
	}
	copy(p.live[off:], b)
	for i, c := range b {
		p.bytes[off+i].add(c)
	}
	for i := min(len(p.synced), off); i < off+len(b); i++ {
		p.bytes[i].add(0) // a gap, or grown without data, or grown again after a truncation
	}
}

func (p *possible) truncate(n int) {
	p.reach(max(n, len(p.live)))
	for i := min(n, len(p.live)); i < p.maxSize; i++ {
		p.bytes[i].add(0) // cut off, then grown again
	}
	p.minSize = min(p.minSize, n)
	if n > len(p.live) {
		p.live = append(p.live, make([]byte, n-len(p.live))...)
	}
	p.live = p.live[:n]
}

func (p *possible) sync() {
	p.synced = slices.Clone(p.live)
	p.minSize, p.maxSize = len(p.synced), len(p.synced)
	p.bytes = nil
	p.reach(len(p.synced))
}

// judge returns what is wrong with content, or nothing.
func (p *possible) judge(content []byte) string {
	if len(content) < p.minSize || len(content) > p.maxSize {
		return fmt.Sprintf("size is %d, possible are %d to %d", len(content), p.minSize, p.maxSize)
	}
	for at := 0; at < len(content); at += 128 {
		block := content[at:min(at+128, len(content))]
		if end := at + len(block); end <= len(p.synced) && bytes.Equal(block, p.synced[at:end]) || end <= len(p.live) && bytes.Equal(block, p.live[at:end]) {
			continue // saves most of the time
		}
		for i, c := range block {
			i += at
			if i < len(p.synced) && c == p.synced[i] || p.bytes[i].has(c) || i >= len(p.synced) && c == 0 {
				continue
			}
			return fmt.Sprintf("byte %d is %q, which was neither synced nor written since", i, c)
		}
	}
	return ""
}

// TestCrashKeepsWhatWasSynced makes random calls on a file and looks at what each of 10 000 crashes left of it.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	const histories, calls, seeds = 100, 20, 5 // a crash after each call
	for history := range histories {
		rng := seeded(history)
		m := vfs.NewMem()
		f := open(t, m, "/log", os.O_RDWR|os.O_CREATE)
		check(t, m.SyncDir("/"))
		var want possible
		var did []string
		for call := range calls {
			switch what := rng.IntN(10); {
			case what < 6:
				b := bytes.Repeat([]byte{byte('a' + call)}, 1+rng.IntN(3000))
				off := rng.IntN(len(want.live) + 1)
				switch rng.IntN(3) {
				case 0:
					off = len(want.live)
				case 1:
					off += rng.IntN(2000)
				}
				write(t, f, string(b), int64(off))
				want.write(b, off)
				did = append(did, fmt.Sprintf("write %d %q at %d", len(b), b[0], off))
			case what < 8:
				n := rng.IntN(len(want.live) + 1000)
				check(t, f.Truncate(int64(n)))
				want.truncate(n)
				did = append(did, fmt.Sprint("truncate ", n))
			default:
				check(t, f.Datasync())
				want.sync()
				did = append(did, "sync")
			}
			for seed := range seeds {
				crashed := m.Crash(seeded(call*seeds + seed))
				content, err := vfs.ReadFile(crashed, "/log")
				if err != nil {
					t.Fatal(err)
				}
				if wrong := want.judge(content); wrong != "" {
					t.Fatalf("history %d, crash %d after\n%s:\n%s", history, seed, strings.Join(did, "\n"), wrong)
				}
			}
		}
		if got, err := vfs.ReadFile(m, "/log"); err != nil || !bytes.Equal(got, want.live) {
			t.Fatalf("history %d: the original has changed: %v", history, err)
		}
	}
}

// TestCrashContent holds that the crashes of a file are as bad as the package comment says: each outcome occurs, and
// no other.
func TestCrashContent(t *testing.T) {
	sector := func(c string) string { return strings.Repeat(c, 512) }
	zeros := sector("\x00")
	tests := []struct {
		what  string
		calls func(f vfs.File)
		want  []string // all must occur
		only  bool     // nothing else may
	}{
		{
			"nothing unsynced", func(f vfs.File) { write(t, f, "old", 0); check(t, f.Sync()) },
			[]string{"old"},
			true,
		},
		{
			"one small write over synced bytes", func(f vfs.File) {
				write(t, f, "old old", 0)
				check(t, f.Datasync())
				write(t, f, "NEW", 4)
			},
			[]string{"old old", "old NEW"},
			true,
		},
		{
			"two writes, any order", func(f vfs.File) {
				write(t, f, "oldold", 0)
				check(t, f.Datasync())
				write(t, f, "ONE", 0)
				write(t, f, "TWO", 3)
			},
			[]string{"oldold", "ONEold", "oldTWO", "ONETWO"},
			true,
		},
		{
			"a write over a write", func(f vfs.File) {
				write(t, f, "0", 0)
				check(t, f.Datasync())
				write(t, f, "1", 0)
				write(t, f, "2", 0)
			},
			[]string{"0", "1", "2"},
			true,
		},
		{
			"torn anywhere between sectors", func(f vfs.File) {
				write(t, f, sector("a")+sector("a")+sector("a"), 0)
				check(t, f.Datasync())
				write(t, f, sector("B")+sector("B"), 256)
			},
			[]string{
				sector("a") + sector("a") + sector("a"),
				sector("a")[:256] + sector("B") + sector("B") + sector("a")[:256],
				sector("a")[:256] + sector("B")[:256] + sector("a") + sector("a"),
				sector("a")[:256] + sector("B") + sector("B")[:256] + sector("a"),
				sector("a") + sector("B") + sector("a"),
				sector("a") + sector("a") + sector("B")[:256] + sector("a")[:256],
				sector("a") + sector("B") + sector("B")[:256] + sector("a")[:256],
				sector("a")[:256] + sector("B")[:256] + sector("a") + sector("B")[:256] + sector("a")[:256],
			},
			true,
		},
		{
			"append", func(f vfs.File) {
				write(t, f, "old", 0)
				check(t, f.Datasync())
				write(t, f, "NEW", 3)
			},
			[]string{"old", "oldNEW", "old\x00\x00\x00"},
			true,
		},
		{
			"long append", func(f vfs.File) { write(t, f, sector("A")+sector("B"), 0) },
			[]string{
				"", sector("A"), sector("A") + sector("B"), zeros + sector("B"),
				zeros, zeros + zeros, sector("A") + zeros,
			},
			true,
		},
		{
			"two appends, the second without the first", func(f vfs.File) {
				write(t, f, "one", 0)
				write(t, f, "two", 3)
			},
			[]string{"", "one", "onetwo", "\x00\x00\x00two", "\x00\x00\x00", "one\x00\x00\x00", "\x00\x00\x00\x00\x00\x00"},
			true,
		},
		{
			"truncation", func(f vfs.File) {
				write(t, f, "oldold", 0)
				check(t, f.Datasync())
				check(t, f.Truncate(3))
			},
			[]string{"oldold", "old"},
			true,
		},
		{
			"truncation and a write", func(f vfs.File) {
				write(t, f, "oldold", 0)
				check(t, f.Datasync())
				check(t, f.Truncate(0))
				write(t, f, "NEW", 0)
			},
			[]string{"oldold", "", "NEW", "NEWold", "\x00\x00\x00"},
			true,
		},
		{
			"synced truncation", func(f vfs.File) {
				write(t, f, "oldold", 0)
				check(t, f.Datasync())
				check(t, f.Truncate(3))
				check(t, f.Datasync())
			},
			[]string{"old"},
			true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			m := vfs.NewMem()
			f := open(t, m, "/f", os.O_RDWR|os.O_CREATE)
			check(t, m.SyncDir("/"))
			tt.calls(f)
			seen := make(map[string]bool)
			crashes(m, 2000, func(_ int, crashed *vfs.Mem) {
				content, err := vfs.ReadFile(crashed, "/f")
				check(t, err)
				seen[string(content)] = true
			})
			for _, want := range tt.want {
				if !seen[want] {
					t.Errorf("never left %q", want)
				}
				delete(seen, want)
			}
			for other := range seen {
				if tt.only {
					t.Errorf("left %q", other)
				}
			}
		})
	}
}
