package tail4go

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/metaq-go/metaq/internal/vfs"
)

// Config says what an agent ships and how. The fields without a default are required.
type Config struct {
	Inputs   []Input
	StateDir string // keeps the positions; one agent at a time may use it; made if it is not there

	Host         string        // in each record's attribute; default the machine's name
	PollInterval time.Duration // a quiet file is looked at so often, a busy one up to 50 times as often; default 250 ms
	ScanInterval time.Duration // new and renamed files are looked for so often, less often where a scan takes long; default 1 s
	SaveInterval time.Duration // changed positions are stored so often; default 1 s
	RotateWait   time.Duration // a file that lost its name is read until it has not grown for so long; default 5 s
	Retention    time.Duration // positions of files that are gone are kept for so long; default 24 h
	StopWait     time.Duration // Run waits at most so long for acknowledgements when it ends; default 10 s

	// PartialAfter delivers the unfinished last line of a file that has not grown for so long, marked by Attr.More; default:
	// it is held back until its end is written, or until the file is rotated away or deleted.
	PartialAfter time.Duration
	// Idle lets Run end when everything read is acknowledged and nothing new came for so long; default: it runs until its
	// context ends.
	Idle time.Duration
	// IdlePartial delivers unfinished last lines before Run ends by Idle: for files that are complete as they are.
	IdlePartial bool
	// KeepCR keeps the CR of a line that ends in CR LF, so that payloads are the file's bytes; default: it is taken off.
	KeepCR bool
	// MaxLine is the longest payload in bytes; a longer line is sent in pieces, numbered by Attr.Part; default 1 MiB, at
	// least 16.
	MaxLine int

	Logger *slog.Logger // default: nothing is logged

	fs vfs.FS // tests put the state on another file system
}

// Input is a set of files whose lines go to one topic.
type Input struct {
	// Name tells the inputs of an agent apart, also in its state: it must not change. Default: Topic.
	Name string
	// Patterns name the files, with * ? [a-z] {a,b} and ** for any number of folders; relative ones start at the working
	// directory. Links are followed to the file they lead to. See QuotePattern for plain names.
	Patterns []string
	// Exclude are patterns of files to leave out.
	Exclude []string
	Topic   string
	// Start says where to begin in files that are there when the agent sees their input for the first time.
	Start Start
	// Key says which lines stay together, in order, in one partition: KeyFile (the default), KeyNone, or a regular
	// expression, whose first group (or whole match) in the line is its key; a line that does not match has the file's key.
	Key string
}

// Values of Input.Key.
const (
	KeyFile = "file" // the lines of a file, and of those that follow it under its name, one after another
	KeyNone = "none" // no order; partitions take turns
)

// Start is a place to begin in a file.
type Start int8

// Values of Start. They matter only for files that are there at the very first start: later ones are read from their
// beginning, known ones from where they were left.
const (
	Begin Start = iota
	End         // behind the last complete line
)

func (c Config) withDefaults() (Config, error) {
	if c.Host == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("find the host's name (or set Host): %w", err)
		}
		c.Host = host
	}
	if c.StateDir != "" {
		dir, err := filepath.Abs(c.StateDir)
		if err != nil {
			return c, fmt.Errorf("find the state directory: %w", err)
		}
		c.StateDir = dir
	}
	c.PollInterval = cmp.Or(c.PollInterval, 250*time.Millisecond)
	c.ScanInterval = cmp.Or(c.ScanInterval, time.Second)
	c.SaveInterval = cmp.Or(c.SaveInterval, time.Second)
	c.RotateWait = cmp.Or(c.RotateWait, 5*time.Second)
	c.Retention = cmp.Or(c.Retention, 24*time.Hour)
	c.StopWait = cmp.Or(c.StopWait, 10*time.Second)
	c.MaxLine = cmp.Or(c.MaxLine, 1<<20)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.fs == nil {
		c.fs = vfs.OS()
	}
	inputs := make([]Input, len(c.Inputs))
	for i, in := range c.Inputs {
		inputs[i] = in.withDefaults()
	}
	c.Inputs = inputs
	return c, c.validate()
}

func (c Config) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.StateDir == "" {
		fail("no StateDir: the agent has to keep its positions somewhere")
	}
	if len(c.Inputs) == 0 {
		fail("no Inputs")
	}
	for _, d := range []time.Duration{
		c.PollInterval, c.ScanInterval, c.SaveInterval, c.RotateWait, c.Retention, c.StopWait, c.PartialAfter, c.Idle,
	} {
		if d < 0 {
			fail("a duration is negative: %v", d)
		}
	}
	if c.MaxLine < minLine {
		fail("MaxLine is %d; it must be at least %d", c.MaxLine, minLine)
	}
	names := make(map[string]bool)
	for i, in := range c.Inputs {
		if err := in.validate(); err != nil {
			fail("input %d (%s): %w", i+1, in.Name, err)
		}
		if names[in.Name] {
			fail("two inputs are named %q: give each a Name of its own", in.Name)
		}
		names[in.Name] = true
	}
	return errors.Join(errs...)
}

func (in Input) withDefaults() Input {
	in.Name = cmp.Or(in.Name, in.Topic)
	in.Key = cmp.Or(in.Key, KeyFile)
	in.Patterns = absolute(in.Patterns)
	in.Exclude = absolute(in.Exclude)
	return in
}

func (in Input) validate() error {
	if in.Topic == "" {
		return errors.New("no Topic")
	}
	if len(in.Patterns) == 0 {
		return errors.New("no Patterns")
	}
	for _, list := range [][]string{in.Patterns, in.Exclude} {
		for _, p := range list {
			if !doublestar.ValidatePathPattern(p) {
				return fmt.Errorf("pattern %q is malformed: close its brackets and braces, or put \\ before them", p)
			}
		}
	}
	if in.Start != Begin && in.Start != End {
		return fmt.Errorf("unknown Start %d", in.Start)
	}
	_, err := in.keyPattern()
	return err
}

// keyPattern returns the expression that finds a line's key; nil: it has none of its own.
func (in Input) keyPattern() (*regexp.Regexp, error) {
	if in.Key == KeyFile || in.Key == KeyNone {
		return nil, nil
	}
	re, err := regexp.Compile(in.Key)
	if err != nil {
		return nil, fmt.Errorf("key is neither %q nor %q nor a regular expression: %w", KeyFile, KeyNone, err)
	}
	return re, nil
}

// QuotePattern returns a pattern that matches the file of exactly this name.
func QuotePattern(name string) string {
	return strings.NewReplacer(
		`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`,
	).Replace(name)
}

// absolute makes patterns absolute. A folder in front of them is the working directory, whose own name is no pattern.
func absolute(patterns []string) []string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		if !filepath.IsAbs(p) {
			if wd, err := os.Getwd(); err == nil {
				p = filepath.Join(QuotePattern(wd), p)
			}
		}
		out[i] = filepath.Clean(p)
	}
	return out
}
