package virtual

import (
	"context"
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
)

// refitEvery is the time between two rounds of refits.
const refitEvery = time.Minute

// refits are the refits of the route's score: the gateway's own [refit.Refitter], whose rounds are events.
type refits struct {
	*refit.Refitter
	lab     *lab
	scores  map[int]*accept.ScoreMap // that were in force, by version
	samples map[int]*draftSample     // by version of the score
}

func newRefits(l *lab) *refits {
	r := &refits{lab: l, scores: map[int]*accept.ScoreMap{}, samples: map[int]*draftSample{}}
	r.Refitter = refit.New(refit.Options{Book: l.evidence.book, Rules: func() (rules map[string]risk.Rule) {
		if c := &l.values.Tiers; c.Risk.Refit && c.Mode.Audited() {
			rules = map[string]risk.Rule{route: c.Risk.Rule}
		}
		return rules
	}})
	return r
}

// begin begins the rounds.
func (r *refits) begin() {
	if c := &r.lab.values.Tiers; c.Risk.Refit && c.Mode.Audited() {
		r.lab.clock.After(refitEvery, r.tick)
	}
}

func (r *refits) tick() {
	if !r.lab.redis.Away() {
		was := r.Score(route)
		r.Round(context.Background())
		if is := r.Score(route); is != nil && (was == nil || was.Version != is.Version) {
			r.scores[is.Version] = is
			r.lab.values.Tiers.Accept.ScoreMap = is
			for k := range r.lab.evidence.states() {
				r.lab.evidence.note(k, r.lab.evidence.book)
			}
		}
	}
	if r.lab.clock.Elapsed() < r.lab.scenario.Duration {
		r.lab.clock.After(refitEvery, r.tick)
	}
}

// sample is what drafts are like by a version of the score.
func (r *refits) sample(version int) *draftSample {
	if version == 0 {
		return r.lab.sample
	}
	s := r.samples[version]
	if s == nil {
		s = r.lab.sample.scoredBy(r.scores[version])
		r.samples[version] = s
	}
	return s
}

// says is how the refits went, for the notes of a case; "" without any.
func (r *refits) says() string {
	p := r.Progress(route)
	if p.Last == 0 {
		return ""
	}
	return strconv.Itoa(p.Last) + " scores fitted, at the end version " + strconv.Itoa(p.Live.Version) + " judges"
}
