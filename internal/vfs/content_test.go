package vfs

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func (c *content) all() []byte {
	b := make([]byte, c.size)
	return b[:c.readAt(b, 0)]
}

// TestFileDataProperties compares a file, its synced state and clones of both with plain bytes.
func TestFileDataProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type twin struct {
			data       fileData
			live, safe []byte
		}
		twins := []*twin{{}}
		positions := rapid.OneOf(rapid.IntRange(0, 10), rapid.IntRange(pageSize-5, pageSize+5), rapid.IntRange(0, 5*pageSize))
		one := rapid.Custom(func(t *rapid.T) *twin { return twins[rapid.IntRange(0, len(twins)-1).Draw(t, "which")] })
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				tw, off := one.Draw(t, "twin"), positions.Draw(t, "off")
				b := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, positions.Draw(t, "len"))
				tw.data.write(b, int64(off))
				if len(b) > 0 {
					tw.live = append(tw.live, make([]byte, max(0, off+len(b)-len(tw.live)))...)
					copy(tw.live[off:], b)
				}
			},
			"truncate": func(t *rapid.T) {
				tw, n := one.Draw(t, "twin"), positions.Draw(t, "n")
				tw.data.truncate(int64(n))
				tw.live = append(tw.live, make([]byte, max(0, n-len(tw.live)))...)[:n]
			},
			"sync": func(t *rapid.T) {
				tw := one.Draw(t, "twin")
				tw.data.sync()
				tw.safe = bytes.Clone(tw.live)
				if len(tw.data.edits) != 0 || len(tw.data.chunk) != 0 {
					t.Fatalf("%d edits after a sync", len(tw.data.edits))
				}
			},
			"clone": func(t *rapid.T) {
				if len(twins) == 4 {
					t.Skip("enough")
				}
				tw := one.Draw(t, "twin")
				twins = append(twins, &twin{tw.data.clone(), bytes.Clone(tw.live), bytes.Clone(tw.safe)})
			},
			"": func(t *rapid.T) {
				for i, tw := range twins {
					if got := tw.data.live.all(); !bytes.Equal(got, tw.live) {
						t.Fatalf("file %d: live content has %d bytes, want %d", i, len(got), len(tw.live))
					}
					if got := tw.data.safe.all(); !bytes.Equal(got, tw.safe) {
						t.Fatalf("file %d: synced content has %d bytes, want %d", i, len(got), len(tw.safe))
					}
					if got := replay(tw.safe, tw.data.edits); !bytes.Equal(got, tw.live) {
						t.Fatalf("file %d: the edits since the last sync do not lead to the live content", i)
					}
				}
			},
		})
	})
}

// replay makes the edits on plain bytes.
func replay(b []byte, edits []edit) []byte {
	b = bytes.Clone(b)
	for _, e := range edits {
		end := int(e.off) + len(e.data)
		b = append(b, make([]byte, max(0, end-len(b)))...)
		if e.truncate {
			b = b[:e.off]
		}
		copy(b[e.off:], e.data)
	}
	return b
}

// TestForgetKeepsLittle holds that one large unsynced batch does not pin its memory for ever.
func TestForgetKeepsLittle(t *testing.T) {
	var f fileData
	f.write(make([]byte, 1<<20), 0)
	f.sync()
	if cap(f.chunk) < 1<<20 {
		t.Errorf("the room of an ordinary batch was dropped: kept %d bytes", cap(f.chunk))
	}
	f.write(make([]byte, 32<<20), 0)
	f.sync()
	if cap(f.chunk) != 0 {
		t.Errorf("the room of a huge batch was kept: %d bytes", cap(f.chunk))
	}
}
