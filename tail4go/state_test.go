package tail4go

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/metaq-go/metaq/internal/vfs"
)

func drawEntry(t *rapid.T) entry {
	d := func(name string, most int) digest {
		n := rapid.IntRange(0, most).Draw(t, name)
		if n == 0 {
			return digest{}
		}
		return digest{n, "ab"}
	}
	e := entry{
		Input: rapid.String().Draw(t, "input"), Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino"),
		Seq: rapid.Uint64().Draw(t, "seq"), Path: escaped(rapid.SliceOf(rapid.Byte()).Draw(t, "path")), Now: "/a b",
		Pos: rapid.Int64Min(0).Draw(t, "pos"), Part: rapid.IntRange(0, 9).Draw(t, "part"),
		Size: rapid.Int64Min(0).Draw(t, "size"), Head: d("head", headBytes), Tail: d("tail", tailBytes),
		Done: rapid.Bool().Draw(t, "done"),
	}
	if rapid.Bool().Draw(t, "gone") {
		e.Gone = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "unix"), 0).UTC()
	}
	return e
}

func mustEncode(t interface{ Fatal(...any) }, entries []entry) []byte {
	lines, err := encodeEntries(entries)
	if err != nil {
		t.Fatal(err)
	}
	b, err := encodeState(lines, len(entries), time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStateRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawEntry), 0, 5).Draw(t, "entries")
		for i := range want {
			want[i].Input = strings.ToValidUTF8(want[i].Input, "?")
		}
		b := mustEncode(t, want)
		got, err := decodeState(b)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
		// Whatever byte is damaged, it is noticed.
		i := rapid.IntRange(0, len(b)-1).Draw(t, "byte")
		damaged := slices.Clone(b)
		damaged[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "mask"))
		if got, err := decodeState(damaged); err == nil && !slices.Equal(got, want) {
			t.Fatalf("byte %d damaged: got %+v", i, got)
		}
		if _, err := decodeState(b[:i]); err == nil {
			t.Fatalf("cut at %d: no error", i)
		}
	})
}

func TestStateVersion(t *testing.T) {
	body := "{\"tail4go\":2,\"saved\":\"2001-09-09T01:46:40Z\",\"files\":0}\n"
	_, err := decodeState([]byte(body + "{\"crc32c\":\"" + checksum([]byte(body)) + "\"}\n"))
	if !errors.Is(err, errVersion) {
		t.Errorf("got %v, want %v", err, errVersion)
	}
}

func FuzzDecodeState(f *testing.F) {
	f.Add(mustEncode(f, []entry{{Input: "t", Path: "/a", Now: "/b", Pos: 5, Head: digest{5, "ab"}}}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := decodeState(b)
		if err != nil {
			return
		}
		again, err := decodeState(mustEncode(t, entries))
		if err != nil || len(again) != len(entries) {
			t.Fatalf("got %d entries, %v, want %d", len(again), err, len(entries))
		}
	})
}

const stateDir = "/state"

func openTestStore(t *testing.T, fsys vfs.FS) (*store, []entry, error) {
	t.Helper()
	s, entries, err := openStore(fsys, stateDir, testLog(t))
	if err == nil {
		t.Cleanup(func() {
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, entries, err
}

func someEntries(pos int64) []entry {
	return []entry{{Input: "t", Dev: 1, Ino: 2, Path: "/a", Now: "/a", Pos: pos}}
}

// TestStoreCrash takes the power away at every call of a save: what is found is what was stored last or before.
func TestStoreCrash(t *testing.T) {
	for seed := range uint64(30) {
		fsys := vfs.NewMem()
		s, _, err := openTestStore(t, fsys)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		for pos := int64(1); pos < 6; pos++ {
			fsys.Before(func(vfs.Op) { checkCrash(t, fsys.Crash(rng), pos-1, pos) })
			if err := s.save(someEntries(pos)); err != nil {
				t.Fatal(err)
			}
			fsys.Before(nil)
			checkCrash(t, fsys.Crash(rng), pos, pos)
		}
	}
}

func checkCrash(t *testing.T, fsys *vfs.Mem, least, most int64) {
	t.Helper()
	s, entries, err := openStore(fsys, stateDir, testLog(t))
	if err != nil {
		t.Fatal("open after a crash: ", err)
	}
	defer s.close()
	var got int64
	if len(entries) > 0 {
		got = entries[0].Pos
	}
	if got < least || got > most {
		t.Fatalf("position is %d after a crash, want %d to %d", got, least, most)
	}
}

func writeState(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	if err := vfs.WriteFileAtomic(fsys, filepath.Join(stateDir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestStoreDamaged(t *testing.T) {
	for _, damage := range []string{"", "garbage", "{}\n"} {
		fsys := vfs.NewMem()
		s, _, err := openTestStore(t, fsys)
		if err != nil {
			t.Fatal(err)
		}
		for pos := range int64(3) {
			if err := s.save(someEntries(pos)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		writeState(t, fsys, stateName, damage)

		s, entries, err := openTestStore(t, fsys)
		if err != nil || len(entries) != 1 || entries[0].Pos != 1 {
			t.Fatalf("newest damaged: got %+v, %v, want the position before", entries, err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		list, err := fsys.ReadDir(stateDir)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(d os.DirEntry) bool { return strings.Contains(d.Name(), "damaged") })
		if i < 0 {
			t.Fatal("the damaged file was not set aside")
		}
		if b, err := vfs.ReadFile(fsys, filepath.Join(stateDir, list[i].Name())); err != nil || string(b) != damage {
			t.Errorf("set aside is %q, %v, want %q", b, err, damage)
		}

		writeState(t, fsys, stateName, damage)
		writeState(t, fsys, olderName, damage)
		for range 2 { // it doesn't get better by trying again
			if _, _, err := openTestStore(t, fsys); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), stateName) {
				t.Errorf("both damaged: got %v, want %v and the file's name", err, ErrDamaged)
			}
		}
	}
}

func TestStoreLock(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := Config{StateDir: dir, Inputs: []Input{{Topic: "t", Patterns: []string{dir + "/*"}}}, fs: fsys}
			a, err := Open(cfg, newRecorder(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(cfg, newRecorder(nil)); !errors.Is(err, ErrLocked) {
				t.Errorf("second agent: got %v, want %v", err, ErrLocked)
			}
			if err := errors.Join(a.Close(), a.Close()); err != nil {
				t.Fatal(err)
			}
			a, err = Open(cfg, newRecorder(nil))
			if err != nil {
				t.Fatal("after the first was closed: ", err)
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
