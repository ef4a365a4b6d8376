package file

import (
	"strings"
	"time"
)

const (
	partExt = ".part"
	tornExt = ".torn"

	stampLayout = "20060102T150405.000000000Z"
)

// names knows the names of a sink's files in its folder.
type names struct{ prefix, ext string }

func (n names) lock() string { return "." + n.prefix + ".lock" }

func (n names) finished(stamp time.Time) string { return n.stem(stamp) + n.ext }
func (n names) part(stamp time.Time) string     { return "." + n.finished(stamp) + partExt }
func (n names) torn(stamp time.Time) string     { return n.stem(stamp) + tornExt }
func (n names) stem(stamp time.Time) string     { return n.prefix + "-" + stamp.UTC().Format(stampLayout) }

// stamp returns the time in the name of one of the sink's files, and whether it is an unfinished one; false for any other file.
func (n names) stamp(name string) (stamp time.Time, part, ok bool) {
	rest, part := strings.CutPrefix(name, ".")
	if part {
		if rest, ok = strings.CutSuffix(rest, n.ext+partExt); !ok {
			return time.Time{}, false, false
		}
	} else {
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, n.ext), tornExt)
	}
	rest, ok = strings.CutPrefix(rest, n.prefix+"-")
	if !ok {
		return time.Time{}, false, false
	}
	stamp, err := time.Parse(stampLayout, rest)
	if err != nil || stamp.Format(stampLayout) != rest {
		return time.Time{}, false, false
	}
	return stamp, part, true
}
