package cache

import "context"

// Leader is the task to make a generation's answer. It must be ended with Complete or Fail; later calls have
// no effect.
type Leader struct {
	generation *Generation
	attempt    int
	sentBefore []byte
}

// Sent returns the text of an earlier attempt that other subscribers may have sent to their clients. It is
// read-only.
func (l *Leader) Sent() []byte { return l.sentBefore }

// makes reports whether this leader must still make the answer; the generation's mu is held.
func (l *Leader) makes() bool {
	return l.generation.stage == led && l.generation.attempt == l.attempt
}

// Begin reports that the answer is being made; cancel cancels that, at once if no request wants it any more.
func (l *Leader) Begin(cancel context.CancelCauseFunc) {
	f := l.generation
	f.mu.Lock()
	defer f.unlock()
	f.cancel = cancel
	if f.dead {
		f.later.cancel, f.later.why = cancel, context.Canceled
	}
}

// Append sends more text to the followers.
func (l *Leader) Append(text []byte) {
	f := l.generation
	f.mu.Lock()
	defer f.unlock()
	if l.makes() {
		f.arrive(text)
	}
}

// Opaque reports that the answer is more than text, so that it can only be shared when it is complete.
func (l *Leader) Opaque() {
	f := l.generation
	f.mu.Lock()
	defer f.mu.Unlock()
	if l.makes() {
		f.opaque = true
	}
}

// Complete gives all subscribers the answer. keep stores it and calls then afterwards; nil: it is not stored.
// Requests that come until then get the answer, too.
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
		f.owner.forget(f)
	default:
		keep(func() { f.owner.forget(f) })
	}
}

// Fail reports that the answer could not be made. The first time another waiting subscriber tries again,
// unless hopeless is set; the second time all of them get the error.
func (l *Leader) Fail(err error, hopeless bool) {
	f, fs := l.generation, l.generation.owner
	fs.mu.Lock() // nobody may join or lead meanwhile
	f.mu.Lock()
	defer fs.unlock(f)
	if !l.makes() {
		return
	}
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
