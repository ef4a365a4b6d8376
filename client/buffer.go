package client

import "sync"

// bufferPool keeps memory of released batches.
type bufferPool struct{ pool sync.Pool }

// buffers is shared by all clients of the process: memory has no owner.
var buffers bufferPool

// get returns a buffer with room for n bytes.
func (p *bufferPool) get(n int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= n {
		return b
	}
	b := make([]byte, n)
	return &b
}

// maxKept is the biggest buffer that is kept.
const maxKept = 4 << 20

func (p *bufferPool) put(b *[]byte) {
	if b != nil && cap(*b) <= maxKept {
		*b = (*b)[:cap(*b)]
		p.pool.Put(b)
	}
}
