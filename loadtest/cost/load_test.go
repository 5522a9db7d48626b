package cost

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// exchangeOf is a request, ready for the wire, and what must come back.
type exchangeOf struct {
	request []byte
	marks   int // markers in the answer
	size    int // its bytes; 0 is any
	stream  bool
}

// verify tells a whole answer from one that is not what was asked for.
func (x exchangeOf) verify(m message, d digest) error {
	switch {
	case !bytes.HasPrefix(m.first, []byte("HTTP/1.1 200")):
		return fmt.Errorf("status line %q", m.first)
	case d.marks != x.marks:
		return fmt.Errorf("%d tokens instead of %d", d.marks, x.marks)
	case x.size > 0 && d.size != x.size:
		return fmt.Errorf("%d bytes instead of %d", d.size, x.size)
	case x.stream && !bytes.HasSuffix(d.tail[:], []byte("data: [DONE]\n\n")):
		return fmt.Errorf("the stream ends in %q", d.tail[:])
	case !x.stream && d.tail[len(d.tail)-1] != '}':
		return fmt.Errorf("the answer ends in %q", d.tail[:])
	}
	return nil
}

// session is one client connection.
type session struct {
	conn net.Conn
	wire *wire
}

// timing is when the parts of an answer came, since the request was sent.
type timing struct{ first, last time.Duration }

// maxWait bounds any exchange.
const maxWait = 30 * time.Second

// ask sends a request and reads the answer, which is verified.
func (s *session) ask(x exchangeOf) (timing, error) {
	sent := time.Now()
	if err := s.conn.SetDeadline(sent.Add(maxWait)); err != nil {
		return timing{}, err
	}
	if _, err := s.conn.Write(x.request); err != nil {
		return timing{}, err
	}
	m, err := s.wire.head()
	if err != nil {
		return timing{}, unexpected(err)
	}
	var t timing
	d, err := s.wire.body(m, func() { t.first = time.Since(sent) })
	t.last = time.Since(sent)
	if err == nil {
		err = x.verify(m, d)
	}
	return t, err
}

// load is what a process is put under.
type load struct {
	exchangeOf
	lasts   time.Duration // no request is begun after that
	most    int           // requests per session
	stagger time.Duration // between the first requests of the sessions
	each    []exchangeOf  // of the sessions in turn, in place of the same for all
}

// apply puts p under load and returns how many requests it answered, each of
// them right.
func (p *party) apply(l load) (int, error) {
	var wg sync.WaitGroup
	var count atomic.Int64
	errs := make([]error, len(p.sessions))
	began := time.Now()
	for i, s := range p.sessions {
		wg.Go(func() {
			time.Sleep(time.Duration(i) * l.stagger)
			x := l.exchangeOf
			if len(l.each) > 0 {
				x = l.each[i%len(l.each)]
			}
			for range l.most {
				if l.lasts > 0 && time.Since(began) >= l.lasts {
					return
				}
				if _, errs[i] = s.ask(x); errs[i] != nil {
					return
				}
				count.Add(1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("%s: %d of %d sessions failed, the first: %s", p.name, strings.Count(err.Error(), "\n")+1, len(errs), firstOf(err))
	}
	return int(count.Load()), nil
}

func firstOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// sample is what a load cost a process, per unit.
type sample struct{ cpu, mallocs float64 } // µs, objects

// warmUp is asked on each session before a load is measured, so that the
// connections stand on both sides.
const warmUp = 3

// tally gathers what a load costs one process.
type tally struct {
	party    *party
	requests int
	cpu      float64 // ns
	mallocs  float64
}

// begin makes the process ready for a measurement.
func (t *tally) begin(b *testing.B) {
	b.Helper()
	if _, err := t.party.apply(load{exchangeOf: chatOf(1<<10, "target"), most: warmUp}); err != nil {
		b.Fatalf("warming up: %v", err)
	}
	t.mallocs = t.party.mallocs(b)
}

// slice applies the load once.
func (t *tally) slice(b *testing.B, w workload) {
	b.Helper()
	before := t.party.cpu(b)
	n, err := t.party.apply(w.load)
	if err != nil {
		b.Fatalf("%s: %v", w.title, err)
	}
	t.cpu += t.party.cpu(b) - before
	t.requests += n
}

// end returns the cost per request, or per token where the load has tokens.
func (t *tally) end(b *testing.B, w workload) sample {
	b.Helper()
	objects := t.party.mallocs(b) - t.mallocs - t.party.scrape
	units := float64(t.requests * max(w.tokens, 1))
	return sample{cpu: t.cpu / 1e3 / units, mallocs: objects / units}
}

// requestOf puts a body on the wire with the headers that an OpenAI client
// sends, and some more lines.
func requestOf(path, more, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost:8080\r\nAccept: application/json\r\nContent-Type: application/json\r\n"+
		"User-Agent: OpenAI/Python 2.8.1\r\nX-Stainless-Lang: python\r\nX-Stainless-Runtime: CPython\r\nAccept-Encoding: gzip, deflate\r\n"+
		"%sContent-Length: %d\r\n\r\n%s", path, more, len(body), body)
}

// uncached are the lines that demand a tier and keep a request out of the cache: all
// requests are alike.
func uncached(tier string) string { return "Cache-Control: no-store\r\nX-Tier: " + tier + "\r\n" }

// filled is a body of exactly size bytes: head, prose with the escapes that
// prose has, tail.
func filled(size int, head, tail string) string {
	const prose = `She said: \"the sea is calm tonight\", and the keeper wrote it down.\n`
	text := strings.Repeat(prose, size/len(prose)+1)
	n := size - len(head) - len(tail)
	whole := n - n%len(prose)
	return head + text[:whole] + strings.Repeat("x", n-whole) + tail
}

const conversation = `{"model":"bench","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"`

func embeddingsOf(size int) exchangeOf {
	return exchangeOf{
		request: requestOf("/v1/embeddings", uncached("target"), filled(size, `{"model":"bench","input":"`, `"}`)),
		marks:   1, size: len(embeddingsAnswer()),
	}
}

func chatOf(size int, tier string) exchangeOf {
	return exchangeOf{
		request: requestOf("/v1/chat/completions", uncached(tier), filled(size, conversation, `"}],"temperature":0.7,"max_tokens":200}`)),
		marks:   strings.Count(chatAnswer(), string(marker)),
	}
}

// streaming is a stream to ask for.
type streaming struct {
	model  string // a route; "" is bench
	tier   string
	tokens int
	pause  time.Duration // between them; 0 is none
	laden  bool          // with logprobs, alternatives and token ids
}

func (s streaming) exchange() exchangeOf {
	tail := fmt.Sprintf(`"}],"temperature":0,"max_tokens":%d,"stream":true,"stream_options":{"include_usage":true},%s%d"`, s.tokens, mockPause, s.pause.Microseconds())
	marks := s.tokens
	if s.laden {
		tail += `,"logprobs":true,"top_logprobs":5,"return_token_ids":true`
		marks *= strings.Count(tokenFrame("", 0, true, ""), string(marker))
	}
	return exchangeOf{
		request: requestOf("/v1/chat/completions", uncached(s.tier), filled(1<<10, strings.Replace(conversation, "bench", cmp.Or(s.model, "bench"), 1), tail+"}")),
		marks:   marks, stream: true,
	}
}
