package app

import "syscall"

const (
	// reservedFiles are not available to clients: they are for the admin listener, Redis, scrapes and logs.
	reservedFiles = 128
	// minConns is used if the process may open hardly any files.
	minConns = 32
	// connBytes is the memory of an idle connection without TLS: 8 KiB of stack and 11 KiB of buffers and tables,
	// measured with 7,250 of them.
	connBytes = 20 << 10
)

// openFiles is the number of files this process may open; very many if the system does not report it.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1 << 30
	}
	return int(min(limit.Cur, 1<<30))
}

// maxConns is how many client connections a process can hold with this limit of open files and of memory in bytes. Each of
// them may need one more to a backend, and idle ones take at most half of the memory.
func maxConns(files int, memory int64) int {
	return max(minConns, min((files-reservedFiles)/2, int(memory/2/connBytes)))
}
