package coord

import (
	"fmt"
	"strconv"
	"strings"
)

// Layout is where MetaQ keeps things in the tree, below a root (coordination.md 1.3). The zero value has the root /meta.
type Layout struct{ Root string }

func (l Layout) root() string {
	if l.Root == "" {
		return "/meta"
	}
	return "/" + strings.Trim(l.Root, "/")
}

func (l Layout) group(group string) string { return l.root() + "/consumers/" + group }

// Members is the parent of a group's members.
func (l Layout) Members(group string) string { return l.group(group) + "/ids" }

// Member is the ephemeral node of one member; its data are the topics it consumes, joined by commas.
func (l Layout) Member(group, id string) string { return l.Members(group) + "/" + id }

// Owner is the ephemeral node by which a member holds a partition; its data is the member's id. partition is written
// BROKER-NUMBER.
func (l Layout) Owner(group, topic, partition string) string {
	return l.group(group) + "/owners/" + topic + "/" + partition
}

// Offset is the node with a group's position in a partition; see FormatOffset for its data.
func (l Layout) Offset(group, topic, partition string) string {
	return l.group(group) + "/offsets/" + topic + "/" + partition
}

// FormatOffset is the data of an offset node: "MESSAGEID-OFFSET". The id is that of the last message before the offset,
// -1 if it is not known.
func FormatOffset(id, offset int64) []byte {
	return fmt.Appendf(nil, "%d-%d", id, offset)
}

// ParseOffset reads the data of an offset node, also the oldest form, which is the offset alone. Negative ids have a
// hyphen of their own, so the data is split at the last one that is not the first byte.
func ParseOffset(data []byte) (id, offset int64, err error) {
	s := string(data)
	i := strings.LastIndexByte(s, '-')
	if i <= 0 {
		offset, err = strconv.ParseInt(s, 10, 64)
		return -1, offset, err
	}
	if id, err = strconv.ParseInt(s[:i], 10, 64); err != nil {
		return 0, 0, err
	}
	offset, err = strconv.ParseInt(s[i+1:], 10, 64)
	return id, offset, err
}
