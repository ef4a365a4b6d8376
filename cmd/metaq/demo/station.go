package demo

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"slices"
	"sync"
)

// truth is the lines that were written, read from the files by nothing but their newlines.
type truth struct {
	lines []truthLine // sorted by identity
	seed  maphash.Seed
}

type truthLine struct {
	id  int64
	sum uint64 // of its bytes
}

// readTruth reads the lines of files. identify returns what tells a line from all others, given its file's position.
func readTruth(names []string, identify func(line []byte, pos int64) (int64, error)) (*truth, error) {
	t := &truth{seed: maphash.MakeSeed()}
	for _, name := range names {
		if err := t.readFile(name, identify); err != nil {
			return nil, fmt.Errorf("count the lines of %s: %w", name, err)
		}
	}
	slices.SortFunc(t.lines, func(a, b truthLine) int { return cmp.Compare(a.id, b.id) })
	for i := 1; i < len(t.lines); i++ {
		if t.lines[i].id == t.lines[i-1].id {
			return nil, fmt.Errorf("line %d was written twice", t.lines[i].id)
		}
	}
	return t, nil
}

func (t *truth) readFile(name string, identify func([]byte, int64) (int64, error)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	for pos := int64(0); ; {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		text := bytes.TrimSuffix(line, []byte{'\n'})
		id, err := identify(text, pos)
		if err != nil {
			return err
		}
		t.lines = append(t.lines, truthLine{id, maphash.Bytes(t.seed, text)})
		pos += int64(len(line))
	}
}

// station is a place that records come by: every record is held against the truth. Safe for concurrent use.
type station struct {
	truth *truth

	mu      sync.Mutex
	seen    []bool // by index in truth
	records int64
	present int64 // lines seen
	differs int64 // records whose bytes are not those of their line
}

func newStation(t *truth) *station { return &station{truth: t, seen: make([]bool, len(t.lines))} }

// tally is what a station has to say.
type tally struct {
	Records int64 `json:"records"`
	Missing int64 `json:"missing"` // lines without a record
	Doubled int64 `json:"doubled"` // records more than one for a line, and records of no line
	Differs int64 `json:"differs"` // records whose bytes are not those of their line
}

// ok reports whether the station had every line once.
func (t tally) ok() bool { return t.Missing == 0 && t.Doubled == 0 && t.Differs == 0 }

// add counts a record. A nil line is not compared.
func (s *station) add(id int64, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records++
	i, found := slices.BinarySearchFunc(s.truth.lines, id, func(l truthLine, id int64) int { return cmp.Compare(l.id, id) })
	if !found {
		return
	}
	if !s.seen[i] {
		s.seen[i] = true
		s.present++
	}
	if line != nil && maphash.Bytes(s.truth.seed, line) != s.truth.lines[i].sum {
		s.differs++
	}
}

func (s *station) tally() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return tally{
		Records: s.records, Missing: int64(len(s.seen)) - s.present, Doubled: s.records - s.present, Differs: s.differs,
	}
}

// witness keeps the identities of what a sink was given until the truth is known. Safe for concurrent use.
type witness struct {
	mu  sync.Mutex
	ids []int64
}

func (w *witness) add(rows []record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range rows {
		w.ids = append(w.ids, rows[i].identity())
	}
}

func (w *witness) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.ids))
}

// testify returns what the witness saw, held against the truth.
func (w *witness) testify(t *truth) tally {
	s := newStation(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range w.ids {
		s.add(id, nil)
	}
	return s.tally()
}
