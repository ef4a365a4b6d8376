package parquet

import (
	"strings"
	"time"
)

const (
	finishedExt = ".parquet"
	partExt     = ".part"

	stampLayout = "20060102T150405.000000000Z"
)

// prefix begins the names of a sink's files in its folder.
type prefix string

func (p prefix) lock() string { return "." + string(p) + ".lock" }

func (p prefix) finished(stamp time.Time) string {
	return string(p) + "-" + stamp.UTC().Format(stampLayout) + finishedExt
}

func (p prefix) part(stamp time.Time) string { return "." + p.finished(stamp) + partExt }

// stamp returns the time in the name of one of the sink's files, and whether it is a temporary one; false for any other file.
func (p prefix) stamp(name string) (stamp time.Time, part, ok bool) {
	if hidden, found := strings.CutPrefix(name, "."); found {
		part = true
		if name, ok = strings.CutSuffix(hidden, partExt); !ok {
			return time.Time{}, false, false
		}
	}
	name, prefixed := strings.CutPrefix(name, string(p)+"-")
	name, suffixed := strings.CutSuffix(name, finishedExt)
	if !prefixed || !suffixed {
		return time.Time{}, false, false
	}
	stamp, err := time.Parse(stampLayout, name)
	if err != nil || stamp.Format(stampLayout) != name {
		return time.Time{}, false, false
	}
	return stamp, part, true
}
