package server

import (
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/metaq-go/metaq/broker/store"
	"github.com/metaq-go/metaq/protocol"
)

// counters count since the server was opened. Their meaning is that of MetaQ's stats (protocol.md 5.4).
type counters struct {
	put, putFailed, get, getMiss, offset, bytesOut, malformed atomic.Int64
}

// Stats is a snapshot of a server's numbers.
type Stats struct {
	Uptime      time.Duration
	Connections int
	Put         int64 // messages received in put and append requests
	PutFailed   int64 // of them, not stored
	Get         int64 // get and poll requests
	GetMiss     int64 // of them, answered without data
	Offset      int64 // offset requests, and gets answered with another offset
	BytesOut    int64 // record bytes sent to consumers
	Malformed   int64 // connections closed because of what the client sent
}

// Stats returns the numbers as they are now.
func (s *Server) Stats() Stats {
	return Stats{
		Uptime:      time.Since(s.started),
		Connections: s.connections(),
		Put:         s.counters.put.Load(),
		PutFailed:   s.counters.putFailed.Load(),
		Get:         s.counters.get.Load(),
		GetMiss:     s.counters.getMiss.Load(),
		Offset:      s.counters.offset.Load(),
		BytesOut:    s.counters.bytesOut.Load(),
		Malformed:   s.counters.malformed.Load(),
	}
}

// stats answers a stats request; every item but config is framed by STATS and END.
func (s *session) stats(q *protocol.Request) bool {
	item := strings.TrimSpace(clip(q.Item))
	return s.later(q.Opaque, func() (protocol.Code, string) {
		if item == "config" {
			return s.srv.statsConfig()
		}
		var b strings.Builder
		b.WriteString("STATS\r\n")
		switch item {
		case "":
			s.srv.statsBroker(&b)
		case "help":
			b.WriteString(statsHelp)
		case "topics":
			s.srv.statsTopics(&b)
		case "offsets":
			for _, l := range s.srv.cfg.Store.Logs() {
				line(&b, "%s part %d min_offset %d max_offset %d", l.Topic(), l.Partition(), l.Start(), l.End())
			}
		case "realtime":
			for _, kind := range realtimeKinds {
				line(&b, "realtime_%s null", kind)
			}
		case "reset":
			b.WriteString("reset ok\r\n")
		default:
			s.srv.statsTopic(&b, item)
		}
		b.WriteString("END\r\n")
		return protocol.OK, b.String()
	})
}

const statsHelp = "*EMPTY* Returns broker info.\r\n" +
	"help Returns help menu.\r\n" +
	"topics Returns topics statistics detail info.\r\n" +
	"offsets Returns partitions detail info.\r\n" +
	"realtime Returns realtime statistics detail info.\r\n" +
	"config Returns broker's config file content.\r\n"

// realtimeKinds are counted only for topics with the setting stat=true, of which there are none yet: null is what
// MetaQ says of a kind that was never counted.
var realtimeKinds = [...]string{"put", "get", "offset", "get_miss", "put_failed", "message_size"}

func line(b *strings.Builder, format string, args ...any) {
	fmt.Fprintf(b, format, args...)
	b.WriteString("\r\n")
}

func (s *Server) statsBroker(b *strings.Builder) {
	st := s.Stats()
	var messages int64
	for _, l := range s.cfg.Store.Logs() {
		messages += l.Messages()
	}
	port := s.Addr().String()
	line(b, "pid %d", os.Getpid())
	line(b, "broker_id %d", s.cfg.BrokerID)
	line(b, "port %s", port[strings.LastIndexByte(port, ':')+1:])
	line(b, "uptime %d", int64(st.Uptime.Seconds()))
	line(b, "version %s", s.version)
	line(b, "slave false")
	line(b, "curr_connections %d", st.Connections)
	line(b, "threads %d", runtime.NumGoroutine())
	line(b, "cmd_put %d", st.Put)
	line(b, "cmd_get %d", st.Get)
	line(b, "cmd_offset %d", st.Offset)
	for _, tx := range []string{"begin", "xa_begin", "commit", "rollback"} {
		line(b, "tx_%s 0", tx)
	}
	line(b, "get_miss %d", st.GetMiss)
	line(b, "put_failed %d", st.PutFailed)
	line(b, "total_messages %d", messages)
	line(b, "topics %d", len(s.cfg.Topics.Names()))
	config, _ := s.configText()
	line(b, "config_checksum %d", crc32.ChecksumIEEE(config))
}

func (s *Server) statsTopics(b *strings.Builder) {
	stored := byTopic(s.cfg.Store.Logs())
	names := make([]string, 0, len(stored))
	for name := range stored {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		t := stored[name]
		line(b, "%s partitions %d message_count %d message_bytes %d accept_publish true accept_subscribe true",
			name, t.partitions, t.messages, t.bytes)
	}
	for _, name := range s.cfg.Topics.Names() {
		if _, ok := stored[name]; !ok {
			line(b, "%s *Empty*", name)
		}
	}
}

// statsTopic writes what is known of one topic: 0 = it has partitions, 1 = unknown, 2 = configured, nothing stored.
func (s *Server) statsTopic(b *strings.Builder, name string) {
	t, stored := byTopic(s.cfg.Store.Logs())[name]
	code := 0
	if !stored {
		code = 1
		if i := sort.SearchStrings(s.cfg.Topics.Names(), name); i < len(s.cfg.Topics.Names()) && s.cfg.Topics.Names()[i] == name {
			code = 2
		}
	}
	line(b, "%s", name)
	line(b, "resultCode %d", code)
	line(b, "partitions %d", t.partitions)
	line(b, "message_count %d", t.messages)
	line(b, "bytes %d", t.bytes)
	for _, kind := range realtimeKinds {
		line(b, "topic_realtime_%s null", kind)
	}
}

type topicStats struct {
	partitions      int
	messages, bytes int64
}

func byTopic(logs []*store.Log) map[string]topicStats {
	m := make(map[string]topicStats)
	for _, l := range logs {
		t := m[l.Topic()]
		t.partitions++
		t.messages += l.Messages()
		t.bytes += l.End() - l.Start()
		m[l.Topic()] = t
	}
	return m
}

func (s *Server) configText() ([]byte, error) {
	if s.cfg.ConfigText == nil {
		return nil, nil
	}
	return s.cfg.ConfigText()
}

func (s *Server) statsConfig() (protocol.Code, string) {
	text, err := s.configText()
	if err != nil {
		return protocol.ServerError, "Read config file error:" + err.Error()
	}
	return protocol.OK, string(text)
}
