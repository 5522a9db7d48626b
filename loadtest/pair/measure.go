package pair

import (
	"math"
	"slices"
)

// The ways in which questions are answered. Those of the modes have the names of the modes.
const (
	wayAlone   = "target alone"
	wayDraft   = "draft alone"
	wayRisk    = "risk"
	wayLenient = "verify, by rule lenient"
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

	Compared int `json:"compared"` // with what the target said alone
	Exact    int `json:"exact"`    // of these equal, byte for byte

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
	}
}

// measure computes the figures from the ways.
func (r *run) measure() {
	r.price()
	for i := range r.report.Engines {
		e := &r.report.Engines[i]
		way := map[string]string{poolDraft: wayDraft, poolTarget: wayAlone}[e.Pool]
		for _, s := range r.ways[way] {
			if e.Version = s.engine; e.Version != "" {
				break
			}
		}
	}
	if why := r.missing[modeVerify]; why != "" {
		r.report.Evidence = append(r.report.Evidence, evidenceOf(labelLenient, r.places.hide(why), nil, r.list))
	} else {
		r.report.Evidence = append(r.report.Evidence, evidenceOf(labelLenient, "the target gave no verdict on any draft; the remarks say what became of them", r.audits, r.list))
	}
	r.report.Evidence = append(r.report.Evidence, evidenceOf(labelSame, "the draft tells no logprobs, or nothing was answered", r.sameAnswers(), r.list))
	r.report.Truth = r.truth()
}

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
func (r *run) truth() (all []Truth) {
	risky := map[int]bool{}
	for i := range r.ways[wayRisk] {
		risky[r.ways[wayRisk][i].prompt] = true
	}
	count := func(way, part string, in func(int) bool) {
		right, of := 0, 0
		for i := range r.ways[way] {
			s := &r.ways[way][i]
			if q := &r.list[s.prompt]; s.err == nil && q.answers != nil && in(s.prompt) {
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
