package pool

import (
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/pressure"
)

// poisoned is an error that cannot be looked into.
type poisoned struct{ error }

func (poisoned) Unwrap() error { panic("of an error") }

// TestAPanicUnderAPoolsLockLeavesItUnlocked has functions panic while they hold the lock: what they need there is missing.
func TestAPanicUnderAPoolsLockLeavesItUnlocked(t *testing.T) {
	err := errors.New("refused")
	for name, call := range map[string]func(p *Pool, l *Lease){
		"taken":      func(p *Pool, _ *Lease) { p.storeReading(nil, pressure.Reading{}) },
		"show":       func(p *Pool, _ *Lease) { p.noteChanges(nil) },
		"setDown":    func(p *Pool, _ *Lease) { p.setDown(nil, err) },
		"setUp":      func(p *Pool, _ *Lease) { p.setUp(nil, time.Time{}) },
		"unanswered": func(p *Pool, _ *Lease) { p.noteUnanswered(nil, time.Time{}) },
		"settled":    func(p *Pool, _ *Lease) { p.noteAnswer(nil, nil) },
		"release":    func(p *Pool, _ *Lease) { p.release(nil) },
		"replace":    func(p *Pool, _ *Lease) { p.warm = nil; p.replace([]string{"http://c:8000"}) },
		"Done":       func(_ *Pool, l *Lease) { l.backend = nil; l.Done(9) },
		"Failed":     func(_ *Pool, l *Lease) { l.backend = nil; l.ReportFailed() },
		"missed":     func(p *Pool, l *Lease) { p.noteMissed(l.backend, poisoned{err}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := fixed(t, Options{})
			l := pick(t, p, Demand{})
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic: the test shows nothing")
					}
				}()
				call(p, l)
			}()
			if !p.mu.TryLock() {
				t.Error("the pool is locked for good")
			}
		})
	}
}
