package breaker

import "time"

// staleAfter is how old the fleet's word may be; a replica that hears nothing for longer
// decides alone. It is two to five ticks, of which one or two may be lost.
const staleAfter = 1500 * time.Millisecond

// view is what the fleet says of a backend, as it was last heard. Its times are this
// process' own, counted from the moment the word came: clocks are not compared.
type view struct {
	phase phase
	epoch int64     // grows with each transition; by Redis' ms, so that it grows through a loss of the key, too
	until time.Time // how long it is open, or leased to whoever tests it
	cut   bool      // it could not be reached
	at    time.Time // when it was heard; zero is never
}

// fresh reports whether the word is to be followed.
func (v *view) fresh(now time.Time) bool {
	return !v.at.IsZero() && now.Sub(v.at) < staleAfter
}

// shuts is until when nobody may go there by this word: until a newer one, and where none
// comes, until its open time has run out. Zero is: they may.
func (v *view) shuts() time.Time {
	if v.phase == closed || v.at.IsZero() {
		return time.Time{}
	}
	until := v.at.Add(staleAfter)
	if v.phase == open && v.until.After(until) {
		until = v.until
	}
	return until
}

// due reports whether the breaker waits for somebody to test it.
func (v *view) due(now time.Time) bool {
	return v.phase != closed && v.fresh(now) && !now.Before(v.until)
}

// move is a transition to be logged; nothing moved where from equals to.
type move struct {
	from, to phase
	open     time.Duration // how long, of a move to open
	fleet    bool          // it was not decided here
}

// adopt takes the fleet's word in. Where the fleet has closed a breaker that was open,
// what this replica knew of before is forgotten.
func (e *entry) adopt(v view, cfg Config) move {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.view.phase
	e.view = v
	if was != closed && v.phase == closed && e.phase != closed {
		e.fresh(cfg)
	}
	return e.show(v.at)
}

// forsake forgets the fleet's word.
func (e *entry) forsake(now time.Time) move {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.view = view{}
	return e.show(now)
}

// look tells of what time alone has changed, and that probes test the breaker.
func (e *entry) look(now time.Time) move {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.looks = now
	return e.show(now)
}

// ruled reports whether it is the fleet's word that keeps requests out. The caller holds
// mu, here and below.
func (e *entry) ruled(now time.Time) bool { return now.Before(e.view.shuts()) }

// refuses says why no request may go there now, nil where one may. While the fleet's word
// is fresh, or Run looks, no request is used to test a breaker: probes do.
func (e *entry) refuses(now time.Time) *OpenError {
	refused := &OpenError{Pool: e.pool, Backend: e.backend}
	switch {
	case e.ruled(now):
		refused.Left = max(e.view.until.Sub(now), 0)
		refused.Probing = e.view.phase == halfOpen || refused.Left == 0
	case e.phase == open && now.Before(e.until):
		refused.Left = e.until.Sub(now)
	case e.phase == halfOpen && e.trial != nil && now.Sub(e.trial.at) < trialBound:
		refused.Probing, refused.Left = true, trialBound-now.Sub(e.trial.at)
	case e.phase != closed && now.Before(e.probed()):
		refused.Probing, refused.Left = true, e.probed().Sub(now)
	default:
		return nil
	}
	return refused
}

// probed is until when probes test the breaker, not requests: while the fleet's word is
// fresh, and while Run looks.
func (e *entry) probed() time.Time {
	last := e.looks
	if e.view.at.After(last) {
		last = e.view.at
	}
	if last.IsZero() {
		return last
	}
	return last.Add(staleAfter)
}

// spared reports whether requests go there although the breaker is open: the pool would
// have too few backends left.
func (e *entry) spared(now time.Time) bool { return !e.may && !e.unreached(now) }

// unreached reports whether what opened the breaker is that the backend cannot be reached.
func (e *entry) unreached(now time.Time) bool {
	if e.ruled(now) {
		return e.view.cut
	}
	return e.cut
}

// show makes what has happened seen: the time until which Open is true, and the move
// since the last time, if there was one.
func (e *entry) show(now time.Time) move {
	e.publish(now)
	p, fleet := e.phase, false
	if e.ruled(now) {
		p, fleet = e.view.phase, true
	}
	m := move{from: e.shown, to: p, fleet: fleet}
	if m.from == m.to {
		return m
	}
	e.shown = p
	switch p {
	case closed:
		e.period++
		e.since, e.evidence = time.Time{}, evidence{}
		e.told, e.doubts = told{}, false // Redis has forgotten it, too
		e.ramping.Store(max(int64(now.Sub(e.base)), 1))
	case open:
		m.open = e.lasts
		if fleet {
			m.open = max(e.view.until.Sub(now), 0)
		}
	}
	if m.from == closed {
		e.since = now
	}
	return m
}

// publish sets the time until which Open is true.
func (e *entry) publish(now time.Time) {
	var until time.Time
	later := func(t time.Time) {
		if t.After(until) {
			until = t
		}
	}
	later(e.view.shuts())
	if e.phase != closed {
		later(e.probed()) // or a newer word: it is not tried by a request before
	}
	switch {
	case e.phase == open:
		later(e.until)
	case e.phase == halfOpen && e.trial != nil:
		later(e.trial.at.Add(trialBound))
	}
	shut := int64(0)
	if now.Before(until) {
		shut = int64(until.Sub(e.base))
	}
	e.broken.Store(shut)
	if e.spared(now) {
		shut = 0
	}
	e.shut.Store(shut)
}

// now is the phase as one would meet it at t, how long that still lasts, and whether it is
// this replica alone that finds the backend broken. An open breaker whose time is over
// counts as half-open before anybody tried it.
func (e *entry) now(t time.Time) (p phase, left time.Duration, alone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p = e.phase
	if e.ruled(t) {
		p = e.view.phase
	} else {
		alone = p != closed && e.view.fresh(t)
	}
	if refused := e.refuses(t); refused != nil {
		left = refused.Left
	}
	if p == open && left == 0 {
		p = halfOpen
	}
	return p, left, alone
}
