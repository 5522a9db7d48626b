package virtual

import (
	"time"

	"github.com/foregate/foregate/gateway/admission"
	"github.com/foregate/foregate/gateway/identity"
)

// poll is how often those who wait are looked at, as the gateway does.
const poll = 50 * time.Millisecond

// line is the gateway's own line at one pool of a replica, with the virtual clock.
type line struct {
	admission.Line
	clock *clock
	woken bool // a look is among the events
	polls bool
}

func newLine(r *replica, pool string) *line {
	return &line{Line: admission.Line{Pool: pool, Rand: r.random}, clock: &r.lab.clock}
}

// wake looks whether there is room, behind what goes on at this moment.
func (l *line) wake() {
	if l.woken || l.All() == 0 {
		return
	}
	l.woken = true
	l.clock.after(0, func() {
		l.woken = false
		l.serve()
	})
}

func (l *line) serve() {
	l.Serve(l.clock.wall())
	if l.All() == 0 || l.polls {
		return
	}
	l.polls = true
	l.clock.after(poll, func() {
		l.polls = false
		l.serve()
	})
}

// enter asks for a place; done is told, perhaps later.
func (l *line) enter(w *admission.Waiter) {
	l.Enter(w, l.clock.wall())
	if l.All() > 0 {
		l.serve()
	}
}

// class is the priority that a scenario names; without one it is normal.
func class(priority string) identity.Priority {
	p, err := identity.ParsePriority(priority)
	if err != nil {
		return identity.Normal
	}
	return p
}
