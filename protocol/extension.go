package protocol

import (
	"strconv"
	"strings"
)

// Level is the release of MetaQ that metaq speaks; it opens the answer to version.
const Level = "1.4.6.2"

// Extensions is what a broker says of itself in its answer to version. MetaQ's own clients ignore the text, so it is the
// one place where a broker can announce more than MetaQ without disturbing anybody:
//
//	1.4.6.2 metaq/0.1.0 id=0 ext=append,poll,topics
type Extensions struct {
	Version  string // of metaq; empty if the broker is MetaQ in Java
	BrokerID int    // -1 if not told
	Verbs    []string
}

// Has reports whether the broker speaks the verb.
func (x *Extensions) Has(v Verb) bool {
	name := v.String()
	for _, have := range x.Verbs {
		if have == name {
			return true
		}
	}
	return false
}

// String returns the answer to version.
func (x *Extensions) String() string {
	return Level + " metaq/" + x.Version + " id=" + strconv.Itoa(x.BrokerID) + " ext=" + strings.Join(x.Verbs, ",")
}

// ParseExtensions reads an answer to version. Any text is valid; what is not understood is ignored, so that later
// brokers may say more.
func ParseExtensions(text string) Extensions {
	x := Extensions{BrokerID: -1}
	for _, word := range strings.Fields(text) {
		if v, ok := strings.CutPrefix(word, "metaq/"); ok {
			x.Version = v
		} else if v, ok := strings.CutPrefix(word, "id="); ok {
			if id, err := strconv.Atoi(v); err == nil && id >= 0 && id <= MaxBrokerID {
				x.BrokerID = id
			}
		} else if v, ok := strings.CutPrefix(word, "ext="); ok && v != "" {
			x.Verbs = strings.Split(v, ",")
		}
	}
	return x
}
