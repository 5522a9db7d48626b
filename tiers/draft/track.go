package draft

import "github.com/foregate/foregate/tiers/accept"

// maxMarks bounds what is told of the score: with marks at powers of two and half between, all
// drafts fit.
const maxMarks = 40

// Track is how the score fell: at 8, 12, 16, 24, 32, 48 tokens and so on, where it was decided whether the
// client gets the draft, and now.
func (d *Draft) Track() []accept.Mark {
	d.mark()
	return d.track
}

// mark notes the score so far.
func (d *Draft) mark() {
	if n := d.Tokens(); n > 0 && n != d.marked() && len(d.track) < maxMarks {
		d.track = append(d.track, accept.Mark{Tokens: n, Score: d.Score()})
	}
}

// marked is the token count of the last mark.
func (d *Draft) marked() int {
	if len(d.track) == 0 {
		return 0
	}
	return d.track[len(d.track)-1].Tokens
}

// nextMark is the token count at which the score is noted next.
func (d *Draft) nextMark() int {
	next := 8
	for step := 4; next <= d.marked(); {
		next += step
		if next&(next-1) == 0 {
			step = next / 2
		}
	}
	return next
}
