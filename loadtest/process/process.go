// Package process starts the children of a run: gateways, engines, Redis. A child is ended by its id alone,
// waited for, and on Linux it ends even when this process is killed.
package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 30 * time.Second // for a child to serve; machines under test are busy
	stopTimeout  = 15 * time.Second // for it to end
	pollEvery    = 20 * time.Millisecond
)

// Process is a child. Its methods are safe for concurrent use.
type Process struct {
	Name   string // for messages
	Log    *Log
	Exited chan struct{} // closed when it has ended

	cmd      *exec.Cmd
	status   error // set when it has ended
	stopping atomic.Bool
}

// Command is what to start.
type Command struct {
	Name string // for messages
	Log  *Log   // where its output goes; nil is one of its own
	Path string
	Args []string
}

// Start starts a child. It has not said yet that it serves: see [Process.Serves].
func Start(c Command) (*Process, error) {
	if c.Log == nil {
		c.Log = &Log{}
	}
	//nolint:noctx // a context would kill it where we stop it in order
	p := &Process{Name: c.Name, cmd: exec.Command(c.Path, c.Args...), Log: c.Log, Exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = c.Log, c.Log
	p.cmd.SysProcAttr = attributes()
	started := make(chan error)
	go p.watch(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return p, nil
}

// watch starts the child and waits for its end, all on one thread of its own: the signal
// that tells a child of its parent's death comes when the thread that started it ends.
func (p *Process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.status = p.cmd.Wait()
	close(p.Exited)
}

// PID is the process' id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Status is how it ended, once Exited is closed; nil is exit status 0.
func (p *Process) Status() error { return p.status }

// Stopping tells whether it was asked to end by [Process.Stop].
func (p *Process) Stopping() bool { return p.stopping.Load() }

// Died is the error of a child that ended by itself.
func (p *Process) Died() error {
	status := p.status
	if status == nil {
		status = errors.New("exit status 0")
	}
	return fmt.Errorf("%s ended by itself: %w; its last words:\n%s", p.Name, status, p.Log.Last(10))
}

// Alive tells whether it has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.Exited:
		return false
	default:
		return true
	}
}

// Freeze stops it where it stands (SIGSTOP): its sockets stay open and say nothing.
func (p *Process) Freeze() error { return p.Signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *Process) Thaw() error { return p.Signal(syscall.SIGCONT) }

// Signal sends it a signal.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %v: %w", p.Name, s, err)
	}
	return nil
}

// Kill ends it as a crash would, and waits.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // one that has ended needs none
	<-p.Exited
}

// Stop asks it to end (SIGTERM), makes it, and waits. It may be called again.
func (p *Process) Stop() error {
	p.stopping.Store(true)
	if !p.Alive() {
		return nil
	}
	_ = p.Thaw() // a frozen one hears nothing
	_ = p.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-p.Exited:
		return nil
	case <-limit.C:
		p.Kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", p.Name, stopTimeout)
	}
}

// Serves waits until ok, at most 30 s; a child that ends before is an error.
func (p *Process) Serves(ctx context.Context, ok func() bool) error {
	err := Poll(ctx, startTimeout, func() bool { return !p.Alive() || ok() })
	switch {
	case !p.Alive():
		return p.Died()
	case errors.Is(err, ErrNotInTime):
		return fmt.Errorf("%s did not serve within %v; its last words:\n%s", p.Name, startTimeout, p.Log.Last(10))
	}
	return err
}

// ErrNotInTime is [Poll]'s, when its limit passed.
var ErrNotInTime = errors.New("not in time")

// Poll asks until ok, at most for limit.
func Poll(ctx context.Context, limit time.Duration, ok func() bool) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return ErrNotInTime
		case <-tick.C:
		}
	}
	return nil
}

// Ports of children are drawn from below those that systems give to outgoing connections
// (32768 and up on Linux), so that a connection made meanwhile does not take them.
const (
	firstPort = 10_000
	lastPort  = 32_000
)

// FreeAddrs are n different loopback addresses that were free a moment ago.
func FreeAddrs(n int) (addrs []string, err error) {
	for range 100 * n {
		if len(addrs) == n {
			return addrs, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue // somebody has it
		}
		defer func() { _ = l.Close() }() // held until all are known, so that they differ
		addrs = append(addrs, l.Addr().String())
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, firstPort, lastPort)
}

// Port is the port of HOST:PORT.
func Port(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // all that is asked for is made by FreeAddrs
	return port
}

// PortNumber is [Port] as a number.
func PortNumber(addr string) int {
	n, _ := strconv.Atoi(Port(addr)) // as above
	return n
}
