package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/metaq-go/metaq/pipeline"
)

// ErrLineTooLong ends a spout that meets a line longer than Source.MaxLine.
var ErrLineTooLong = errors.New("line too long; raise MaxLine")

// Line is one line of a file.
type Line struct {
	File   string // the name given to Lines or Reader
	Offset int64  // of the line's first byte in the file
	Text   string // the bytes as they are, without the line feed; a carriage return stays
}

// Size returns the length of the text, for pipeline.BatchBytes.
func (l Line) Size() int { return len(l.Text) }

// Source is a pipeline.Source of lines; Lines and Reader make one. Set its fields before the topology runs.
//
// The files are shared among the tasks of the source's stage; in Broadcast mode each task reads all of them. The partition of a tuple is its
// file's name and the offset is the line's first byte. A last line without line feed is a line too. When everything is
// read the source is finished.
//
// No positions are kept: a topology that starts again reads everything again.
type Source struct {
	// Stage is the name of the source's stage. Default: "lines".
	Stage string
	// MaxLine is how many bytes a line may have. A longer one ends the spout with ErrLineTooLong: it is not cut, nor left out.
	// Default 16 MiB.
	MaxLine int

	inputs []input
	reader bool // made by Reader
	opened atomic.Bool
}

// input is something to be read from its beginning to its end.
type input struct {
	name string
	open func() (io.ReadCloser, error)
}

// Lines is the source of the lines of the files with these names, each read in order.
func Lines(names ...string) *Source {
	s := &Source{}
	for _, name := range names {
		s.inputs = append(s.inputs, input{name, func() (io.ReadCloser, error) { return os.Open(name) }})
	}
	return s
}

// Reader is the source of what r returns until io.EOF; name stands for the name of the file. It can be opened once, by one
// task. A topology that stops does not wait for a Read that blocks, and nobody else should read r afterwards: what was read
// ahead is gone.
func Reader(name string, r io.Reader) *Source {
	return &Source{inputs: []input{{name, func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}}, reader: true}
}

// Name returns the name of the source's stage.
func (s *Source) Name() string {
	if s.Stage == "" {
		return "lines"
	}
	return s.Stage
}

// Open makes the spout of one task. It returns an error if one of the task's files is missing or is a directory.
func (s *Source) Open(_ context.Context, t pipeline.Task) (pipeline.Spout[Line], error) {
	var mine []input
	for i, in := range s.inputs {
		if t.Mode == pipeline.Broadcast || i%t.Count == t.Index {
			mine = append(mine, in)
		}
	}
	if len(mine) > 0 && s.reader && s.opened.Swap(true) {
		return nil, fmt.Errorf("open %s: a reader can be read once, by one task", mine[0].name)
	}
	if !s.reader {
		for _, in := range mine {
			if err := readable(in.name); err != nil {
				return nil, err
			}
		}
	}
	sp := &spout{
		inputs: mine, maxLine: s.MaxLine, blocks: make(chan block, 2), stop: make(chan struct{}),
		done: make(chan struct{}), interruptible: !s.reader,
	}
	if sp.maxLine == 0 {
		sp.maxLine = defaultMaxLine
	}
	go sp.feed()
	return sp, nil
}

const defaultMaxLine = 16 << 20

func readable(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("open %s: is a directory; name its files", name)
	}
	return nil
}

// spout hands out lines of the blocks that feed, a goroutine, reads ahead.
type spout struct {
	inputs        []input
	maxLine       int
	blocks        chan block
	stop, done    chan struct{}
	interruptible bool // reading never blocks for long, so Close waits for feed

	now block // what is left of the block in hand
}

// Next hands out lines of one block.
func (s *spout) Next(ctx context.Context, dst []pipeline.Tuple[Line]) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.now.text == "" {
		var ok bool
		select {
		case s.now, ok = <-s.blocks:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if !ok {
			return 0, io.EOF
		}
		if s.now.err != nil {
			return 0, s.now.err
		}
	}
	n := 0
	for n < len(dst) && s.now.text != "" {
		line := s.now.cut()
		if len(line.Text) > s.maxLine {
			return n, tooLong(line.File, line.Offset, s.maxLine)
		}
		dst[n] = pipeline.Tuple[Line]{
			Value: line, Origin: pipeline.Origin{Partition: line.File, Offset: line.Offset},
		}
		n++
	}
	return n, nil
}

// Close ends the reading.
func (s *spout) Close(context.Context) error {
	close(s.stop)
	if s.interruptible {
		<-s.done
	}
	return nil
}

// feed reads the inputs one after the other.
func (s *spout) feed() {
	defer close(s.done)
	defer close(s.blocks)
	for _, in := range s.inputs {
		r, err := in.open()
		if err == nil {
			b := blockReader{name: in.name, max: s.maxLine, emit: s.emit}
			err = errors.Join(b.read(r), r.Close())
		}
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			_ = s.emit(block{err: err}) // stopped: nobody asks any more
			return
		}
	}
}

var errStopped = errors.New("stopped")

func (s *spout) emit(b block) error {
	select {
	case s.blocks <- b:
		return nil
	case <-s.stop:
		return errStopped
	}
}

var _ pipeline.Source[Line] = (*Source)(nil)
