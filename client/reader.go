package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/metaq-go/metaq/protocol"
)

// Reader reads one partition from an offset on, for no group and without committing anything. Not safe for concurrent
// use, but for Skipped and Damaged nothing of it is shared, so that many may read the same partition.
type Reader struct {
	client    *Client
	group     string
	topic     string
	partition Partition
	offset    int64
	first     int // bytes to ask for, but for a record that is bigger
	size      int // bytes to ask for next
	pause     time.Duration
	moved     func(to int64) int64 // told when the broker sends us elsewhere, returns where to go on; may be nil

	// Skipped and Damaged count bytes that the broker no longer had and records that failed their checksums.
	Skipped, Damaged int64
}

// Reader returns a reader that begins at offset, which must be that of a record.
func (c *Client) Reader(topic string, p Partition, offset int64) *Reader {
	return c.reader(noGroup, topic, p, offset, 1<<20)
}

func (c *Client) reader(group, topic string, p Partition, offset int64, size int) *Reader {
	return &Reader{client: c, group: group, topic: topic, partition: p, offset: offset, first: size, size: size}
}

// Offset returns where the next batch begins.
func (r *Reader) Offset() int64 { return r.offset }

// Next waits for data and returns the next batch. It returns ctx's error, and errors of the connection and the broker,
// after which it may be called again.
func (r *Reader) Next(ctx context.Context) (*Batch, error) {
	for {
		b, err := r.fetch(ctx)
		if b != nil {
			r.pause = 0
			r.offset = b.End
			return b, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %s at %d: %w", r.topic, r.partition, r.offset, err)
		}
	}
}

// backOff waits, longer each time since the last data.
func (r *Reader) backOff(ctx context.Context, most time.Duration) {
	r.pause = min(max(2*r.pause, firstPause), most)
	sleep(ctx, r.pause)
}

// fetch makes one request and returns a batch, or nil if there was nothing.
func (r *Reader) fetch(ctx context.Context) (*Batch, error) {
	conn, err := r.client.connection(ctx)
	if err != nil {
		return nil, err
	}
	q := protocol.Request{
		Verb: protocol.VerbGet, Topic: []byte(r.topic), Group: []byte(r.group),
		Partition: int32(r.partition.Number), Offset: r.offset, MaxSize: int32(r.size),
	}
	waits := conn.ext.Has(protocol.VerbPoll)
	wait := time.Duration(0)
	if waits {
		q.Verb, q.Wait, wait = protocol.VerbPoll, int32(pollWait/time.Millisecond), pollWait
	}
	var buffer *[]byte
	resp, err := conn.do(ctx, &q, wait, func(n int) []byte {
		buffer = buffers.get(n)
		return (*buffer)[:n]
	})
	switch {
	case err != nil:
		return nil, err
	case resp.Verb == protocol.VerbValue:
		return r.batch(resp.Body, buffer)
	case resp.Code == protocol.Moved:
		return nil, r.move(resp.Body)
	case resp.Code == protocol.NotFound:
		if !waits {
			r.backOff(ctx, time.Second)
		}
		return nil, nil
	}
	return nil, resp.Err()
}

// move continues where the broker says: at the start of what is kept if retention was faster than we, or at the end if
// the partition is shorter than it was.
func (r *Reader) move(text []byte) error {
	to, ok := protocol.ParseOffset(text)
	if !ok {
		return fmt.Errorf("broker answers 301 %.100q", text)
	}
	r.Skipped += max(to-r.offset, 0)
	r.client.cfg.Log.Warn("offset is not there, continuing at the nearest", "topic", r.topic,
		"partition", r.partition.String(), "offset", r.offset, "to", to)
	r.offset = to
	if r.moved != nil {
		r.offset = r.moved(to)
	}
	return nil
}

// batch makes a batch of the complete records of data. What is cut off behind them is fetched again; if not even the
// first is complete more is asked for. A record that fails its checksum is not handed out: the batch ends before it, and
// if it comes first it is passed over and counted.
func (r *Reader) batch(data []byte, buffer *[]byte) (*Batch, error) {
	good, n, err := complete(data)
	if n > 0 {
		r.size = r.first
		return &Batch{
			Topic: r.topic, Partition: r.partition, Offset: r.offset, End: r.offset + int64(good),
			n: n, data: data[:good], buffer: buffer,
		}, nil
	}
	defer buffers.put(buffer)
	if !errors.Is(err, protocol.ErrShort) {
		return nil, r.passOver(data, err)
	}
	size, ok := protocol.RecordSize(data)
	switch {
	case !ok:
		r.size = max(2*r.size, protocol.HeaderSize)
	case size > r.client.cfg.MaxMessage:
		return nil, fmt.Errorf("%w: record of %d bytes, Config.MaxMessage is %d", ErrTooLong, size, r.client.cfg.MaxMessage)
	case size <= r.size:
		return nil, fmt.Errorf("broker sends %d bytes of a record of %d, %d were asked for", len(data), size, r.size)
	default:
		r.size = size
	}
	return nil, nil
}

// complete returns how many bytes and records at the start of data are whole and match their checksums, and what is
// wrong with the next.
func complete(data []byte) (size, n int, err error) {
	for size < len(data) {
		r, err := protocol.DecodeRecord(data[size:])
		if err == nil {
			err = r.Verify()
		}
		if err != nil {
			return size, n, err
		}
		size += r.Size()
		n++
	}
	return size, n, nil
}

// passOver skips a damaged record, if what follows it is a record or nothing, so that its length can be believed.
func (r *Reader) passOver(data []byte, why error) error {
	where := fmt.Errorf("damaged record: %w", why)
	size, ok := protocol.RecordSize(data)
	if !ok || size > len(data) {
		return where
	}
	if _, n, err := complete(data[size:]); n == 0 && err != nil && !errors.Is(err, protocol.ErrShort) {
		return where
	}
	r.Damaged++
	r.client.cfg.Log.Error("damaged record passed over", "topic", r.topic, "partition", r.partition.String(),
		"offset", r.offset, "bytes", size, "err", why)
	r.offset += int64(size)
	return nil
}
