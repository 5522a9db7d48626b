package cost

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Goals for resident memory, in MiB.
const (
	maxIdle    = 30
	maxLoaded  = 100 // under 128 KiB bodies
	maxStreams = 400 // with wantedStreams idle streams
)

const (
	wantedStreams = 10_000
	streamTenants = 100 // a tenant may have two thirds of what others leave
)

// memories measures gateways that have just started, and reads the yardstick's maximum.
func (c *cost) memories(b *testing.B) []Memory {
	b.Helper()
	list := []Memory{
		{Title: "yardstick, maximum of the run", MiB: c.get(yardstick).memory(b, "VmHWM")},
		{Title: "gateway, maximum of the run", MiB: c.get(newcomer).memory(b, "VmHWM")},
	}
	for _, store := range []struct {
		name, url string
		goal      float64
	}{{"Redis", redis(b, nil), maxLoaded}, {"embedded Redis", "embedded", 0}} {
		p := c.gateway(store.url, "", c.mock.addr)
		p.settle(b, 1)
		idle := p.memory(b, "VmRSS")
		p.settle(b, connections)
		if _, err := p.apply(load{each: []exchange{chat{size: 128 << 10, tokens: shortAnswer}.exchange()}, lasts: c.memory}); err != nil {
			b.Fatal(err)
		}
		list = append(list, Memory{Title: store.name + ": idle", MiB: idle, Goal: maxIdle},
			Memory{Title: store.name + ": maximum under misses of 128 KiB", MiB: p.memory(b, "VmHWM"), Goal: store.goal})
	}
	return append(list, c.idleStreams(b))
}

// idleStreams opens streams of one token and then silence. Each takes two files of the gateway, which gives three quarters of its
// connections to requests, and has at most 4,096 connections to one engine.
func (c *cost) idleStreams(b *testing.B) Memory {
	b.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	n := min(wantedStreams, (int(min(files.Max, 1<<20))/2-500)*7/10)
	limits := fmt.Sprintf("limits: {in_flight: %d, connections: %d}\n", n+n/50+100, 4*n/3+200)
	p := c.gateway(redis(b, nil), limits, c.mock.addrs...)
	p.settle(b, 1)
	idle := p.memory(b, "VmRSS")
	var wg sync.WaitGroup
	sessions, errs := make([]*session, n), make([]error, connections)
	for k := range errs {
		wg.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				x := chat{
					size: 1 << 10, tokens: 2, stream: true, pause: time.Hour,
					header: fmt.Sprintf("X-Tenant-ID: tenant-%d\r\n", i%streamTenants),
				}.exchange()
				if sessions[i], errs[k] = connectTo(p.addr); errs[k] == nil {
					errs[k] = sessions[i].begin(&x)
				}
			}
		})
	}
	wg.Wait()
	defer func() {
		for _, s := range sessions {
			if s != nil {
				_ = s.conn.Close() // its answer does not matter
			}
		}
	}()
	if err := errors.Join(errs...); err != nil {
		b.Fatal(err)
	}
	time.Sleep(time.Second) // what the last ones have begun
	if open := p.page(b).sum(b, "foregate_backend_requests_in_flight{"); open != float64(n) {
		b.Fatalf("%.0f of %d streams are open", open, n)
	}
	title, mib := fmt.Sprintf("Redis: %d idle streams", n), p.memory(b, "VmRSS")
	if n < wantedStreams {
		title = fmt.Sprintf("Redis: %d idle streams, from %d of %.0f MiB (ulimit -Hn %d)", wantedStreams, n, mib, files.Max)
		mib = idle + (mib-idle)*wantedStreams/float64(n)
	}
	return Memory{Title: title, MiB: mib, Goal: maxStreams}
}
