package tiers

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/foregate/foregate/tiers/world"
)

// Three answers to one request: the second begins as the first does.
var scripts = [3]string{
	"the quick brown fox jumps over the lazy dog",
	"the quick brown fox sleeps",
	"a quick brown fox",
}

// sitter is a subscriber in the model, with what it was told.
type sitter struct {
	subscriber *subscriber
	told       []byte
	quiet      world.Signal // given when it is to look again; nil: at once
}

// cabin is one generation's requests, with what is known of them from outside.
type cabin struct {
	t           testing.TB
	fs          *Generations
	id          generationID
	subscribers []*sitter

	lead       *leader // who makes it
	generation *sharedGeneration
	ghost      *leader // who made it before
	script     string
	said       int // bytes of it
	ended      bool
}

// join takes one more subscriber.
func (w *cabin) join() {
	if len(w.subscribers) < 12 {
		w.subscribers = append(w.subscribers, &sitter{subscriber: w.fs.join(w.id)})
	}
}

// leave gives a subscriber up.
func (w *cabin) leave(i int) {
	w.subscribers[i].subscriber.Depart()
	w.subscribers = append(w.subscribers[:i], w.subscribers[i+1:]...)
}

// poll has a subscriber look, as it does when it is woken. It reports whether there was anything.
func (w *cabin) poll(i int, script string) bool {
	s := w.subscribers[i]
	f := s.subscriber.generation
	n, changed := s.subscriber.poll()
	if n != nil && s.asleep() {
		w.t.Fatalf("event %d, and the one who waits for it was not woken", n.Kind)
	}
	if n == nil {
		s.quiet = changed
		return false
	}
	s.quiet = nil
	switch n.Kind {
	case eventLead:
		if w.generation == f && w.lead != nil {
			w.t.Fatal("two lead at a time")
		}
		if w.lead != nil { // of a generation that all have left
			w.end()
		}
		w.lead, w.generation, w.script, w.said, w.ended = n.Leader, f, script, 0, false
		w.lead.Begin(func(error) { w.ended = true })
	case eventText:
		s.told = append(s.told, n.Text...)
		if !w.id.Stream || !bytes.HasPrefix([]byte(w.script[:w.said]), s.told) || !bytes.Equal(s.told, s.subscriber.Sent()) {
			w.t.Fatalf("told %q, and the answer so far is %q", s.told, w.script[:w.said])
		}
	case eventComplete:
		if !bytes.HasPrefix(n.Entry.Answer, s.told) && f.attempt == s.subscriber.attempt {
			w.t.Fatalf("told %q of the attempt that became %q", s.told, n.Entry.Answer)
		}
		w.leave(i)
	case eventFailed:
		if errors.Is(n.Err, ErrBroken) && bytes.HasPrefix([]byte(w.script[:w.said]), s.told) {
			w.t.Fatalf("told %q, which is how %q begins, and it is broken", s.told, w.script[:w.said])
		}
		w.leave(i)
	default:
		w.t.Fatalf("event %d", n.Kind)
	}
	return true
}

// asleep says whether a subscriber waits to be woken.
func (s *sitter) asleep() bool { return s.quiet != nil && !s.quiet.IsSet() }

// say tells n bytes more.
func (w *cabin) say(n int) {
	upTo := min(w.said+n, len(w.script))
	more := []byte(w.script[w.said:upTo])
	if w.lead == nil {
		return
	}
	w.lead.Append(more)
	w.said = upTo
}

// end ends a generation that was cancelled.
func (w *cabin) end() {
	if !w.ended {
		w.t.Fatal("all have left, and it goes on")
	}
	w.lead.Fail(context.Canceled, false)
	w.over()
}

// over notes that the leader has ended.
func (w *cabin) over() { w.ghost, w.lead = w.lead, nil }

// land makes the answer whole.
func (w *cabin) land() {
	if w.lead != nil {
		w.lead.Complete(wholeOf(w.script), nil)
		w.over()
	}
}

// haunt is what a leader says that has ended already.
func (w *cabin) haunt(r int) {
	if w.ghost == nil {
		return
	}
	switch r % 3 {
	case 0:
		w.ghost.Append([]byte("ghost"))
	case 1:
		w.ghost.Fail(errors.New("ghost"), true)
	case 2:
		w.ghost.Complete(wholeOf("ghost"), nil)
	}
}

// step does what two numbers say.
func (w *cabin) step(op, r byte) {
	switch op % 16 {
	case 0, 1:
		w.join()
	case 2, 3, 4, 5:
		if len(w.subscribers) > 0 {
			w.poll(int(r)%len(w.subscribers), scripts[int(r>>4)%len(scripts)])
		}
	case 6, 7, 8:
		w.say(int(r) % 12)
	case 9:
		if len(w.subscribers) > 0 {
			w.leave(int(r) % len(w.subscribers))
		}
	case 10:
		if w.lead != nil {
			w.lead.Fail(errors.New("failed"), r%4 == 0)
			w.over()
		}
	case 11:
		if w.lead != nil && r%4 == 0 {
			w.lead.Opaque()
		}
	case 12, 13, 14:
		w.haunt(int(r))
	case 15:
		if r%4 == 0 {
			w.land()
		}
	}
}

// windUp has all ended that is under way, after which nobody may wait any more.
func (w *cabin) windUp() {
	for range 4 {
		w.land()
		for i := len(w.subscribers) - 1; i >= 0; i-- {
			for polls := 0; i < len(w.subscribers) && w.poll(i, scripts[0]); polls++ {
				if polls > 4 {
					w.t.Fatal("one is told things for ever")
				}
				w.land()
			}
		}
	}
	if len(w.subscribers) > 0 {
		w.t.Fatalf("%d wait for ever", len(w.subscribers))
	}
	allGone(w.t, w.fs)
}

// live runs a cabin through what the bytes say, two for a step.
func live(t testing.TB, stream bool, ops []byte) {
	w := &cabin{t: t, fs: NewGenerations(world.System{}), id: generationID{Key: keyNo(1), Stream: stream}}
	for ; len(ops) > 1; ops = ops[2:] {
		w.step(ops[0], ops[1])
	}
	w.windUp()
}

func TestWhateverHappensOneLeadsNoneIsToldWhatIsNotTheAnswerAndNoneWaitsForEver(t *testing.T) {
	runs := 20_000
	if raced {
		runs = 4_000
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 66))
		ops := make([]byte, 2*(20+r.IntN(200)))
		for i := range ops {
			ops[i] = byte(r.Uint32())
		}
		live(t, seed%4 > 0, ops)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzAGeneration(f *testing.F) {
	f.Add(true, []byte{0, 0, 0, 0, 2, 0, 6, 11, 2, 1, 10, 1, 2, 1, 6, 11, 15, 0})
	f.Add(true, []byte{0, 0, 2, 0, 12, 0, 0, 0, 6, 7, 2, 1, 14, 0, 2, 0x10, 6, 7, 14, 0, 2, 0})
	f.Add(false, []byte{0, 0, 0, 0, 2, 0, 9, 0, 9, 0, 0, 0, 2, 0})
	f.Fuzz(func(t *testing.T, stream bool, ops []byte) { live(t, stream, ops[:min(len(ops), 4096)]) })
}
