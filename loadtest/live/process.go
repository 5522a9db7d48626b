package live

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// stopPatience is how long a child may take to end after it was asked to.
const stopPatience = 10 * time.Second

// process is a child: the gateway or Redis.
type process struct {
	name     string // for messages
	cmd      *exec.Cmd
	log      tail
	stopping atomic.Bool
	exited   chan struct{} // closed when it has ended; status is set then
	status   error
}

// launch starts a child. It has not said yet that it serves.
func launch(name, path string, args ...string) (*process, error) {
	//nolint:noctx // a context would kill it where we stop it in order
	p := &process{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error)
	go p.watch(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// watch starts the child and waits for its end, all on one thread of its own:
// the signal that tells a child of its parent's death comes when the thread that
// started it ends.
func (p *process) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.status = p.cmd.Wait()
	close(p.exited)
}

// stop asks the child to end, makes it, and waits. It may be called again.
func (p *process) stop() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Signal(os.Interrupt) // one that has ended needs none
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-p.exited:
	case <-limit.C:
		_ = p.cmd.Process.Kill() // as above
		<-p.exited
	}
}

// died is the error of a child that ended by itself.
func (p *process) died() error {
	status := "exit status 0"
	if p.status != nil {
		status = p.status.Error()
	}
	return fmt.Errorf("%s ended by itself: %s%s", p.name, status, p.words())
}

// words are the last ones of the child, for an error.
func (p *process) words() string {
	log := strings.TrimSpace(p.log.String())
	if log == "" {
		return "; it said nothing"
	}
	return "; its last words:\n" + log
}
