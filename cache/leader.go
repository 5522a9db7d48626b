package cache

import "context"

// Leader is the task to make a generation's answer. It must be ended, by Complete, Fail or Follow; what is said of it after that
// is not heard. It also ends when it turns out late that another replica leads and nobody was told anything yet: then
// what Begin was given is called with [ErrFollows].
type Leader struct {
	generation *Generation
	attempt    int
	said       []byte
	lease      *Lease // that was asked for; nil for none
	follows    bool   // another replica's answer is the generation's; guarded by Generation.mu
}

// Sent returns the text of an earlier attempt that other subscribers may have sent to their clients already. It must not
// be changed.
func (l *Leader) Sent() []byte { return l.said }

// makes reports whether the answer is this leader's to make; the generation's mu is held.
func (l *Leader) makes() bool {
	return l.generation.stage == ledHere && l.generation.attempt == l.attempt
}

// Lease is a new one to be asked for; nil without Redis.
func (l *Leader) Lease() *Lease {
	if l.generation.owner.o.Redis == nil {
		return nil
	}
	l.lease = newLease(l.generation.id)
	l.lease.leader = l
	return l.lease
}

// crowded reports whether others here want the same answer.
func (l *Leader) crowded() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.generation.subscribers > 1
}

// Begin says that the answer is being made; cancel ends that.
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
		f.cancel, f.wanted = cancel, false
	}
	f.unlock()
	if l.lease != nil && l.lease.taken {
		f.owner.hold(l, l.lease)
	}
}

// elected takes in a lease that was taken or found late. It reports whether that is of use: the answer is still being
// made, or another's can still be followed.
func (l *Leader) elected(lease *Lease) bool {
	switch {
	case lease.taken:
		return l.generation.owner.hold(l, lease)
	case lease.Holder != "":
		return l.generation.owner.follow(l, lease)
	}
	return false
}

// Claim says that somebody is about to be told of the answer, so that no other replica's is followed any more. It
// reports false where that is so already: then nothing may be told.
func (l *Leader) Claim() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.claim()
}

// claim is Claim for those who hold the generation's mu.
func (l *Leader) claim() bool {
	if !l.makes() {
		return false
	}
	l.generation.claimed = true
	return true
}

// Append tells those who follow of more text.
func (l *Leader) Append(text []byte) {
	f := l.generation
	f.mu.Lock()
	defer f.unlock()
	if l.claim() {
		f.arrive(text)
	}
}

// Opaque says that the answer is more than text, so that nothing more of it can be told before it is whole.
func (l *Leader) Opaque() {
	f := l.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.claim() {
		f.opaque = true
	}
}

// Complete gives everybody the answer. keep stores it and calls then when that is done; nil is not to be stored.
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

// Fail says that the answer could not be made. Once another of those who wait tries again, unless that is
// hopeless; the second time all share the error.
func (l *Leader) Fail(err error, hopeless bool) {
	f, fs := l.generation, l.generation.owner
	fs.mu.Lock() // nobody follows or leads meanwhile
	f.mu.Lock()
	defer fs.unlock(f)
	if !l.makes() {
		return
	}
	fs.giveBack(f, nil, false) // before another leads under a lease of its own
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

// Follow lets the answer of the replica that has the lease be this generation's. It reports false where no other has it, or
// that cannot be: too many are followed already, or were lost. Then the answer is still to be made here.
func (l *Leader) Follow() bool {
	return l.lease != nil && l.lease.Holder != "" && l.generation.owner.follow(l, l.lease)
}

// Follows reports whether another replica's answer is the generation's.
func (l *Leader) Follows() bool {
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	return l.follows
}

// depend makes the generation another replica's to make. It reports false where somebody was told of the answer that is made
// here, or too many leaders were lost. The generation's mu is held.
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
