package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers/pool"
)

// engine is a backend whose memory is filled by tokens.
type engine struct{ held, capacity int }

func (e *engine) usage() float64 { return float64(e.held) / float64(e.capacity) }

// fits says whether a request of so many tokens has room below a limit.
func (e *engine) fits(tokens int, limit float64) bool {
	return limit <= 0 || e.usage() < limit && (e.held == 0 || float64(e.held+tokens) <= limit*float64(e.capacity))
}

// visit is one request of a random sequence.
type visit struct {
	Ticket
	entered time.Time
	done    int
	in      bool
	left    bool
}

// play is a random sequence of what may happen to a line, checked at each step against
// plain lists.
type play struct {
	t        *testing.T
	line     Queue
	now      time.Time
	cfg      Config
	engine   engine
	all      []*visit
	waits    []*visit // in the order in which they came
	holds    []*visit
	entering *visit
	borrowed time.Time // when somebody last had the room of the class above
}

// tries is what a waiter's Try does, with the rules that hold whenever one gets a place.
func (p *play) tries(v *visit, l pool.Admission) error {
	if !p.engine.fits(v.Tokens, l.MaxUsage) {
		return &pool.FullError{Pool: "p", Limit: l.MaxUsage, Usage: p.engine.usage(), Peak: l.MaxUsage, Wait: time.Duration(v.Tokens) * 10 * time.Millisecond}
	}
	trickles := l.MaxUsage > max(v.Config.Threshold[v.Class], p.line.maxUsage(&v.Ticket, p.now))
	if l.MaxUsage > 0 {
		p.ordered(v, trickles)
	}
	if trickles {
		if p.now.Sub(p.borrowed) < starvationInterval || v.Class == high || l.MaxUsage > v.Config.Threshold[v.Class+1] {
			p.t.Errorf("%s got %v at %v, the last that did at %v", v.Class, l.MaxUsage, p.now, p.borrowed)
		}
		p.borrowed = p.now
	}
	p.engine.held += v.Tokens
	v.in = true
	p.holds = append(p.holds, v)
	return nil
}

// ordered checks that v does not pass anybody whose turn is before its own, but for those of
// higher classes when it is its class's time to be let through.
func (p *play) ordered(v *visit, trickles bool) {
	came := p.entering != v // before it, those that are listed before it; a newcomer is not listed
	for _, o := range p.waits {
		switch {
		case o == v:
			came = false
		case o.allowsPassing(v.Tokens, p.now), p.behind(o).allowsPassing(v.Tokens, p.now): // there was no room for it, or for whom it is behind
		case o.rank() > v.rank() && !trickles:
			p.t.Errorf("one of %s got a place while one of %s waits", v.Class, o.Class)
		case p.entering == v && o.rank() >= v.rank():
			p.t.Errorf("a newcomer of %s passed one of %s that waits", v.Class, o.Class)
		case came && o.rank() == v.rank() && o.Tenant == v.Tenant:
			p.t.Errorf("of one tenant, who came at %v went before who came at %v", v.entered, o.entered)
		}
	}
}

// behind is the first of o's tenant.
func (p *play) behind(o *visit) *Ticket { return p.line.waiting[o.rank()].tenants[o.Tenant].tickets[0] }

// told is what a waiter's Done does.
func (p *play) told(v *visit, err error) {
	v.done++
	if (err == nil) != v.in {
		p.t.Errorf("told %v, and has a place: %t", err, v.in)
	}
	if v.left || v.done > 1 {
		p.t.Errorf("told %d times, left: %t", v.done, v.left)
	}
	shed, ok := errors.AsType[*ShedError](err)
	if ok && (v.MidStream || v.NoWait && v.Config.Threshold[v.Class] > 0 || shed.RetryAfter < time.Second || shed.RetryAfter > 30*time.Second || shed.Class != v.Class) {
		p.t.Errorf("%+v of %+v", shed, v.Ticket)
	}
	if err != nil && !ok && !v.NoWait {
		p.t.Errorf("told %v", err)
	}
	p.forget(v)
}

func (p *play) forget(v *visit) {
	for i, o := range p.waits {
		if o == v {
			p.waits = append(p.waits[:i], p.waits[i+1:]...)
			return
		}
	}
}

