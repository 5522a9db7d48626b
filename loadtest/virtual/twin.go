package virtual

import (
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/risk"
)

// twin is a draft that is audited, as the gateway has it (tiers/twin.go, tiers/audit.go): it is
// judged like the one that the client may get, but goes on to its end while its score is of
// interest. Its request is one of nobody's, of the lowest class.
type twin struct {
	*request
	course accept.Course
	finish string
	over   bool // nothing more of it is wanted
	alone  bool // the client's draft is over, or never was

	stamps   []risk.Decision // that its outcome is evidence for
	warmup   bool            // it is one that the warm-up served
	booked   []ticket
	tries    int
	unbooked bool          // nobody counts it
	until    time.Duration // it waits for room
	cost     int           // tokens scored
}

// ticket is an audit that was booked.
type ticket struct {
	key  risk.Key
	name string
}

// newTwin begins one of a request that is audited.
func (r *request) newTwin() *twin {
	q := *r.req
	q.Priority = "low"
	own := &request{lab: r.lab, replica: r.replica, req: &q, shape: r.shape, prompt: r.prompt, plan: r.plan, cfg: r.cfg, trial: r.trial, views: r.views, era: r.era}
	cfg := r.cfg.Accept
	cfg.Threshold, cfg.Band = accept.Nats(r.trial.Floor(r.views.Own.Band)), 0
	return &twin{request: own, course: accept.NewCourse(cfg, accept.Course{Whole: true, Ask: accept.AskNever})}
}

// wants reports whether more of the draft is to be read.
func (t *twin) wants() bool { return t != nil && !t.over && t.finish == "" }

// ended reports whether the draft came to its end and is of interest.
func (t *twin) ended() bool { return t != nil && !t.over && t.finish != "" }

// see takes a token.
func (t *twin) see(c chunk) {
	if !t.wants() {
		return
	}
	if t.over = !t.course.Add(c.logprob, c.top); t.over {
		return
	}
	t.ids = append(t.ids, c.id)
	t.finish = c.finish
	if t.alone && t.lab.measures() {
		t.lab.audited.draft.decoded++
	}
}

// shadow makes a draft of which the client sees nothing.
func (r *request) shadow() {
	a := r.replica.audits
	if !a.start() {
		return
	}
	t := r.newTwin()
	t.alone = true
	a.enter(func(ok bool) {
		if !ok {
			a.end()
			return
		}
		t.write()
	})
}

// write has the draft pool write the draft, at the lowest class.
func (t *twin) write() {
	a := t.replica.audits
	c := t.newCall(plan.Draft, t.prompt, t.req.MaxTokens)
	c.attempts, c.now, c.patience = 1, true, t.firstByte(t.cfg.Timeouts.DraftFirstByte)
	c.onToken = func(at *attempt, id int32, done bool) {
		if len(t.ids) == 0 && t.lab.measures() {
			t.lab.audited.draft.prefilled += len(t.prompt) - at.seq.Cached
		}
		t.see(at.chunk(id, done, t.course.WantsTop(), nil))
		if t.wants() {
			return
		}
		at.stop()
		a.leave()
		t.audit()
	}
	c.onFail = func(failure, bool) {
		a.leave()
		a.end()
	}
	c.start()
}

// audit asks the target about a draft that came to its end, and books what it says. It gives the
// place back that the twin has among the audits under way.
func (t *twin) audit() {
	if t.finish == "length" && (t.req.MaxTokens == 0 || t.course.Tokens() < t.req.MaxTokens) {
		t.over = true // its own context ended, not the client's limit
	}
	var v accept.Verdict
	if !t.over {
		v = t.course.Final(accept.Draft{Text: []byte(vllmsim.DefaultTokenizer().Decode(t.ids, true)), IDs: t.ids, Finish: t.finish})
	}
	if !v.Accept {
		t.replica.audits.end()
		return
	}
	score := float64(v.Score)
	for _, d := range t.trial.Stamps() {
		switch {
		case d.Version == 0:
			t.lab.evidence.open(d, score)
		case score >= d.Floor:
			t.stamps = append(t.stamps, d)
		}
	}
	t.warmup = t.trial.Warmup && score >= t.trial.Cautious
	if len(t.stamps) == 0 && !t.warmup {
		t.settleCosts()
		return
	}
	t.replica.audits.enter(func(ok bool) {
		if !ok {
			t.settleCosts()
			return
		}
		t.until = t.lab.clock.now + auditWait
		t.before = func() bool { return t.book(score) }
		t.label()
	})
}

// book opens all audits of the draft; it is called when there is a place for the question.
func (t *twin) book(score float64) bool {
	if len(t.booked) > 0 {
		return true // it is asked again
	}
	for _, d := range t.stamps {
		if name := t.lab.evidence.open(d, score); name != "" {
			t.booked = append(t.booked, ticket{d.Key, name})
		}
		t.replica.look(d.Key)
	}
	if k := t.trial.Own.Key; t.warmup {
		if name := t.lab.evidence.openWarmup(k); name != "" {
			t.booked = append(t.booked, ticket{k, name})
		}
		t.replica.look(k)
	}
	t.unbooked = len(t.booked) == 0
	return !t.unbooked
}

// label has the target say what it thinks of the draft.
func (t *twin) label() {
	t.ask(t.prompt, t.ids, "", func(_ string, said []accept.Choice) {
		switch {
		case said != nil:
			t.close(!t.rule(said).Pass)
		case len(t.booked) > 0:
			t.tries++
			t.again(t.tries < auditTries)
		default:
			t.again(!t.unbooked && t.lab.clock.now < t.until)
		}
	})
}

// again asks once more, or gives up: what was booked stays bad.
func (t *twin) again(more bool) {
	if !more {
		t.rest()
		return
	}
	t.lab.clock.after(auditPause, t.label)
}

// close ends the audits that were booked.
func (t *twin) close(bad bool) {
	for _, b := range t.booked {
		t.lab.evidence.close(b.key, b.name, bad)
		t.replica.look(b.key)
	}
	t.cost = t.out.Scored
	if t.lab.measures() {
		t.lab.audited.target.scored += t.cost
		t.lab.audited.target.prefilled += t.cost
	}
	t.rest()
}

// rest gives all places back.
func (t *twin) rest() {
	t.replica.audits.leave()
	t.settleCosts()
}

// settleCosts books what the audit cost.
func (t *twin) settleCosts() {
	if !t.views.Spare {
		t.replica.audits.spend(float64(t.cost) * t.lab.prices().TargetPrefill)
	}
	t.replica.audits.end()
}

// fund lets audits cost a share of what the request had the target do.
func (r *request) fund() {
	cfg := &r.lab.values.Tiers
	if !cfg.Mode.Audited() {
		return
	}
	p, prompt := r.lab.prices(), 0
	if r.out.TargetTokens > 0 {
		prompt = len(r.prompt)
	}
	cost := float64(prompt+r.out.Scored)*p.TargetPrefill + float64(r.out.TargetTokens)*p.TargetDecode
	r.replica.audits.earn(cfg.Risk.Spend * cost)
}

// measures reports whether the warm-up is over.
func (l *lab) measures() bool { return l.clock.now >= l.scenario.Warmup }
