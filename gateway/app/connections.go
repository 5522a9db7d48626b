package app

import (
	"fmt"
	"syscall"

	"github.com/foregate/foregate/gateway/config"
)

const (
	// reservedFiles are not for clients: 64 are for the admin listener, the rest for Redis, scrapes and logs.
	reservedFiles = 128
	// minConns is what is tried where hardly any files may be open.
	minConns = 32
	// defaultMaxConns is the most client connections where files do not matter.
	defaultMaxConns = 16384
	// connBytes is what an idle connection takes of memory: 8 KiB of stack and 11 KiB of buffers
	// and tables, measured with 7,250 of them.
	connBytes = 20 << 10
)

// openFiles is how many files this process may have open; enough for defaultMaxConns where the system does not say.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 2*defaultMaxConns + reservedFiles
	}
	return int(min(limit.Cur, 1<<30))
}

// connLimits are how many client connections may be open in all, and from one address, in a
// process that may have so many files open and use so many bytes of memory. Each connection may
// need one to a backend beside it, and some files stay free for operators, who come when all else
// is taken. Where nobody says how many, idle ones alone take no more than a quarter of the memory.
// warning tells of what was asked for and is not to be had; "" is none.
func connLimits(l config.Limits, files int, memory int64) (conns, perAddress int, warning string) {
	room := max(minConns, (files-reservedFiles)/2)
	conns = min(defaultMaxConns, room, int(max(minConns, memory/4/connBytes)))
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
