// Package tail4go ships log files into topics, a record for each line, and loses none of them, however the files are rotated.
//
//	producer := c.Producer(client.ProducerConfig{Resend: true, Timeout: 7 * 24 * time.Hour})
//	agent, err := tail4go.Open(tail4go.Config{
//		StateDir: "/var/lib/metaq-tail",
//		Inputs:   []tail4go.Input{{Patterns: []string{"/var/log/app/*.log*"}, Topic: "app"}},
//	}, producer)
//	defer agent.Close()
//	err = agent.Run(ctx)
//	producer.Abort() // Run has waited for what was on its way
//
// Files feed it; it feeds a [Sender], which is a producer of package client. Each input has two goroutines: one looks for
// files and opens them at once, so that no rotation can take them away, the other reads them in turn and sends their lines.
// Nothing is buffered here: a line that could not be sent is read from its file again, so while the broker is away the
// files are the buffer, and the agent says how many bytes wait in them.
//
// A file is known by its device, inode and first bytes, never by its name: renamed, it is read to its end and not again.
// The position kept in the state directory is that behind the longest run of lines that were all acknowledged. Lines come
// twice only if the agent died before it stored the position behind them (about a second's worth), or if the broker
// stored them and its acknowledgement never came.
//
// What a pattern does not match can't be found: a file that is made and renamed away, to a name outside the patterns, before
// the agent has looked once is never seen. Busy logs are looked at every few milliseconds, quiet ones at each scan; patterns
// that also match the rotated names ("app.log*") leave no gap.
package tail4go
