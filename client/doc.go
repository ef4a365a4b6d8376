// Package client is metaq's client: producers and consumers, over the protocol of MetaQ and its extensions.
//
//	c, err := client.New(client.Config{Servers: "meta://127.0.0.1:8123"})
//	p := c.Producer(client.ProducerConfig{})
//	res, err := p.Send(ctx, &client.Message{Topic: "test", Payload: []byte("hello")})
//
//	co, err := c.Consumer(client.ConsumerConfig{Group: "g", Topics: []string{"test"}})
//	err = co.Run(ctx, func(ctx context.Context, m *client.Message) error { … })
//
// A [Client] stands for a cluster and holds what its producers and consumers share: the connection, what it knows of the
// topics, and the coordinator through which members of a group share partitions. It speaks the extensions that the
// broker names in its answer to version, and MetaQ's plain protocol to a broker that names none.
//
// Producers (package tail4go, sinks, user code) feed it; consumers (package spout, user code) are fed by it. Everything
// in it is safe for concurrent use unless its comment says otherwise.
package client
