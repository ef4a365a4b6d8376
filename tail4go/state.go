package tail4go

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

// stateVersion is the format of the stored positions: lines of JSON. The first is a stateHead, the last a stateFoot, each one
// between them an entry. Later versions may add fields; one that an older agent must not ignore raises the version.
const stateVersion = 1

type stateHead struct {
	Version int       `json:"tail4go"`
	Saved   time.Time `json:"saved"`
	Files   int       `json:"files"`
}

type stateFoot struct {
	CRC string `json:"crc32c"` // of all bytes before this line
}

// entry is what is remembered of a file.
type entry struct {
	Input string  `json:"input"`
	Dev   uint64  `json:"dev"`
	Ino   uint64  `json:"ino"`
	Born  int64   `json:"born,omitempty"` // nanoseconds since 1970, where the file system tells
	Seq   uint64  `json:"seq"`            // files of an input in the order in which they were found
	Path  escaped `json:"path"`           // first name
	Now   escaped `json:"now"`            // last name
	Pos   int64   `json:"pos"`            // everything before it is acknowledged
	Part  int     `json:"part,omitempty"`
	Size  int64   `json:"size"`
	Head  digest  `json:"head"`           // of the file's first bytes
	Tail  digest  `json:"tail"`           // of the bytes before Pos
	Done  bool    `json:"done,omitempty"` // renamed or deleted, and read to its end
	// Gone is when the file was seen last; zero while it is followed.
	Gone time.Time `json:"gone,omitzero"`
}

func (e *entry) id() fileID { return fileID{e.Dev, e.Ino} }

func (e *entry) position() position { return position{e.Pos, e.Part} }

// escaped is a name that JSON can carry whatever its bytes are, in the spelling of Attr.
type escaped string

// MarshalText implements encoding.TextMarshaler.
func (s escaped) MarshalText() ([]byte, error) { return appendEscaped(nil, string(s)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *escaped) UnmarshalText(b []byte) error {
	text, err := unescape(string(b))
	*s = escaped(text)
	return err
}

// encodeEntries returns the lines of entries, without head and foot: equal entries make equal bytes.
func encodeEntries(entries []entry) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range entries {
		if err := enc.Encode(&entries[i]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// encodeState puts head and foot to the lines of n entries.
func encodeState(lines []byte, n int, now time.Time) ([]byte, error) {
	head, err := json.Marshal(stateHead{stateVersion, now.UTC().Truncate(time.Second), n})
	if err != nil {
		return nil, err
	}
	b := append(head, '\n')
	b = append(b, lines...)
	foot, err := json.Marshal(stateFoot{checksum(b)})
	if err != nil {
		return nil, err
	}
	return append(append(b, foot...), '\n'), nil
}

func checksum(b []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

// errVersion means that a state is whole, but from a later version.
var errVersion = errors.New("stored positions were written by a later version")

// decodeState reads a state. Whatever is wrong with it makes an error.
func decodeState(b []byte) ([]entry, error) {
	body := bytes.TrimSuffix(b, []byte("\n"))
	if len(body) == len(b) {
		return nil, errors.New("it does not end in a whole line")
	}
	body = body[:bytes.LastIndexByte(body, '\n')+1]
	var foot stateFoot
	if err := json.Unmarshal(b[len(body):], &foot); err != nil {
		return nil, fmt.Errorf("last line: %w", err)
	}
	if got := checksum(body); got != foot.CRC {
		return nil, fmt.Errorf("checksum is %s, %q was stored", got, foot.CRC)
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, len(body)+1)
	var head stateHead
	if !lines.Scan() {
		return nil, errors.New("no first line")
	}
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
		return nil, fmt.Errorf("first line: %w", err)
	}
	if head.Version != stateVersion {
		return nil, fmt.Errorf("%w: format %d, this agent knows %d", errVersion, head.Version, stateVersion)
	}
	var entries []entry
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("entry %d: %w", len(entries)+1, err)
		}
		if e.Pos < 0 || e.Part < 0 || !e.Head.valid(headBytes) || !e.Tail.valid(tailBytes) {
			return nil, fmt.Errorf("entry %d: a number is out of range", len(entries)+1)
		}
		entries = append(entries, e)
	}
	if len(entries) != head.Files {
		return nil, fmt.Errorf("%d entries, %d announced", len(entries), head.Files)
	}
	return entries, nil
}
