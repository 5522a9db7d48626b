package cache

import "context"

// Lead is the task to make a flight's answer. It must be ended, by Land, Fail or Follow; what is said of it after that
// is not heard. It also ends when it turns out late that another replica leads and nobody was told anything yet: then
// what Begin was given is called with [ErrFollows].
type Lead struct {
	Said []byte // text that an attempt before this one had come to, and that others may have told their clients; not to be changed

	flight  *Flight
	attempt int
	follows bool // another replica's answer is the flight's; guarded by Flight.mu
}

// makes reports whether the answer is this lead's to make; the flight's mu is held.
func (l *Lead) makes() bool { return l.flight.stage == led && l.flight.attempt == l.attempt }

// Lease is a new one to be asked for; nil without Redis.
func (l *Lead) Lease() *Lease {
	if l.flight.owner.o.Redis == nil {
		return nil
	}
	lease := newLease(l.flight.id)
	lease.lead = l
	return lease
}

// crowded reports whether others here want the same answer.
func (l *Lead) crowded() bool {
	l.flight.mu.Lock()
	defer l.flight.mu.Unlock()
	return l.flight.seats > 1
}

// Begin says that the answer is being made; cancel ends that. lease is the one that was asked for, nil without.
func (l *Lead) Begin(lease *Lease, cancel context.CancelCauseFunc) {
	f := l.flight
	f.mu.Lock()
	switch {
	case !l.makes():
		f.later.cancel, f.later.why = cancel, ErrFollows
	case f.dead:
		f.later.cancel, f.later.why = cancel, context.Canceled
		fallthrough
	default:
		f.cancel, f.wanted = cancel, false
	}
	f.unlock()
	if lease != nil && lease.taken {
		f.owner.hold(l, lease)
	}
}

// elected takes in a lease that was taken or found late. It reports whether that is of use: the answer is still being
// made, or another's can still be followed.
func (l *Lead) elected(lease *Lease) bool {
	switch {
	case lease.taken:
		return l.flight.owner.hold(l, lease)
	case lease.Holder != "":
		return l.flight.owner.follow(l, lease)
	}
	return false
}

// Claim says that somebody is about to be told of the answer, so that no other replica's is followed any more. It
// reports false where that is so already: then nothing may be told.
func (l *Lead) Claim() bool {
	l.flight.mu.Lock()
	defer l.flight.mu.Unlock()
	return l.claim()
}

// claim is Claim for those who hold the flight's mu.
func (l *Lead) claim() bool {
	if !l.makes() {
		return false
	}
	l.flight.claimed = true
	return true
}

// Append tells those who follow of more text.
func (l *Lead) Append(text []byte) {
	f := l.flight
	f.mu.Lock()
	defer f.unlock()
	if l.claim() {
		f.arrive(text)
	}
}

// Opaque says that the answer is more than text, so that nothing more of it can be told before it is whole.
func (l *Lead) Opaque() {
	f := l.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.claim() {
		f.opaque = true
	}
}

// Land gives everybody the answer. keep stores it and calls then when that is done; nil is not to be stored.
func (l *Lead) Land(e *Entry, keep func(then func())) {
	f := l.flight
	f.mu.Lock()
	ours := l.makes()
	if ours {
		f.stage, f.entry, f.cancel = landed, e, nil
		f.wake()
	}
	f.unlock()
	switch {
	case !ours:
	case keep == nil:
		f.owner.end(f, e, false)
	default:
		keep(func() { f.owner.end(f, e, true) })
	}
}

// Fail says that the answer could not be made. Once another of those who wait tries again, unless that is
// hopeless; the second time all share the error.
func (l *Lead) Fail(err error, hopeless bool) {
	f, fs := l.flight, l.flight.owner
	fs.mu.Lock() // nobody follows or leads meanwhile
	f.mu.Lock()
	defer fs.unlock(f)
	if !l.makes() {
		return
	}
	fs.giveBack(f, nil, false) // before another leads under a lease of its own
	f.cancel = nil
	f.failed++
	if hopeless || f.failed > 1 || f.seats == 0 {
		f.stage, f.err = failed, err
		fs.drop(f)
	} else {
		f.stage = vacant
	}
	f.wake()
}

// Follow lets another replica's answer be this flight's. It reports false where that cannot be: too many are
// followed already, or were lost. Then the answer is still to be made here.
func (l *Lead) Follow(lease *Lease) bool { return l.flight.owner.follow(l, lease) }

// Follows reports whether another replica's answer is the flight's.
func (l *Lead) Follows() bool {
	l.flight.mu.Lock()
	defer l.flight.mu.Unlock()
	return l.follows
}

// depend makes the flight another replica's to make. It reports false where somebody was told of the answer that is made
// here, or too many leaders were lost. The flight's mu is held.
func (l *Lead) depend() bool {
	f := l.flight
	if !l.makes() || f.claimed || f.dead || f.vacated >= mostVacated {
		return false
	}
	f.stage, l.follows = remote, true
	if f.cancel != nil {
		f.later.cancel, f.later.why = f.cancel, ErrFollows
		f.cancel = nil
	}
	return true
}
