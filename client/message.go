package client

import (
	"cmp"
	"strconv"
)

// Partition names one partition of a topic: the id of the broker that keeps it and its number there.
// Partition numbers are per broker (0, 1, … numPartitions-1), so only the pair is unique in a cluster.
type Partition struct {
	Broker int // 0…1023
	Number int // 0…numPartitions-1
}

// String returns the partition in MetaQ's spelling, BROKER-NUMBER, as in ZooKeeper paths and on the command line: "0-3".
func (p Partition) String() string {
	return strconv.Itoa(p.Broker) + "-" + strconv.Itoa(p.Number)
}

func (p Partition) compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Broker, q.Broker), cmp.Compare(p.Number, q.Number))
}

// Message is one record of a topic.
//
// A producer reads Topic, Attr, Payload, Key and Tag; the rest is filled in for what a consumer receives.
type Message struct {
	Topic     string
	Partition Partition
	Offset    int64  // byte position of the record in its partition
	ID        int64  // given by the broker; opaque, may be negative (protocol.md 3.5)
	Attr      []byte // UTF-8 text beside the payload; nil = none, which differs from present but empty
	Payload   []byte
	Key       []byte // chooses the partition when the producer selects by key; not sent
	Tag       int64  // the sender's own number, handed back in Result; not sent
}

// Size is the number of bytes the record takes in its partition: 20 bytes of header, attribute, payload.
func (m *Message) Size() int {
	n := 20 + len(m.Payload)
	if m.Attr != nil {
		n += 4 + len(m.Attr)
	}
	return n
}

// Result says where the broker put a message.
type Result struct {
	Topic     string
	Partition Partition
	Offset    int64
	ID        int64
	Tag       int64 // of the Message
}
