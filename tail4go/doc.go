// Package tail4go ships log files into topics, a record for each line, and never loses or doubles one.
//
//	producer := c.Producer(client.ProducerConfig{Resend: true, Timeout: 7 * 24 * time.Hour})
//	agent, err := tail4go.Open(tail4go.Config{
//		StateDir: "/var/lib/metaq-tail",
//		Inputs:   []tail4go.Input{{Patterns: []string{"/var/log/app/*.log*"}, Topic: "app"}},
//	}, producer)
//	defer agent.Close()
//	err = agent.Run(ctx)
//
// Files feed it; it feeds a [Sender], which is a producer of package client. Each input has two goroutines: one looks for
// files and opens them at once, so that no rotation can take them away, the other reads them in turn and sends their lines.
// Nothing is buffered here: a line that could not be sent is read from its file again, so while the broker is away the
// files are the buffer, and the agent says how many bytes wait in them.
//
// A file is known by its device, inode and first bytes, never by its name: renamed, it is read to its end and not again.
// The position kept in the state directory is that behind the longest run of lines that were all acknowledged. After a
// crash, lines sent after the last stored position (about a second of them) are sent again; nothing else is ever doubled.
//
// What a pattern does not match can't be found: a file that is renamed twice between two scans, to a name outside the
// patterns, is never seen. Patterns that also match the rotated names ("app.log*") leave no such gap.
package tail4go
