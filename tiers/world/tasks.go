package world

import (
	"context"
	"sync"
	"time"
)

// TaskOptions configure [Tasks]. All are required.
type TaskOptions struct {
	World    World
	Max      int           // tasks that run or wait
	Patience time.Duration // how long a task waits for a slot at the pools
	OnPanic  func()        // called for each recovered panic
}

// pause is the time between two looks for a free slot.
const pause = 500 * time.Millisecond

// Tasks runs work that no client waits for, such as audits: a bounded number of tasks, each with a time limit, whose panics
// end nothing but themselves. It is safe for concurrent use.
type Tasks struct {
	o TaskOptions

	mu      sync.Mutex
	ctx     context.Context // of Begin; nil before and after
	running int
	working int    // tasks that use a pool now
	waiting int    // tasks that wait for a slot
	idle    Signal // set when the last task ends; nil while nothing waits
}

// NewTasks returns Tasks that start nothing before [Tasks.Begin].
func NewTasks(o TaskOptions) *Tasks { return &Tasks{o: o} }

// Begin allows tasks until ctx ends. Call [Tasks.Wait] afterwards.
func (t *Tasks) Begin(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ctx, t.idle = ctx, nil
}

// Wait waits for the end of all tasks. No new one starts, and the end of Begin's context has cancelled the running ones.
func (t *Tasks) Wait() {
	idle := t.o.World.NewSignal()
	t.mu.Lock()
	t.ctx = nil
	running := t.running > 0
	if running && t.idle == nil {
		t.idle = idle
	}
	idle = t.idle
	t.mu.Unlock()
	if running {
		_ = idle.Wait(context.Background()) // no deadline: the tasks were cancelled
	}
}

// Free reports whether a task could start now.
func (t *Tasks) Free() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.free()
}

// free is Free for who holds mu.
func (t *Tasks) free() bool { return t.ctx != nil && t.ctx.Err() == nil && t.running < t.o.Max }

// Start runs a task with a time limit. It reports whether there was room for it.
func (t *Tasks) Start(limit time.Duration, task func(context.Context)) bool {
	t.mu.Lock()
	parent, may := t.ctx, t.free()
	if may {
		t.running++
	}
	t.mu.Unlock()
	if !may {
		return false
	}
	ctx, cancel := t.o.World.WithTimeout(parent, limit)
	t.o.World.Go(func() {
		defer t.ended()
		defer cancel()
		defer func() {
			if recover() != nil {
				t.o.OnPanic() // a panic ends its task only
			}
		}()
		task(ctx)
	})
	return true
}

// ended counts the end of a task.
func (t *Tasks) ended() {
	t.mu.Lock()
	t.running--
	idle := t.idle
	if t.running > 0 {
		idle = nil
	}
	t.mu.Unlock()
	if idle != nil {
		idle.Set()
	}
}

// Enter waits for one of so many slots at the pools, as long as the patience lasts. It reports whether the task has one; it
// frees it with [Tasks.Leave].
func (t *Tasks) Enter(ctx context.Context, slots int) bool {
	if t.take(slots, 0) {
		return true
	}
	t.wait(1)
	defer t.wait(-1)
	for deadline := t.o.World.Now().Add(t.o.Patience); !t.take(slots, 0); {
		if t.o.World.Sleep(ctx, pause) != nil || t.o.World.Now().After(deadline) {
			return false
		}
	}
	return true
}

// TryEnter takes one of so many slots at the pools if one is free that no task waits for. It is freed with [Tasks.Leave].
func (t *Tasks) TryEnter(slots int) bool { return t.take(slots, 1) }

// take takes a slot if one is free, with so many more for each task that waits.
func (t *Tasks) take(slots, each int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working+each*t.waiting >= slots {
		return false
	}
	t.working++
	return true
}

// wait counts tasks that wait.
func (t *Tasks) wait(more int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting += more
}

// Leave frees a slot.
func (t *Tasks) Leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working--
}
