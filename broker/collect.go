package broker

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows a broker's numbers, the same that stats answers from, to Prometheus.
type collector struct{ b *Broker }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("metaq_broker_"+name, help, labels, nil)
}

var (
	descConnections = desc("connections", "Open connections of clients.")
	descPut         = desc("put_messages_total", "Messages received in put and append requests.")
	descPutFailed   = desc("put_failed_messages_total", "Messages received and not stored.")
	descGet         = desc("get_requests_total", "Get and poll requests.")
	descGetMiss     = desc("get_misses_total", "Get and poll requests answered without data.")
	descOffset      = desc("offset_requests_total", "Offset requests, and gets answered with another offset.")
	descOut         = desc("sent_bytes_total", "Bytes of records sent to consumers.")
	descMalformed   = desc("malformed_connections_total", "Connections closed because of what the client sent.")
	descStart       = desc("partition_start_offset", "Offset of the first byte kept.", "topic", "partition")
	descEnd         = desc("partition_end_offset", "High-water mark: the offset behind the last readable byte.", "topic", "partition")
	descWritable    = desc("partition_writable", "1 if the partition takes messages, else 0.", "topic", "partition")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	st := c.b.server.Stats()
	counter := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v))
	}
	ch <- prometheus.MustNewConstMetric(descConnections, prometheus.GaugeValue, float64(st.Connections))
	counter(descPut, st.Put)
	counter(descPutFailed, st.PutFailed)
	counter(descGet, st.Get)
	counter(descGetMiss, st.GetMiss)
	counter(descOffset, st.Offset)
	counter(descOut, st.BytesOut)
	counter(descMalformed, st.Malformed)
	for _, l := range c.b.store.Logs() {
		topic := l.Topic()
		if !utf8.ValidString(topic) { // a folder that another broker made; labels must be UTF-8
			topic = strconv.Quote(topic)
		}
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, topic, strconv.Itoa(l.Partition()))
		}
		gauge(descStart, float64(l.Start()))
		gauge(descEnd, float64(l.End()))
		writable := 1.0
		if l.Err() != nil {
			writable = 0
		}
		gauge(descWritable, writable)
	}
}
