package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	startPatience = 30 * time.Second // for a child to serve; machines under test are busy
	stopPatience  = 15 * time.Second // for it to end
	pollEvery     = 20 * time.Millisecond
)

// child is a process of ours: a gateway, a Redis. It is ended by its id alone.
type child struct {
	name   string // for messages
	cmd    *exec.Cmd
	log    *journal
	exited chan struct{} // closed when it has ended; status is set then
	status error

	mu     sync.Mutex
	frozen bool
}

// launch starts a child. It has not said yet that it serves.
func launch(name string, log *journal, env []string, path string, args ...string) (*child, error) {
	//nolint:noctx // a context would kill it where we stop it in order
	c := &child{name: name, cmd: exec.Command(path, args...), log: log, exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go c.watch(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// watch starts the child and waits for its end, all on one thread of its own: the signal
// that tells a child of its parent's death comes when the thread that started it ends.
func (c *child) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.status = c.cmd.Wait()
	close(c.exited)
}

// ending is the status of one that has ended, as an error in any case.
func (c *child) ending() error {
	if c.status == nil {
		return errors.New("exit status 0")
	}
	return c.status
}

// alive reports whether it has not ended.
func (c *child) alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// freeze stops it where it stands (SIGSTOP): its sockets stay open and say nothing.
func (c *child) freeze() error { return c.signal(syscall.SIGSTOP, true) }

// thaw lets it go on.
func (c *child) thaw() error { return c.signal(syscall.SIGCONT, false) }

func (c *child) signal(s syscall.Signal, frozen bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = frozen
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s: %v: %w", c.name, s, err)
	}
	return nil
}

// kill ends it as a crash would, and waits.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // one that has ended needs none
	<-c.exited
}

// stop asks it to end (SIGTERM), makes it, and waits. It may be called again.
func (c *child) stop() error {
	if !c.alive() {
		return nil
	}
	_ = c.thaw() // a frozen one hears nothing
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-c.exited:
		return nil
	case <-limit.C:
		c.kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", c.name, stopPatience)
	}
}

// serves polls until ok, the child's end, or the end of patience.
func (c *child) serves(ctx context.Context, ok func() bool) error {
	err := poll(ctx, startPatience, func() bool { return !c.alive() || ok() })
	switch {
	case !c.alive():
		return fmt.Errorf("%s ended by itself: %w; its last words:\n%s", c.name, c.ending(), c.log.last(10))
	case errors.Is(err, errNotInTime):
		return fmt.Errorf("%s did not serve within %v; its last words:\n%s", c.name, startPatience, c.log.last(10))
	}
	return err
}

// errNotInTime is poll's, when its limit passed.
var errNotInTime = errors.New("not in time")

// poll asks until ok, at most for limit.
func poll(ctx context.Context, limit time.Duration, ok func() bool) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return errNotInTime
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

// freeAddrs are n different loopback addresses that were free a moment ago.
func freeAddrs(n int) (addrs []string, err error) {
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

// portOf is the port of HOST:PORT.
func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr) // all that is asked for is made by freeAddrs
	return port
}

// portNumber is portOf as a number.
func portNumber(addr string) int {
	n, _ := strconv.Atoi(portOf(addr)) // as above
	return n
}
