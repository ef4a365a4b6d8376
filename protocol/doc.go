// Package protocol is MetaQ's wire protocol and record format, for both ends.
//
// The server reads requests with a [Reader] and appends responses to a buffer of its own; the client appends requests
// and reads responses with the same type. The package owns no socket, no goroutine and no clock: it turns bytes into
// [Request] and [Response] values and back, without an allocation per message.
//
// A connection carries text lines that end in CRLF, some followed by a body whose length the line announces:
//
//	put TOPIC PARTITION LENGTH FLAG [CHECKSUM] [TXKEY] OPAQUE     + body     4.1
//	get TOPIC GROUP PARTITION OFFSET MAXSIZE OPAQUE                          4.2
//	offset TOPIC GROUP PARTITION OFFSET OPAQUE                               4.3
//	version [OPAQUE]    stats [ITEM [OPAQUE]]    quit                        5
//	result CODE LENGTH OPAQUE                                     + text
//	value LENGTH OPAQUE                                           + records
//
// The numbers are chapters of MetaQ 1.4.6's protocol. To these metaq adds verbs that a broker names in its answer to
// version (see [Extensions]); docs/protocol.md has their grammar:
//
//	append TOPIC PARTITION LENGTH COUNT OPAQUE                    + records  many records in stored form at once
//	poll TOPIC GROUP PARTITION OFFSET MAXSIZE WAIT OPAQUE                    a get that waits for data
//	topics [TOPIC [OPAQUE]]                                                  topics and their partition counts
//
// Records are what a put becomes in the log and what a get returns: a 20-byte header and a body ([Record]). The layout
// is fixed for ever; offsets count its bytes.
package protocol
