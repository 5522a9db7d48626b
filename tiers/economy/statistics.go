package economy

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memory is how many drafts or answers an average rests on in the long run: each new
	// one takes 1/200 of it. Half of what is known is forgotten after 138 (200·ln 2).
	memory = 200
	keep   = 1 - 1.0/memory
	// fade is what an answer of the target alone leaves of the evidence about drafts of
	// its bucket: half of it is gone after 1,386 requests that were not drafted
	// (2000·ln 2). Where 2 % are drafted all the same, the evidence settles at about 34
	// drafts, half of them from the last 1,150 requests. So a shut bucket (break-even .46)
	// whose acceptance goes from .05 to .7 opens after 1,000 requests at the median, 1,450
	// at the 90 % quantile; one of which no request is explored is tried again once in
	// about 600 requests, because its upper bound rises to the break-even.
	fade = 1 - 1.0/2000
	// maxClasses bounds the book. Routes come from the configuration, and each has eight for a mode
	// buckets; what would be beyond is not learned.
	maxClasses = 4096
	// priorAnswers is how many answers outputDefault counts for until there are as many.
	priorAnswers = 4
)

// Length is a class of prompt lengths.
type Length uint8

// The classes, by tokens.
const (
	UpTo256 Length = iota
	UpTo1k         // 1,024
	UpTo4k         // 4,096
	Above4k
	lengths
)

// LengthOf is the class of a prompt of so many tokens.
func LengthOf(prompt int) Length {
	switch {
	case prompt <= 256:
		return UpTo256
	case prompt <= 1024:
		return UpTo1k
	case prompt <= 4096:
		return UpTo4k
	}
	return Above4k
}

// String is the class as metrics and receipts name it.
func (l Length) String() string {
	return [...]string{"to_256", "to_1k", "to_4k", "above_4k"}[min(l, Above4k)]
}

// TrafficClass is a kind of request: what is learned of one is expected of the next.
type TrafficClass struct {
	Route  string
	Mode   string // by which drafts are judged
	Prompt Length
	Whole  bool // nothing is released before the whole draft was judged
}

// TrafficClassOf is the bucket of a request to a route with a prompt of so many tokens.
func TrafficClassOf(route, mode string, prompt int, whole bool) TrafficClass {
	return TrafficClass{Route: route, Mode: mode, Prompt: LengthOf(prompt), Whole: whole}
}

// Outcome is what became of a request. Drafts that failed by the draft pool's fault, and
// requests whose client left, tell nothing and are not learned.
type Outcome struct {
	Drafted bool // a draft was judged; else the target alone answered
	Served  bool // the draft was the answer, all of it

	Prompt int // tokens; 0 is unknown
	Output int // tokens of the answer, whoever wrote them; 0 is unknown

	// Of a draft that was not served.
	Held     int // its tokens until that was decided
	Salvaged int // of these, that went into the answer

	// FirstByte is when the client's first byte came, after the request; 0 is unknown.
	FirstByte time.Duration
	// TargetFirst is how long the target took for its first token once it was asked,
	// where it took over from a draft; 0 is unknown. Where all requests are drafted nothing
	// else tells how soon it would have answered.
	TargetFirst time.Duration
}

// Statistics is what is learned of each bucket: averages in which each new sample counts 1/200,
// so about the last 200. It is safe for concurrent use; the zero value is ready. It must
// not be copied once used.
type Statistics struct {
	all atomic.Pointer[map[TrafficClass]*classStatistics] // never changed, only replaced
	mu  sync.Mutex                                        // held while it is replaced
}

// NewStatistics returns a book in which nothing is written.
func NewStatistics() *Statistics { return new(Statistics) }

// classStatistics is what is known of one bucket.
type classStatistics struct {
	mu           sync.Mutex
	drafts       float64 // judged, old ones counting less
	served       float64 // of these
	held         mean    // tokens until the decision, of drafts that were not served
	salvaged     mean    // of these
	prompt       mean    // of all answers
	output       mean    // of all answers
	draftFirst   mean    // seconds
	targetFirst  mean    // seconds
	answersKnown float64 // answers with a length, up to priorAnswers
}

// mean is a weighted mean in which each new sample takes the same share.
type mean struct{ weight, sum float64 }

func (m *mean) add(v float64) { m.weight, m.sum = m.weight*keep+1, m.sum*keep+v }

func (m *mean) of() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// find finds a bucket's, nil where there is none.
func (b *Statistics) find(of TrafficClass) *classStatistics {
	all := b.all.Load()
	if all == nil {
		return nil
	}
	return (*all)[of]
}

// findOrAdd finds or makes a bucket's page; nil where the book is full.
func (b *Statistics) findOrAdd(of TrafficClass) *classStatistics {
	if p := b.find(of); p != nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.find(of); p != nil {
		return p
	}
	next := map[TrafficClass]*classStatistics{}
	if all := b.all.Load(); all != nil {
		if len(*all) >= maxClasses {
			return nil
		}
		next = maps.Clone(*all)
	}
	p := new(classStatistics)
	next[of] = p
	b.all.Store(&next)
	return p
}

// Learn takes in what became of a request.
func (b *Statistics) Learn(of TrafficClass, o Outcome) {
	p := b.findOrAdd(of)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Prompt > 0 {
		p.prompt.add(float64(o.Prompt))
	}
	if o.Output > 0 {
		p.output.add(float64(o.Output))
		p.answersKnown = min(p.answersKnown+1, priorAnswers)
	}
	if !o.Drafted {
		p.drafts, p.served = p.drafts*fade, p.served*fade
		if o.FirstByte > 0 {
			p.targetFirst.add(o.FirstByte.Seconds())
		}
		return
	}
	p.drafts, p.served = p.drafts*keep+1, p.served*keep
	if o.FirstByte > 0 {
		p.draftFirst.add(o.FirstByte.Seconds())
	}
	if o.Served {
		p.served++
		return
	}
	held := max(o.Held, 0)
	p.held.add(float64(held))
	p.salvaged.add(float64(min(max(o.Salvaged, 0), held)))
	if o.TargetFirst > 0 {
		p.targetFirst.add(o.TargetFirst.Seconds())
	}
}

// Expect tells what the next request of a bucket is expected to be like. Of a bucket of
// which nothing is known the acceptance's upper bound is 1, and an answer has the usual
// length. It allocates nothing and may be asked for every request.
func (b *Statistics) Expect(of TrafficClass) Expectation {
	p := b.find(of)
	if p == nil {
		return Expectation{UpperBound: 1, Output: outputDefault}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.expect()
}

func (p *classStatistics) expect() Expectation {
	e := Expectation{Samples: p.drafts, UpperBound: UpperBound(p.served, p.drafts), Prompt: p.prompt.of(), Held: p.held.of()}
	if p.drafts > 0 {
		e.Acceptance = share(p.served / p.drafts)
	}
	if p.held.sum > 0 {
		e.Salvaged = share(p.salvaged.sum / p.held.sum)
	}
	known := p.answersKnown / priorAnswers
	e.Output = outputDefault*(1-known) + p.output.of()*known
	if p.draftFirst.weight > 0 && p.targetFirst.weight > 0 {
		e.ExtraTTFT = time.Duration((p.draftFirst.of() - p.targetFirst.of()) * float64(time.Second))
	}
	return e
}

// Each calls f for every bucket of which something is known, in no order, with what is
// expected of it.
func (b *Statistics) Each(f func(TrafficClass, Expectation)) {
	all := b.all.Load()
	if all == nil {
		return
	}
	for of := range *all {
		f(of, b.Expect(of))
	}
}
