package limits

// lateReply is a charge in Redis whose answer came too late, after this replica had counted the request
// itself. The charge is corrected when both the answer and the result of the request are known. The limiter's
// lock guards it.
type lateReply struct {
	charged, over bool
	demoted       bool    // by Redis: nothing was charged for priority high
	more          amounts // of a finished request: its use beyond the charge
}

// charged receives a late answer.
func (g *Reservation) charged(late answer) {
	if late.refused != "" {
		return
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	g.late.charged, g.late.demoted = true, late.demoted
	g.correct()
}

// end records the use of a request that this replica counted, beyond its charge. The caller holds the
// limiter's lock.
func (g *Reservation) end(more amounts) {
	g.late.over, g.late.more = true, more
	g.correct()
}

// correct corrects the late charge of a finished request. The caller holds the limiter's lock.
func (g *Reservation) correct() {
	t := &g.late
	if !t.charged || !t.over {
		return
	}
	if t.demoted {
		t.more.high = 0
	}
	if t.more != (amounts{}) {
		g.limiter.correct(g.request.Tenant, correction{limit: g.request.Limit, amounts: t.more})
	}
}
