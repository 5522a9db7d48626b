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
func (c *cabin) join() {
	if len(c.subscribers) < 12 {
		c.subscribers = append(c.subscribers, &sitter{subscriber: c.fs.join(c.id)})
	}
}

// leave gives a subscriber up.
func (c *cabin) leave(i int) {
	c.subscribers[i].subscriber.Depart()
	c.subscribers = append(c.subscribers[:i], c.subscribers[i+1:]...)
}

// poll has a subscriber look, as it does when it is woken. It reports whether there was anything.
func (c *cabin) poll(i int, script string) bool {
	s := c.subscribers[i]
	f := s.subscriber.generation
	n, changed := s.subscriber.poll()
	if n != nil && s.asleep() {
		c.t.Fatalf("event %d, and the one who waits for it was not woken", n.Kind)
	}
	if n == nil {
		s.quiet = changed
		return false
	}
	s.quiet = nil
	switch n.Kind {
	case eventLead:
		if c.generation == f && c.lead != nil {
			c.t.Fatal("two lead at a time")
		}
		if c.lead != nil { // of a generation that all have left
			c.end()
		}
		c.lead, c.generation, c.script, c.said, c.ended = n.Leader, f, script, 0, false
		c.lead.Begin(func(error) { c.ended = true })
	case eventText:
		s.told = append(s.told, n.Text...)
		if !c.id.Stream || !bytes.HasPrefix([]byte(c.script[:c.said]), s.told) || !bytes.Equal(s.told, s.subscriber.Sent()) {
			c.t.Fatalf("told %q, and the answer so far is %q", s.told, c.script[:c.said])
		}
	case eventComplete:
		if !bytes.HasPrefix(n.Entry.Answer, s.told) && f.attempt == s.subscriber.attempt {
			c.t.Fatalf("told %q of the attempt that became %q", s.told, n.Entry.Answer)
		}
		c.leave(i)
	case eventFailed:
		if errors.Is(n.Err, ErrBroken) && bytes.HasPrefix([]byte(c.script[:c.said]), s.told) {
			c.t.Fatalf("told %q, which is how %q begins, and it is broken", s.told, c.script[:c.said])
		}
		c.leave(i)
	default:
		c.t.Fatalf("event %d", n.Kind)
	}
	return true
}

// asleep says whether a subscriber waits to be woken.
func (s *sitter) asleep() bool { return s.quiet != nil && !s.quiet.IsSet() }

// say tells n bytes more.
func (c *cabin) say(n int) {
	upTo := min(c.said+n, len(c.script))
	more := []byte(c.script[c.said:upTo])
	if c.lead == nil {
		return
	}
	c.lead.Append(more)
	c.said = upTo
}

// end ends a generation that was cancelled.
func (c *cabin) end() {
	if !c.ended {
		c.t.Fatal("all have left, and it goes on")
	}
	c.lead.Fail(context.Canceled, false)
	c.over()
}

// over notes that the leader has ended.
func (c *cabin) over() { c.ghost, c.lead = c.lead, nil }

// land makes the answer whole.
func (c *cabin) land() {
	if c.lead != nil {
		c.lead.Complete(wholeOf(c.script), nil)
		c.over()
	}
}

// haunt is what a leader says that has ended already.
func (c *cabin) haunt(r int) {
	if c.ghost == nil {
		return
	}
	switch r % 3 {
	case 0:
		c.ghost.Append([]byte("ghost"))
	case 1:
		c.ghost.Fail(errors.New("ghost"), true)
	case 2:
		c.ghost.Complete(wholeOf("ghost"), nil)
	}
}

// step does what two numbers say.
func (c *cabin) step(op, r byte) {
	switch op % 16 {
	case 0, 1:
		c.join()
	case 2, 3, 4, 5:
		if len(c.subscribers) > 0 {
			c.poll(int(r)%len(c.subscribers), scripts[int(r>>4)%len(scripts)])
		}
	case 6, 7, 8:
		c.say(int(r) % 12)
	case 9:
		if len(c.subscribers) > 0 {
			c.leave(int(r) % len(c.subscribers))
		}
	case 10:
		if c.lead != nil {
			c.lead.Fail(errors.New("failed"), r%4 == 0)
			c.over()
		}
	case 11:
		if c.lead != nil && r%4 == 0 {
			c.lead.Opaque()
		}
	case 12, 13, 14:
		c.haunt(int(r))
	case 15:
		if r%4 == 0 {
			c.land()
		}
	}
}

// windUp has all ended that is under way, after which nobody may wait any more.
func (c *cabin) windUp() {
	for range 4 {
		c.land()
		for i := len(c.subscribers) - 1; i >= 0; i-- {
			for polls := 0; i < len(c.subscribers) && c.poll(i, scripts[0]); polls++ {
				if polls > 4 {
					c.t.Fatal("one is told things for ever")
				}
				c.land()
			}
		}
	}
	if len(c.subscribers) > 0 {
		c.t.Fatalf("%d wait for ever", len(c.subscribers))
	}
	allGone(c.t, c.fs)
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
