package main

import "syscall"

const (
	// reservedFiles are for what is not a client: the admin listener, Redis, scrapes, logs.
	reservedFiles = 64
	// leastConns is what is tried where hardly any files may be open.
	leastConns = 32
	// usualConns is the most client connections where files do not matter.
	usualConns = 16384
)

// mostConns is how many client connections may be open: each may need one to a backend
// beside it, and some files stay free for operators, who come when all else is taken.
func mostConns() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return usualConns
	}
	files := min(limit.Cur, 1<<30)
	return min(usualConns, max(leastConns, (int(files)-reservedFiles)/2))
}
