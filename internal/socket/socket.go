// Package socket reads and writes TCP connections with less work for Go's scheduler. Start at [New].
//
// The runtime brackets each system call, so that a thread that blocks in one gives its processor away. If the process was
// idle, the first such call also wakes the runtime's monitor, a thread that then looks around every 20 µs until all is
// idle again. A gateway that passes on a token wakes up, reads, writes and is idle: the monitor is a fifth of its CPU time
// (BenchmarkEcho, and the paced streams of loadtest/cost). But reads and writes of a socket that does not block need no
// bracket: they return at once. This package makes them without it, on Linux.
package socket

import "net"

// New returns a connection with the same behavior as c. The caller uses it in place of c. Connections that are not TCP, and
// all connections on systems other than Linux, are returned as they are.
func New(c net.Conn) net.Conn { return wrap(c) }
