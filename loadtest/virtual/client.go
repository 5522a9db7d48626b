package virtual

import (
	"time"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// arrive begins conversation i when its time comes, and plans the next.
func (l *lab) arrive(i int) {
	at, ok := l.work.Start(i)
	if !ok {
		l.ended = true
		return
	}
	l.clock.at(at, func() {
		if !l.work.Silent(i) {
			l.open++
			l.converse(l.work.Session(i), at, func() { l.open-- })
		}
		l.arrive(i + 1)
	})
}

// user goes through conversations until the scenario's time is over.
func (l *lab) user(u, k int) {
	if l.clock.now >= l.scenario.Duration {
		l.open--
		return
	}
	s := l.work.Session(k*l.work.Users() + u)
	l.converse(s, l.clock.now, func() {
		l.clock.after(s.Think(), func() { l.user(u, k+1) })
	})
}

// converse sends a conversation's requests, one after the other's answer.
func (l *lab) converse(s *loadtest.Session, at time.Duration, over func()) {
	l.send(s.Request(), at, func(text string) {
		if text == "" {
			over() // nobody goes on talking to an error
			return
		}
		think, more := s.Answered(text)
		if !more {
			over()
			return
		}
		l.clock.after(think, func() { l.converse(s, l.clock.now, over) })
	})
}

// prompts renders conversations as ids, and remembers the long texts that come
// again and again.
type prompts struct {
	tok   *vllmsim.Tokenizer
	known map[vllmsim.Message][]int32
}

const (
	longText  = 256  // bytes from which a message is remembered
	mostKnown = 4096 // messages remembered
)

func newPrompts() *prompts {
	return &prompts{tok: vllmsim.DefaultTokenizer(), known: map[vllmsim.Message][]int32{}}
}

func (p *prompts) render(list []loadtest.Message) []int32 {
	out := p.tok.AppendStart(make([]int32, 0, 512))
	for _, m := range list {
		msg := vllmsim.Message(m)
		if len(m.Content) < longText {
			out = p.tok.AppendMessage(out, msg)
			continue
		}
		ids, ok := p.known[msg]
		if !ok {
			ids = p.tok.AppendMessage(nil, msg)
			if len(p.known) >= mostKnown {
				clear(p.known)
			}
			p.known[msg] = ids
		}
		out = append(out, ids...)
	}
	return p.tok.AppendGenerationPrompt(out)
}

// unit is uniform in [0, 1), a hash of what it is for.
func unit(parts ...uint64) float64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, p := range parts {
		h ^= p
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 29
		h *= 0x94d049bb133111eb
		h ^= h >> 32
	}
	return float64(h>>11) / (1 << 53)
}
