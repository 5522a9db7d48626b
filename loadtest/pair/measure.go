package pair

import (
	"math"
	"slices"
	"time"
)

// The ways in which questions are answered. Those of the modes have the names of the modes.
const (
	wayAlone      = "target alone"
	wayAgain      = "target alone, again"
	wayDraft      = "draft alone"
	wayOff        = "off"
	wayRisk       = "risk"
	wayConfidence = "confidence"
	wayVerify     = "verify"
	wayLenient    = "verify, by rule lenient"
)

// tierMixed is the source of an answer that the draft began and the target continued; the other two are named as the pools.
const tierMixed = "mixed"

// Way is what came of all questions, answered in one way.
type Way struct {
	Name    string  `json:"name"`
	Why     string  `json:"why,omitempty"` // why it was not measured, or not all of it
	Asked   int     `json:"asked"`
	Answers int     `json:"answers"`
	Seconds float64 `json:"seconds"` // that all of it took
	Failed  int     `json:"failed"`
	Failure string  `json:"failure,omitempty"` // the first

	Draft  int `json:"draft"`  // answers that the draft gave whole
	Mixed  int `json:"mixed"`  // that the target continued
	Target int `json:"target"` // that the target gave whole

	Compared   int `json:"compared"`    // with what the target said alone
	Exact      int `json:"exact"`       // of these equal, byte for byte
	MixedExact int `json:"mixed_exact"` // of the mixed ones

	Reasons map[string]int `json:"reasons,omitempty"` // what the gateway said of the drafts, or why there was none

	TTFT50 float64 `json:"ttft_p50_ms"`
	TTFT95 float64 `json:"ttft_p95_ms"`
	E2E50  float64 `json:"e2e_p50_ms"`

	Work Work     `json:"work"`
	USD  *float64 `json:"usd"` // of all answers; null: prices were not given, tokens are not known, or nothing was measured
}

// answered are the samples without an error, by the question.
func answered(samples []sample) map[int]*sample {
	by := make(map[int]*sample, len(samples))
	for i := range samples {
		if samples[i].err == nil {
			by[samples[i].prompt] = &samples[i]
		}
	}
	return by
}

// rowOf sums the samples of a way. alone is what the target said to the same questions.
func rowOf(name string, samples, alone []sample) Way {
	row := Way{Name: name}
	own := answered(alone)
	var first, whole []float64
	for i := range samples {
		s := &samples[i]
		if s.err != nil {
			if row.Failed++; row.Failure == "" {
				row.Failure = s.err.Error()
			}
			continue
		}
		row.Answers++
		row.Work.add(s)
		row.count(s, own[s.prompt])
		if s.first > 0 {
			first = append(first, float64(s.first.Microseconds())/1e3)
		}
		whole = append(whole, float64(s.whole.Microseconds())/1e3)
	}
	row.TTFT50, row.TTFT95, row.E2E50 = quantile(first, .5), quantile(first, .95), quantile(whole, .5)
	return row
}

// count takes up who gave an answer, and whether it is the target's own; own is nil if that is not known.
func (w *Way) count(s, own *sample) {
	if why := s.reason(); why != "" {
		if w.Reasons == nil {
			w.Reasons = map[string]int{}
		}
		w.Reasons[why]++
	}
	switch s.tier {
	case poolTarget:
		w.Target++
	case tierMixed:
		w.Mixed++
	default:
		w.Draft++
	}
	if own == nil {
		return
	}
	w.Compared++
	if s.text == own.text {
		w.Exact++
		if s.tier == tierMixed {
			w.MixedExact++
		}
	}
}

// scoresOf are the scores of audits.
func scoresOf(audits []audit) (scores []float64) {
	for _, a := range audits {
		scores = append(scores, a.score)
	}
	return scores
}

// Measure is one figure.
type Measure struct {
	Name  string   `json:"name"`
	Value *float64 `json:"value"` // null: not measured
	Error float64  `json:"standard_error,omitempty"`
	Of    int      `json:"of,omitempty"` // samples
	Why   string   `json:"why,omitempty"`
}

// share is the measure of k of n; n of 0 is not measured, for a reason.
func share(name string, k, n int, why string) Measure {
	if n == 0 {
		return Measure{Name: name, Why: why}
	}
	v := float64(k) / float64(n)
	return Measure{Name: name, Value: &v, Of: n}
}

