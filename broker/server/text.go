package server

import (
	"strconv"
	"strings"

	"github.com/metaq-go/metaq/protocol"
)

// The texts of answers are MetaQ's, to the letter where its clients or tools may show them (protocol.md 4).

// refusal is a status with the text a failed put gets.
func (s *Server) refusal(code protocol.Code, topic []byte, partition int32, detail string) *protocol.StatusError {
	return &protocol.StatusError{Code: code, Text: s.failedText(clip(topic), partition) + "Detail:" + detail}
}

func (s *Server) failedText(topic string, partition int32) string {
	return "Put message to [broker '" + s.cfg.Advertise + "'] [partition '" + topic + "-" + itoa(partition) + "'] failed."
}

// appendFailed appends the answer to a message that was refused by the store.
func (s *Server) appendFailed(dst []byte, r *reply, opaque int32) []byte {
	text := s.failedText(r.log.Topic(), r.partition) + "Detail:" + r.err.Error()
	return protocol.AppendResult(dst, protocol.ServerError, opaque, text)
}

// closedText says that an operator closed a partition. What is "Partition" for a get is "partition" for a put.
func closedText(noun string, broker int, partition int32) string {
	return noun + "[" + strconv.Itoa(broker) + "-" + itoa(partition) + "] has been closed"
}

func missingText[T ~string | ~[]byte](topic T, partition int32) string {
	return "The topic `" + clip(topic) + "` in partition `" + itoa(partition) + "` is not exists"
}

// maxName is how much of a client's word is kept while its answer waits. No topic has a longer name.
const maxName = 512

// clip makes text of a name that a client sent. What is no UTF-8 becomes U+FFFD, as in the original; the end of what is
// longer than any name is left out, so that many such requests do not hold much memory.
func clip[T ~string | ~[]byte](b T) string {
	if len(b) <= maxName {
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	return strings.ToValidUTF8(string(b[:maxName]), "\ufffd") + "…"
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
