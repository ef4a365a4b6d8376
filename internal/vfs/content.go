package vfs

import "slices"

const (
	pageSize = 4 << 10
	maxSize  = 16 << 30 // of a file in memory: a wild offset must be an error, not a table of pages that fills the machine
)

// content is the bytes of a file in pages. Contents share pages until one of them writes: a clone costs no copy of
// the data, making one durable neither. Bytes of the last page beyond size are zero.
type content struct {
	pages []pageRef
	size  int64
}

type pageRef struct {
	p      *[pageSize]byte // nil: zeros
	shared bool            // another content may have it too
}

// pagesFor returns how many pages n bytes take.
func pagesFor(n int64) int { return int((n + pageSize - 1) / pageSize) }

// readAt copies what there is at off into b.
func (c *content) readAt(b []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	b = b[:min(int64(len(b)), c.size-off)]
	for n := 0; n < len(b); {
		at := off + int64(n)
		ref, from := c.pages[at/pageSize], int(at%pageSize)
		part := b[n:min(len(b), n+pageSize-from)]
		if ref.p == nil {
			clear(part)
		} else {
			copy(part, ref.p[from:])
		}
		n += len(part)
	}
	return len(b)
}

// writeAt stores b at off and grows the content as needed.
func (c *content) writeAt(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	if end := off + int64(len(b)); end > c.size {
		c.truncate(end)
	}
	for len(b) > 0 {
		n := copy(c.own(int(off / pageSize))[off%pageSize:], b)
		b, off = b[n:], off+int64(n)
	}
}

// truncate cuts the content to n bytes or grows it with zeros.
func (c *content) truncate(n int64) {
	if n < c.size && n%pageSize != 0 && c.pages[n/pageSize].p != nil {
		clear(c.own(int(n / pageSize))[n%pageSize:])
	}
	c.resize(pagesFor(n))
	c.size = n
}

func (c *content) resize(pages int) {
	if pages < len(c.pages) {
		clear(c.pages[pages:])
		c.pages = c.pages[:pages]
		return
	}
	c.pages = slices.Grow(c.pages, pages-len(c.pages))[:pages]
}

// own returns page i for writing.
func (c *content) own(i int) *[pageSize]byte {
	ref := &c.pages[i]
	switch {
	case ref.p == nil:
		ref.p = new([pageSize]byte)
	case ref.shared:
		p := *ref.p
		ref.p = &p
	}
	ref.shared = false
	return ref.p
}

// clone returns a content of its own with the same bytes.
func (c *content) clone() content {
	for i := range c.pages {
		c.pages[i].shared = true
	}
	return content{pages: slices.Clone(c.pages), size: c.size}
}

// adopt makes c equal to src, of which only the pages from lo to before hi may differ from c's.
func (c *content) adopt(src *content, lo, hi int) {
	c.resize(len(src.pages))
	for i := lo; i < min(hi, len(src.pages)); i++ {
		src.pages[i].shared = true
		c.pages[i] = src.pages[i]
	}
	c.size = src.size
}
