package economy

import "sync"

const (
	// memory is the effective number of samples of an average: each new one has a weight of 1/200. Half of the weight
	// is gone after 138 samples (200·ln 2).
	memory = 200
	keep   = 1 - 1.0/memory
	// fade is the decay of draft statistics by an answer of the target alone: half is gone after 1,386 requests without
	// a draft (2000·ln 2). With 2 % explored requests the statistics settle at about 34 drafts, half of them from the
	// last 1,150 requests. So a traffic class without drafts (break-even .46) whose acceptance rises from .05 to .7 gets
	// drafts again after 1,000 requests in the median, 1,450 at the 90 % quantile. Without exploration it is tried about
	// once in 600 requests, because its upper bound rises to the break-even.
	fade = 1 - 1.0/2000
	// maxClasses bounds the traffic classes. Routes come from the configuration, and each has eight classes for a mode;
	// further classes are not learned.
	maxClasses = 4096
	// priorAnswers is the weight of outputDefault in answers until there are as many samples.
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

// LengthOf returns the class of a prompt of so many tokens.
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

// String returns the class as metrics and receipts name it.
func (l Length) String() string {
	return [...]string{"to_256", "to_1k", "to_4k", "above_4k"}[min(l, Above4k)]
}

// TrafficClass is a group of requests with common statistics.
type TrafficClass struct {
	Route   string
	Variant string // target pool of the request, if it is not the route's pool in force; "" otherwise
	Mode    string // by which drafts are judged
	Prompt  Length
	Whole   bool // nothing is released before the whole draft was judged
}

// Outcome is the result of a request. Drafts that failed by the draft pool's fault, and requests whose client left, are
// not learned.
type Outcome struct {
	Drafted bool // a draft was judged; else the target alone answered
	Served  bool // the whole draft was the answer

	Prompt int // tokens; 0 is unknown
	Output int // tokens of the answer, whoever wrote them; 0 is unknown

	// Of a draft that was not served.
	Holdback int // its tokens until the decision
	Salvaged int // of these, part of the answer
}

// Statistics holds exponentially decaying averages of each traffic class: each new sample has a weight of 1/200. It is
// safe for concurrent use; the zero value is ready. It must not be copied after first use.
type Statistics struct {
	mu  sync.Mutex // of all classes: each use takes less than a microsecond
	all map[TrafficClass]*classStatistics
}

// classStatistics is what is known of one traffic class.
type classStatistics struct {
	drafts       float64 // judged, old ones counting less
	served       float64 // of these
	holdback     mean    // tokens until the decision, of drafts that were not served
	salvaged     mean    // of these
	prompt       mean    // of all answers
	output       mean    // of all answers
	answersKnown float64 // answers with a length, up to priorAnswers
}

// mean is an exponentially weighted mean.
type mean struct{ weight, sum float64 }

func (m *mean) add(v float64) { m.weight, m.sum = m.weight*keep+1, m.sum*keep+v }

func (m *mean) of() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// Learn adds the outcome of a request.
func (s *Statistics) Learn(of TrafficClass, o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[of]
	if p == nil {
		if len(s.all) >= maxClasses {
			return
		}
		if s.all == nil {
			s.all = map[TrafficClass]*classStatistics{}
		}
		p = new(classStatistics)
		s.all[of] = p
	}
	if o.Prompt > 0 {
		p.prompt.add(float64(o.Prompt))
	}
	if o.Output > 0 {
		p.output.add(float64(o.Output))
		p.answersKnown = min(p.answersKnown+1, priorAnswers)
	}
	if !o.Drafted {
		p.drafts, p.served = p.drafts*fade, p.served*fade
		return
	}
	p.drafts, p.served = p.drafts*keep+1, p.served*keep
	if o.Served {
		p.served++
		return
	}
	holdback := max(o.Holdback, 0)
	p.holdback.add(float64(holdback))
	p.salvaged.add(float64(min(max(o.Salvaged, 0), holdback)))
}

// Expect returns what to expect of the class's next request. Without samples the upper bound of acceptance is 1 and the
// answer has the default length. It does not allocate.
func (s *Statistics) Expect(of TrafficClass) Expectation {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.all[of]
	if p == nil {
		return Expectation{UpperBound: 1, Output: outputDefault}
	}
	return p.expect()
}

func (c *classStatistics) expect() Expectation {
	e := Expectation{Samples: c.drafts, UpperBound: UpperBound(c.served, c.drafts), Prompt: c.prompt.of(), Holdback: c.holdback.of()}
	if c.drafts > 0 {
		e.Acceptance = share(c.served / c.drafts)
	}
	if c.holdback.sum > 0 {
		e.Salvaged = share(c.salvaged.sum / c.holdback.sum)
	}
	known := c.answersKnown / priorAnswers
	e.Output = outputDefault*(1-known) + c.output.of()*known
	return e
}

// Each calls f for every known class, in no order, with its expectation. f must not use the statistics.
func (s *Statistics) Each(f func(TrafficClass, Expectation)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, p := range s.all {
		f(of, p.expect())
	}
}
