package limits

// lateReply is what is known of a charge of which Redis told too late: this replica had counted the request by then. It is
// corrected once both are known, that it was made and what became of the request. The limiter's lock guards it.
type lateReply struct {
	charged, over bool
	demoted       bool    // the request, by Redis: of priority high nothing was charged
	more          amounts // of a request that is over: what it came to, beyond the charge
}

// charged hears of an answer for which nobody waited any more.
func (g *Reservation) charged(late answer) {
	if late.refused != "" {
		return
	}
	g.limiter.mu.Lock()
	defer g.limiter.mu.Unlock()
	g.late.charged, g.late.demoted = true, late.demoted
	g.correct()
}

// end is told what a request that this replica counted came to, beyond what it asked for. The caller holds the
// limiter's lock.
func (g *Reservation) end(more amounts) {
	g.late.over, g.late.more = true, more
	g.correct()
}

// correct corrects a tardy charge of a request that is over. The caller holds the limiter's lock.
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
