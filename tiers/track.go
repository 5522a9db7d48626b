package tiers

import "github.com/foregate/foregate/tiers/accept"

// mark writes the score so far into the receipt.
func (d *draft) mark() {
	rc, n := d.job.receipt, d.course.Tokens()
	if n == 0 || n == d.marked || len(rc.Track) >= mostMarks {
		return
	}
	d.marked = n
	rc.Track = append(rc.Track, accept.Mark{Tokens: n, Score: d.course.Score()})
}

// mostMarks bounds what a receipt says of the score: with marks at powers of two and half
// between, all drafts fit.
const mostMarks = 40

// nextMark is the token count at which the score is written down after that at n: 8, 12,
// 16, 24, 32, 48 and so on.
func nextMark(n int) int {
	next := 8
	for step := 4; next <= n; {
		next += step
		if next&(next-1) == 0 {
			step = next / 2
		}
	}
	return next
}