// measure computes the figures from the ways.
func (m *run) measure() {
	m.price()
	for i := range m.report.Engines {
		e := &m.report.Engines[i]
		way := map[string]string{poolDraft: wayDraft, poolTarget: wayAlone}[e.Pool]
		for _, s := range m.ways[way] {
			if e.Version = s.engine; e.Version != "" {
				break
			}
		}
	}
	again, off, verify, draft := m.way(wayAgain), m.way(wayOff), m.way(wayVerify), m.way(wayDraft)
	m.report.Measures = []Measure{
		share("the target agrees with itself when it is asked twice", again.Exact, again.Compared, orOver(again.Why)),
		share("answers of mode off that are the target's own", off.Exact, off.Compared, orOver(off.Why)),
		m.added("first token", func(s *sample) time.Duration { return s.first }),
		m.added("end", func(s *sample) time.Duration { return s.whole }),
		share("exactness: answers of mode verify that are the target's own", verify.Exact, verify.Compared, orOver(verify.Why)),
		share("answers of the draft alone that are the target's own", draft.Exact, draft.Compared, orOver(draft.Why)),
	}
	m.report.Measures = append(m.report.Measures, m.costs()...)
	if why := m.missing[wayVerify]; why != "" {
		m.report.Evidence = append(m.report.Evidence, evidenceOf(labelLenient, m.places.hide(why), nil, m.list))
	} else {
		m.report.Evidence = append(m.report.Evidence, evidenceOf(labelLenient, "the target gave no verdict on any draft; the remarks say what became of them", m.audits, m.list))
	}
	m.report.Evidence = append(m.report.Evidence, evidenceOf(labelSame, "the draft tells no logprobs, or nothing was answered", m.sameAnswers(), m.list))
	m.report.Truth = m.truth()
}

// added is the time that the gateway adds in mode off until something of an answer has come. It is compared with the second
// time that the target was asked alone: both times it has seen the prompts before.
func (m *run) added(until string, of func(*sample) time.Duration) Measure {
	one := Measure{Name: "latency that the gateway adds in mode off until the " + until + ", ms (median)"}
	own := answered(m.ways[wayAgain])
	var all []float64
	for i := range m.ways[wayOff] {
		s := &m.ways[wayOff][i]
		if a := own[s.prompt]; s.err == nil && a != nil && of(s) > 0 && of(a) > 0 {
			all = append(all, float64((of(s)-of(a)).Microseconds())/1e3)
		}
	}
	if len(all) == 0 {
		one.Why = orElse(m.way(wayOff).Why, "no question was answered both in mode off and by the target alone, asked again")
		return one
	}
	middle := median(all)
	one.Value, one.Of = &middle, len(all)
	return one
}

// way is a row of the report.
func (m *run) way(name string) Way {
	for _, w := range m.report.Ways {
		if w.Name == name {
			return w
		}
	}
	return Way{Name: name, Why: errOver.Error()}
}

func orOver(why string) string { return orElse(why, errOver.Error()) }

func orElse(why, otherwise string) string {
	if why == "" {
		return otherwise
	}
	return why
}

// Truth is how many of the questions with right answers are answered right.
type Truth struct {
	Way   string     `json:"way"`
	Part  string     `json:"part"` // which questions
	Right Proportion `json:"right"`
}

// truth counts right answers: of all questions, and of those that mode risk was asked, whose drafts and targets it is compared with.
func (m *run) truth() (all []Truth) {
	risky := map[int]bool{}
	for i := range m.ways[wayRisk] {
		risky[m.ways[wayRisk][i].prompt] = true
	}
	count := func(way, part string, in func(int) bool) {
		right, of := 0, 0
		for i := range m.ways[way] {
			s := &m.ways[way][i]
			if q := &m.list[s.prompt]; s.err == nil && q.answers != nil && in(s.prompt) {
				if of++; q.isRight(s.text) {
					right++
				}
			}
		}
		if of > 0 {
			all = append(all, Truth{way, part, proportion(right, of)})
		}
	}
	for _, way := range []string{wayDraft, wayAlone, wayLenient} {
		count(way, partAll, func(int) bool { return true })
	}
	for _, way := range []string{wayDraft, wayAlone, wayRisk} {
		count(way, partRisk, func(i int) bool { return risky[i] })
	}
	return all
}

// The questions whose answers are compared with the truth.
const partAll, partRisk = "all questions", "those of mode risk"

// median is the middle of the values, 0 without any.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the smallest value that at least a share q of the values does not exceed; 0 without any. q is above 0, at most 1.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}
