package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// groupFile tells how much memory the process's control group may have (cgroup v2), or "max".
	groupFile = "/sys/fs/cgroup/memory.max"
	// defaultMemory is what the process is taken to have where nothing bounds it, in bytes.
	defaultMemory = 1 << 30
	// bodiesShare is the part of the memory that request bodies may take: one in so many. A byte of a
	// body costs up to three (the body, what is sent upstream, its canonical form while the cache's key is made), and the
	// collector needs room beside what lives.
	bodiesShare = 4
	// minProgram, in bytes, and maxProgramShare, one in so many, bound what the runtime's limit leaves for what it does not count: the program itself, some
	// 27 MiB of its file, and what the kernel holds for it.
	minProgram, maxProgramShare = 32 << 20, 4
)

// memory is how the process divides what it may have, in bytes.
type memory struct {
	runtime int64 // the soft limit of Go's runtime; 0 leaves it as it is
	bodies  int64 // request bodies
}

// planMemory divides a limit on the whole process; 0 is none.
func planMemory(limit int64) memory {
	if limit <= 0 {
		return memory{bodies: defaultMemory / bodiesShare}
	}
	program := min(max(limit/10, minProgram), limit/maxProgramShare)
	return memory{runtime: limit - program, bodies: max(1, limit/bodiesShare)}
}

// tuneMemory lets the heap grow to five times what lives before it is collected: the live heap is a few
// MiB, and the collector would otherwise take a tenth of the CPU. Below GOMEMLIMIT, or else nine tenths of the control
// group's memory, the whole process stays: the runtime's own limit leaves room for what the runtime does not count. GOGC
// in the environment wins.
func tuneMemory() memory {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	limit := debug.SetMemoryLimit(-1) // as GOMEMLIMIT says
	if limit == math.MaxInt64 {
		group, _ := os.ReadFile(groupFile) // there may be none
		limit = groupMemory(string(group)) / 10 * 9
	}
	m := planMemory(limit)
	if m.runtime > 0 {
		debug.SetMemoryLimit(m.runtime)
	}
	return m
}

// groupMemory reads memory.max; 0 is no limit.
func groupMemory(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < 0 { // "max", or no such file
		return 0
	}
	return n
}
