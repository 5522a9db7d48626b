package eventloop

import (
	"context"
	"slices"
	"time"
)

// virtualContext is a context of virtual time: a standard one, so that context.Cause and the contexts
// that others derive from it work, which also wakes who waits under it.
type virtualContext struct {
	context.Context
	end      context.CancelCauseFunc
	loop     *Loop
	parent   *virtualContext // nil is none
	over     bool
	deadline time.Time // zero is none of its own
	timer    *Timer

	first, last *coroutine        // that wait under it, in the order in which they began
	children    []*virtualContext // in the order in which they were made; nil ones have ended
	place       int               // in its parent's children
	ended       int               // of its children
	after       []*afterwards
}

// afterwards is what happens when a context has ended.
type afterwards struct{ do func() }

type virtualKey struct{}

// Value implements [context.Context].
func (c *virtualContext) Value(key any) any {
	if key == (virtualKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Err implements [context.Context].
func (c *virtualContext) Err() error {
	if err := c.Context.Err(); err == nil || context.Cause(c.Context) != context.DeadlineExceeded {
		return err
	}
	return context.DeadlineExceeded
}

// Deadline implements [context.Context].
func (c *virtualContext) Deadline() (time.Time, bool) {
	above, ok := c.Context.Deadline()
	if c.deadline.IsZero() || ok && above.Before(c.deadline) {
		return above, ok
	}
	return c.deadline, true
}

// virtual is the context of virtual time that ctx is or was derived from; nil is one that never ends.
func (l *Loop) virtual(ctx context.Context) *virtualContext {
	if c, ok := ctx.(*virtualContext); ok {
		return c
	}
	if ctx.Done() == nil {
		return nil
	}
	c, ok := ctx.Value(virtualKey{}).(*virtualContext)
	if !ok || c.loop != l || c.Done() != ctx.Done() {
		panic("eventloop: a context that ends in another world's time")
	}
	return c
}

// WithCancel implements [world.World].
func (l *Loop) WithCancel(parent context.Context) (context.Context, context.CancelCauseFunc) {
	c := l.newContext(parent)
	return c, c.cancel
}

// WithTimeout implements [world.World].
func (l *Loop) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	c := l.newContext(parent)
	c.deadline = l.Now().Add(d)
	if !c.over {
		c.timer = l.Timer(d, func() { c.cancel(context.DeadlineExceeded) })
	}
	return c, func() { c.cancel(nil) }
}

// WithDeadline implements [world.World].
func (l *Loop) WithDeadline(parent context.Context, at time.Time) (context.Context, context.CancelCauseFunc) {
	if at.IsZero() {
		return l.WithCancel(parent)
	}
	ctx, _ := l.WithTimeout(parent, at.Sub(l.Now()))
	return ctx, ctx.(*virtualContext).cancel
}

func (l *Loop) newContext(parent context.Context) *virtualContext {
	c := &virtualContext{loop: l, parent: l.virtual(parent)}
	c.Context, c.end = context.WithCancelCause(parent)
	if p := c.parent; p != nil {
		c.over = p.over
		if !c.over {
			c.place = len(p.children)
			p.children = append(p.children, c)
		}
	}
	return c
}

// OnCancel implements [world.World]: do happens behind what goes on at the moment of ctx's end. It
// must not wait.
func (l *Loop) OnCancel(ctx context.Context, do func()) (stop func() bool) {
	c := l.virtual(ctx)
	if c == nil {
		c = &virtualContext{} // that never ends
	}
	if c.over {
		l.After(0, do)
		return func() bool { return false }
	}
	a := &afterwards{do}
	c.after = append(c.after, a)
	return func() bool {
		i := slices.Index(c.after, a)
		if i >= 0 {
			c.after = slices.Delete(c.after, i, i+1)
		}
		return i >= 0
	}
}

// cancel ends the context and its children; nil is context.Canceled.
func (c *virtualContext) cancel(cause error) {
	if c.over {
		return
	}
	c.end(cause)
	if p := c.parent; p != nil && !p.over {
		p.forget(c)
	}
	c.wakeAll()
}

// wakeAll wakes who waits under the context and its children, all of which have ended.
func (c *virtualContext) wakeAll() {
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	for c.first != nil {
		c.loop.wake(waiting{c.first, c.first.turn}, context.Cause(c.Context))
	}
	for _, a := range c.after {
		c.loop.After(0, a.do)
	}
	for _, child := range c.children {
		if child != nil {
			child.wakeAll()
		}
	}
	c.children, c.after = nil, nil
}

// forget drops a child that has ended. Of many the places are given to others.
func (c *virtualContext) forget(child *virtualContext) {
	c.children[child.place] = nil
	if c.ended++; c.ended <= len(c.children)/2 {
		return
	}
	kept := c.children[:0]
	for _, other := range c.children {
		if other != nil {
			other.place = len(kept)
			kept = append(kept, other)
		}
	}
	clear(c.children[len(kept):])
	c.children, c.ended = kept, 0
}

// enter puts a coroutine among those that wait under a context.
func (c *coroutine) enter(under *virtualContext) {
	c.under, c.prev, c.next = under, under.last, nil
	if under.last == nil {
		under.first = c
	} else {
		under.last.next = c
	}
	under.last = c
}

// leave takes it out.
func (c *coroutine) leave() {
	under := c.under
	if under == nil {
		return
	}
	if c.prev == nil {
		under.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		under.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.under, c.prev, c.next = nil, nil, nil
}
