package virtual

import (
	"context"
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
	l.clock.At(at, func() {
		if !l.work.Silent(i) {
			l.open++
			l.clock.Go(func() {
				l.converse(l.work.Session(i))
				l.open--
			})
		}
		l.arrive(i + 1)
	})
}

// user goes through conversations until the scenario's time is over.
func (l *lab) user(u int) {
	defer func() { l.open-- }()
	if !l.sleep(l.work.FirstThink(u)) {
		return
	}
	for k := 0; l.clock.Elapsed() < l.scenario.Duration; k++ {
		s := l.work.Session(k*l.work.Users() + u)
		l.converse(s)
		if !l.sleep(s.Think()) {
			return
		}
	}
}

// sleep reports whether the run goes on.
func (l *lab) sleep(d time.Duration) bool { return l.clock.Sleep(context.Background(), d) == nil }

// converse sends a conversation's requests, one after the other's answer.
func (l *lab) converse(s *loadtest.Session) {
	for {
		text := l.send(s.Request())
		if text == "" {
			return // nobody goes on talking to an error
		}
		think, more := s.Answered(text)
		if !more || !l.sleep(think) {
			return
		}
	}
}

// prompts renders conversations as ids, and remembers the long texts that come
// again and again.
type prompts struct {
	tok      *vllmsim.Tokenizer
	tokenIDs map[vllmsim.Message][]int32
}

const (
	longText   = 256  // bytes from which a message is remembered
	maxPrompts = 4096 // messages remembered
)

func newPrompts() *prompts {
	return &prompts{tok: vllmsim.DefaultTokenizer(), tokenIDs: map[vllmsim.Message][]int32{}}
}

func (p *prompts) render(list []loadtest.Message) []int32 {
	out := p.tok.AppendStart(make([]int32, 0, 512))
	for _, m := range list {
		msg := vllmsim.Message(m)
		if len(m.Content) < longText {
			out = p.tok.AppendMessage(out, msg)
			continue
		}
		ids, ok := p.tokenIDs[msg]
		if !ok {
			ids = p.tok.AppendMessage(nil, msg)
			if len(p.tokenIDs) >= maxPrompts {
				clear(p.tokenIDs)
			}
			p.tokenIDs[msg] = ids
		}
		out = append(out, ids...)
	}
	return p.tok.AppendGenerationPrompt(out)
}