// step does one thing that two bytes name.
func (p *play) step(what, which byte) {
	switch what % 8 {
	case 0, 1, 2:
		p.enter(what, which)
	case 3:
		if len(p.waits) > 0 {
			v := p.waits[int(which)%len(p.waits)]
			if !p.line.Leave(&v.Ticket) {
				p.t.Error("one that waits could not leave")
			}
			v.left = true
			p.forget(v)
		}
	case 4, 5:
		if len(p.holds) > 0 {
			i := int(which) % len(p.holds)
			p.engine.held -= p.holds[i].Tokens
			p.holds = append(p.holds[:i], p.holds[i+1:]...)
		}
		p.serve()
	default:
		p.now = p.now.Add(time.Duration(which) * 5 * time.Millisecond)
		p.serve()
	}
	p.counts()
}

func (p *play) enter(what, which byte) {
	v := &visit{entered: p.now, Ticket: Ticket{
		Route: fmt.Sprint(which >> 2 % 2), Class: identity.Priority(which % 3), Tenant: fmt.Sprint(which >> 3 % 4),
		Tokens: 1 + int(which)*int(which)%700, Config: p.cfg, NoWait: what>>3%16 == 1, MidStream: what>>3%16 == 2,
	}}
	switch what >> 3 % 16 {
	case 3:
		v.Config.MaxWait = [3]time.Duration{}
	case 4:
		v.Config.Threshold[low], v.Config.Threshold[normal] = 0, 0
	}
	v.Try = func(l pool.Admission) error { return p.tries(v, l) }
	v.Done = func(err error) { p.told(v, err) }
	p.all = append(p.all, v)
	p.entering = v
	p.line.Enter(&v.Ticket, p.now)
	p.entering = nil
	if v.done == 0 {
		p.waits = append(p.waits, v)
	}
}

// serve looks, and checks that nobody is left who could go or whose wait is over.
func (p *play) serve() {
	p.line.Serve(p.now)
	for _, v := range p.waits {
		if wait := v.Config.MaxWait[min(v.rank(), high)]; p.now.Sub(v.entered) >= wait {
			p.t.Errorf("%s waits since %v at %v", v.Class, v.entered, p.now)
		}
	}
	p.line.Serve(p.now) // who was first changed with whom the last look let pass
	p.line.failedTickets = nil
	if h := p.line.next(p.now); h != nil && p.engine.fits(h.Tokens, h.Config.Threshold[h.Class]-h.Config.Hysteresis) {
		p.t.Errorf("one of %s waits while there is room for it", h.Class)
	}
}

// counts checks the line's numbers against the lists.
func (p *play) counts() {
	var n [midStreamRank + 1]int
	for _, v := range p.waits {
		n[v.rank()]++
	}
	for c := range n {
		if got := p.line.waiting[c].n; got != n[c] || got > 2*maxWaiting {
			p.t.Errorf("%d of class %d wait, the line says %d", n[c], c, got)
		}
		waiters := 0
		for name, turns := range p.line.waiting[c].tenants {
			waiters += len(turns.tickets)
			if len(turns.tickets) == 0 {
				p.t.Errorf("tenant %s is remembered with nobody waiting", name)
			}
		}
		if waiters != n[c] {
			p.t.Errorf("%d of class %d wait, in turns %d", n[c], c, waiters)
		}
	}
	if p.line.Len() != len(p.waits) {
		p.t.Errorf("%d wait, the line says %d", len(p.waits), p.line.Len())
	}
}

// run plays what the bytes say, and then until nobody waits.
func run(t *testing.T, script []byte) {
	p := &play{t: t, now: start, cfg: defaultConfig(), engine: engine{capacity: 3000}, line: Queue{Pool: "p"}}
	for i := 0; i+1 < len(script) && !t.Failed(); i += 2 {
		p.step(script[i], script[i+1])
	}
	p.now = p.now.Add(time.Minute)
	p.serve()
	for _, v := range p.all {
		if v.left == (v.done == 1) || v.done > 1 {
			t.Errorf("%s of %s was told %d times, left: %t", v.Class, v.Tenant, v.done, v.left)
		}
	}
	if p.line.Len() != 0 || len(p.line.shedStates) > 6 {
		t.Errorf("%d wait after all, %d places are remembered", p.line.Len(), len(p.line.shedStates))
	}
}

func TestWhateverHappensEachIsToldOnceAndNobodyIsPassed(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 300 {
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		run(t, script)
		if t.Failed() {
			t.Fatalf("script %x", script)
		}
	}
}
