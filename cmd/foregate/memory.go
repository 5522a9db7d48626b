package main

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"

	"github.com/foregate/foregate/internal/panics"
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

	// maxGarbage is how much garbage, in bytes, there may be before it is collected, unless minGrowth allows more.
	maxGarbage = 40 << 20
	// minGrowth and maxGrowth bound by how much the heap may grow before it is collected, in percent of what lives. Below 100,
	// which is Go's default, the collector would take more CPU the more streams are open.
	minGrowth, maxGrowth = 100, 400
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

// tuneMemory bounds the process by GOMEMLIMIT, or else by nine tenths of the control group's memory: the runtime's own limit
// leaves room for what the runtime does not count. Until ctx ends, it paces the collector, if GOGC is not set in the environment.
func tuneMemory(ctx context.Context) memory {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(maxGrowth)
		go panics.KeepRunning(ctx, paceCollector)
	}
	limit := debug.SetMemoryLimit(-1) // as GOMEMLIMIT says
	if limit == math.MaxInt64 {
		group, _ := os.ReadFile(groupFile) // there may be none, or it says "max"
		most, _ := strconv.ParseInt(strings.TrimSpace(string(group)), 10, 64)
		limit = most / 10 * 9
	}
	m := planMemory(limit)
	if m.runtime > 0 {
		debug.SetMemoryLimit(m.runtime)
	}
	return m
}

// paceCollector keeps the heap's growth at what [growth] says until ctx ends. It looks after each collection.
func paceCollector(ctx context.Context) {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	collected := make(chan struct{}, 1)
	for set := 0; ; {
		sentinel := new([64]byte) // what lives is known anew when the collector has found it
		runtime.AddCleanup(sentinel, func(c chan struct{}) { c <- struct{}{} }, collected)
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
		metrics.Read(samples)
		var live uint64
		for i := range samples {
			live += samples[i].Value.Uint64()
		}
		if percent := growth(live); max(percent-set, set-percent) > set/10 { // setting it stops the world
			debug.SetGCPercent(percent)
			set = percent
		}
	}
}

// growth is by how much the heap may grow before it is collected, in percent of live: the bytes that live, on the heap, on
// stacks and in globals, of which the runtime reckons it. The heap of an idle process is a few MiB, and the collector
// would take a tenth of the CPU if it ran whenever that has doubled. With 10,000 streams, four times what lives would be a gigabyte.
func growth(live uint64) int {
	return int(min(max(maxGarbage*100/max(live, 1), minGrowth), maxGrowth))
}
