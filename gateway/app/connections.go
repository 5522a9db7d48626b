package app

import (
	"fmt"
	"syscall"

	"github.com/foregate/foregate/gateway/config"
)

const (
	// reservedFiles are not available to clients: 64 are for the admin listener, the rest for Redis, scrapes
	// and logs.
	reservedFiles = 128
	// minConns is used if the process may open hardly any files.
	minConns = 32
	// defaultMaxConns is the maximum number of client connections if the file limit is high enough.
	defaultMaxConns = 16384
	// connBytes is the memory of an idle connection: 8 KiB of stack and 11 KiB of buffers and tables,
	// measured with 7,250 of them.
	connBytes = 20 << 10
	// secureConnBytes is the memory of a connection with TLS: 93 KiB of an idle one with HTTP/2 that has carried a large
	// body (25 KiB with HTTP/1.1, 36 KiB without such a body; measured with 2,000 of them), and the 128 KiB that a client
	// may send before they are read and charged to the memory of bodies.
	secureConnBytes = (96 + 128) << 10
)

// openFiles is the number of files this process may open; enough for defaultMaxConns if the system does not
// report it.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 2*defaultMaxConns + reservedFiles
	}
	return int(min(limit.Cur, 1<<30))
}

// connLimits returns the maximum number of client connections, in total and per address, for a process with
// this limit of open files and of memory in bytes. Each client connection may need one more to a backend, and
// some files are reserved for operators. Without a configured limit, idle connections take at most a quarter
// of the memory; secure ones (TLS) with what their clients send unread. warning names a configured limit that is too high; "" is none.
func connLimits(l config.Limits, secure bool, files int, memory int64) (conns, perAddress int, warning string) {
	bytes := int64(connBytes)
	if secure {
		bytes = secureConnBytes
	}
	room := max(minConns, (files-reservedFiles)/2)
	conns = min(defaultMaxConns, room, int(max(minConns, memory/4/bytes)))
	if l.Connections > 0 {
		conns = min(l.Connections, room)
	}
	if l.Connections > room {
		warning = fmt.Sprintf(
			"limits.connections is %d, but with %d open files (ulimit -n) no more than %d can be served",
			l.Connections, files, room)
	}
	perAddress = conns / 2
	if l.ConnectionsPerAddress > 0 {
		perAddress = min(l.ConnectionsPerAddress, conns)
	}
	return conns, perAddress, warning
}
