package draft

import "github.com/foregate/foregate/tiers/accept"

// maxPoints bounds what is told of the score: with marks at powers of two and half between, all
// drafts fit.
const maxPoints = 40

// scoreSeries is how a draft's score fell.
type scoreSeries []accept.ScorePoint

// add notes the score of the first so many tokens, once.
func (t *scoreSeries) add(tokens int, score accept.Nats) {
	if tokens > 0 && tokens != t.last() && len(*t) < maxPoints {
		*t = append(*t, accept.ScorePoint{Tokens: tokens, Score: score})
	}
}

// last is the token count of the last mark.
func (t scoreSeries) last() int {
	if len(t) == 0 {
		return 0
	}
	return t[len(t)-1].Tokens
}

// next is the token count at which the score is to be noted next.
func (t scoreSeries) next() int {
	next := 8
	for step := 4; next <= t.last(); {
		next += step
		if next&(next-1) == 0 {
			step = next / 2
		}
	}
	return next
}
