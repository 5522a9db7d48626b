package cache

import "context"

// Leader is the task to make a generation's answer. It must be ended with Complete, Fail or Follow; later
// calls have no effect. It also ends if it turns out late that another replica leads and no client has
// received anything yet: then Begin's cancel function is called with [ErrFollows].
type Leader struct {
	generation *Generation
	attempt    int
	sentBefore []byte
	lease      *Lease // the requested lease; nil for none
	follows    bool   // the generation uses another replica's answer; guarded by Generation.mu
}

// Sent returns the text of an earlier attempt that other subscribers may have sent to their clients. It is
// read-only.
func (l *Leader) Sent() []byte { return l.sentBefore }

// makes reports whether this leader must still make the answer; the generation's mu is held.
func (l *Leader) makes() bool {
	return l.generation.stage == ledHere && l.generation.attempt == l.attempt
}

// Lease returns a new lease to request; nil without Redis.
func (l *Leader) Lease() *Lease {
	if l.generation.owner.o.Redis == nil {
		return nil
	}
	l.lease = newLease(l.generation.id)
	l.lease.leader = l
	return l.lease
}

// crowded reports whether other requests here want the same answer.
func (l *Leader) crowded() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.generation.subscribers > 1
}

// Begin reports that the answer is being made; cancel cancels that.
func (l *Leader) Begin(cancel context.CancelCauseFunc) {
	f := l.generation
	f.mu.Lock()
	switch {
	case !l.makes():
		f.later.cancel, f.later.why = cancel, ErrFollows
	case f.dead:
		f.later.cancel, f.later.why = cancel, context.Canceled
		fallthrough
	default:
		f.cancel, f.hasFollower = cancel, false
	}
	f.unlock()
	if l.lease != nil && l.lease.taken {
		f.owner.hold(l, l.lease)
	}
}

// elected handles a lease that was taken or found late. It reports whether the lease is useful: the answer is
// still being made, or another replica's can still be followed.
func (l *Leader) elected(lease *Lease) bool {
	switch {
	case lease.taken:
		return l.generation.owner.hold(l, lease)
	case lease.Holder != "":
		return l.generation.owner.follow(l, lease)
	}
	return false
}

// Claim reports that a client will now receive some of the answer, so that no other replica's can be followed
// any more. It returns false if another one is followed already: then nothing may be sent.
func (l *Leader) Claim() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.claim()
}

// claim is Claim with the generation's mu held.
func (l *Leader) claim() bool {
	if !l.makes() {
		return false
	}
	l.generation.claimed = true
	return true
}

// Append sends more text to the followers.
func (l *Leader) Append(text []byte) {
	f := l.generation
	f.mu.Lock()
	defer f.unlock()
	if l.claim() {
		f.arrive(text)
	}
}

// Opaque reports that the answer is more than text, so that it can only be shared when it is complete.
func (l *Leader) Opaque() {
	f := l.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.claim() {
		f.opaque = true
	}
}

// Complete gives all subscribers the answer. keep stores it and calls then afterwards; nil: it is not stored.
func (l *Leader) Complete(e *Entry, keep func(then func())) {
	f := l.generation
	f.mu.Lock()
	ours := l.makes()
	if ours {
		f.stage, f.entry, f.cancel = completed, e, nil
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

// Fail reports that the answer could not be made. The first time another waiting subscriber tries again,
// unless hopeless is set; the second time all of them get the error.
func (l *Leader) Fail(err error, hopeless bool) {
	f, fs := l.generation, l.generation.owner
	fs.mu.Lock() // nobody may follow or lead meanwhile
	f.mu.Lock()
	defer fs.unlock(f)
	if !l.makes() {
		return
	}
	fs.giveBack(f, nil, false) // before another one leads under its own lease
	f.cancel = nil
	f.failed++
	if hopeless || f.failed > 1 || f.subscribers == 0 {
		f.stage, f.err = failed, err
		fs.drop(f)
	} else {
		f.stage = leaderless
	}
	f.wake()
}

// Follow makes the generation use the answer of the replica that has the lease. It returns false if no other
// replica has it, or if too many are followed already or were lost. Then the answer must be made here.
func (l *Leader) Follow() bool {
	return l.lease != nil && l.lease.Holder != "" && l.generation.owner.follow(l, l.lease)
}

// Follows reports whether the generation uses another replica's answer.
func (l *Leader) Follows() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.follows
}

// depend makes another replica's answer the generation's. It returns false if a client has received some of
// the answer that is made here, or too many leaders were lost. The generation's mu is held.
func (l *Leader) depend() bool {
	f := l.generation
	if !l.makes() || f.claimed || f.dead || f.lostLeaders >= maxLostLeaders {
		return false
	}
	f.stage, l.follows = ledElsewhere, true
	if f.cancel != nil {
		f.later.cancel, f.later.why = f.cancel, ErrFollows
		f.cancel = nil
	}
	return true
}
