package cache

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/foregate/foregate/tiers/world"
)

// suspicious is a world in which nothing may be told while a lock of the generations is held: in the lab another request
// would go on meanwhile, and wait for ever.
type suspicious struct {
	world.System
	t          *testing.T
	fs         *Generations
	generation *Generation
	told       int // times that the locks were tried
}

// free fails the test where a lock is held.
func (w *suspicious) free(what string) {
	w.told++
	for name, mu := range map[string]*sync.Mutex{"the generations'": &w.fs.mu, "the generation's": &w.generation.mu} {
		if !mu.TryLock() {
			w.t.Errorf("%s lock is held while %s", name, what)
			continue
		}
		mu.Unlock()
	}
}

func (w *suspicious) NewSignal() world.Signal {
	w.free("a signal is made")
	return &suspiciousSignal{w.System.NewSignal(), w}
}

func (w *suspicious) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	w.free("a context is made")
	return w.System.WithTimeout(ctx, d)
}

type suspiciousSignal struct {
	world.Signal
	w *suspicious
}

func (s *suspiciousSignal) Set() {
	s.w.free("a signal is given")
	s.Signal.Set()
}

func TestNoLockIsHeldWhileTheWorldIsTold(t *testing.T) {
	for name, how := range map[string]func(*suspicious, *Subscriber, *Leader){
		"text":           func(_ *suspicious, _ *Subscriber, l *Leader) { l.Append([]byte("x")) },
		"whole":          func(_ *suspicious, _ *Subscriber, l *Leader) { l.Complete(wholeOf("x"), nil) },
		"failed":         func(_ *suspicious, _ *Subscriber, l *Leader) { l.Fail(errors.New("failed"), true) },
		"nobody is left": func(_ *suspicious, s *Subscriber, _ *Leader) { s.Depart() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &suspicious{t: t}
				w.fs = NewGenerations(w)
				leader, follower := w.fs.Join(streamed(1)), w.fs.Join(streamed(1))
				w.generation = leader.generation
				n, err := leader.Next(t.Context(), time.Time{})
				if err != nil || n.Kind != EventLead {
					t.Fatalf("event %d, %v", n.Kind, err)
				}
				n.Leader.Begin(func(error) { w.free("a generation is cancelled") })
				var all sync.WaitGroup
				all.Go(func() {
					_, _ = follower.Next(t.Context(), time.Now().Add(time.Second))
					follower.Depart()
				})
				synctest.Wait()
				was := w.told
				how(w, leader, n.Leader)
				all.Wait()
				leader.Depart()
				if w.told == was {
					t.Error("the world was told nothing: the test shows nothing")
				}
			})
		})
	}
}
