package virtual

import (
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/accept"
)

const (
	// topLogprobs is how many alternatives the gateway asks a draft pool for.
	topLogprobs = 5

	reasonLost = "draft_lost" // a backend of the draft broke off in mid-answer
)

// draft is a draft in the making.
type draft struct {
	*request
	course accept.Course
	text   int // bytes so far
	finish string
	lost   bool // it broke off
	top    [topLogprobs]float64

	asking bool          // the target's word is awaited: the draft goes on, and nobody reads it
	twin   *twin         // that is audited; nil is none
	unread []chunk       // what came meanwhile
	broke  bool          // it broke off meanwhile
	waited time.Duration // for the target's word
	warm   string        // backend of the target that has just computed prompt and draft
}

// chunk is one token with what is told of it.
type chunk struct {
	id      int32
	logprob float64
	top     []float64
	text    string
	finish  string
	done    bool
}

// speculate drafts, and escalates what does not hold.
func (r *request) speculate() {
	cfg := r.cfg
	d := &draft{request: r, course: accept.NewCourse(cfg.Accept, accept.Course{
		Holdback: cfg.HoldbackTokens, Whole: r.plan.Whole, Resumes: r.plan.Resumes(), Ask: r.plan.Ask, Stays: !cfg.Takeover,
	})}
	if r.trial != nil && r.trial.Audited() {
		d.twin = r.newTwin()
	}
	c := r.newCall(plan.Draft, r.prompt, r.req.MaxTokens)
	c.attempts = min(c.attempts, 2)
	c.now = true
	c.patience = r.firstByte(cfg.Timeouts.DraftFirstByte)
	c.onToken, c.onFail = d.token, d.fail
	c.start()
}

// token takes the next token, or leaves it unread.
func (d *draft) token(a *attempt, id int32, done bool) {
	c := a.chunk(id, done, d.course.WantsTop() || d.twin.wants() && d.twin.course.WantsTop(), d.top[:0])
	if d.twin.see(c); d.twin != nil && d.twin.alone {
		d.goOn(a)
		return
	}
	if done && d.twin.ended() && d.replica.audits.start() {
		defer d.twin.audit()
	}
	if d.asking {
		c.top = slices.Clone(c.top)
		d.unread = append(d.unread, c)
		return
	}
	d.read(a, c)
}

// chunk is the token that just came, with what is told of it.
func (a *attempt) chunk(id int32, done, top bool, room []float64) chunk {
	c := chunk{id: id, logprob: a.writer.Logprob(), text: a.writer.Text(), done: done}
	if done {
		c.finish = a.writer.Finish()
	}
	if top {
		c.top = a.writer.Top(room, topLogprobs)
	}
	return c
}

// goOn lets the twin read on what the request has no use for any more.
func (d *draft) goOn(a *attempt) {
	if !d.twin.wants() {
		a.stop()
		d.twin.audit()
	}
}

// read judges a token as the gateway judges a chunk of one. It reports whether the draft
// goes on.
func (d *draft) read(a *attempt, c chunk) bool {
	if !d.course.Add(c.logprob, c.top) {
		d.stop(a) // the crossing token is not part of what was accepted
		return false
	}
	d.ids = append(d.ids, c.id)
	d.text += len(c.text)
	d.finish = c.finish
	d.course.Mark(accept.Step{
		Tokens: d.course.Tokens(), Text: d.text, IDs: len(d.ids), Clean: c.text != "" && !c.done, Rests: accept.Rests([]byte(c.text)),
	})
	if c.done {
		d.settle()
		return false
	}
	waited := d.lab.clock.now-d.began-d.waited >= d.lab.values.Tiers.Holdback
	switch d.course.Decide(waited) {
	case accept.Wait:
	case accept.Commit:
		d.commit()
	case accept.Doubt:
		d.doubt(a)
		return true
	}
	if d.course.Rejected() {
		d.stop(a)
		return false
	}
	return true
}

// stop ends a draft before its time.
func (d *draft) stop(a *attempt) {
	if d.twin.wants() && d.replica.audits.start() {
		d.twin.alone = true
	} else {
		a.stop()
	}
	d.settle()
}

// commit releases the draft.
func (d *draft) commit() {
	d.out.Tier = "draft"
	if d.req.Stream {
		d.first()
	}
}

// doubt asks the target about what came so far, and reads on when it has spoken.
func (d *draft) doubt(a *attempt) {
	d.asking = true
	d.heed(func() {
		d.asking = false
		if d.course.Rejected() {
			d.stop(a)
			return
		}
		d.commit()
		for _, c := range d.unread {
			if !d.read(a, c) {
				return
			}
		}
		if d.unread = nil; d.broke {
			d.lost = true
			d.settle()
		}
	})
}

// heed asks the target about the draft as far as it is; then is called when the course
// has heard it.
func (d *draft) heed(then func()) {
	began := d.lab.clock.now
	d.ask(d.prompt, d.ids, "", func(backend string, said []accept.Choice) {
		d.waited += d.lab.clock.now - began
		if d.warm = backend; said == nil {
			d.course.Heard(nil)
		} else {
			d.course.Heard(d.rule(said))
		}
		then()
	})
}

// fail is a draft that no backend gave, or that broke off.
func (d *draft) fail(f failure, began bool) {
	if d.twin != nil {
		d.twin.over = true
		if d.twin.alone {
			d.replica.audits.end()
			return
		}
	}
	switch {
	case d.asking:
		d.broke = true
		return
	case began:
		d.finish, d.lost = "", true
		d.settle()
		return
	}
	d.plan.Reason = "draft_unavailable"
	if f.detail == "full" {
		d.plan.Reason = "draft_full"
	}
	d.out.Reason = d.plan.Reason
	d.direct()
}

// settle turns a draft that is over into an answer. Where it is doubtful as a whole the
// target is asked first.
func (d *draft) settle() {
	if d.finish == "length" && (d.req.MaxTokens == 0 || d.course.Tokens() < d.req.MaxTokens) {
		d.finish = "" // its own context ended, not the client's limit
	}
	d.out.Drafted = d.course.Tokens()
	v := d.final()
	if v.Reason != accept.ReasonDoubtful {
		d.conclude(v)
		return
	}
	d.heed(func() { d.conclude(d.final()) })
}

// final is the verdict on what there is of the draft.
func (d *draft) final() accept.Verdict {
	text := vllmsim.DefaultTokenizer().Decode(d.ids, true)
	return d.course.Final(accept.Draft{Text: []byte(text), IDs: d.ids, Finish: d.finish})
}

// conclude ends a draft by its verdict.
func (d *draft) conclude(v accept.Verdict) {
	if d.lost && v.Reason == accept.ReasonCut {
		v.Reason = reasonLost
	}
	d.out.Acceptance, d.out.Reason = "rejected", v.Reason
	if v.Accept {
		d.out.Acceptance = "accepted"
	}
	if d.course.Keeps(v, d.finish != "") {
		if !v.Accept {
			d.out.Acceptance, d.out.Reason = "accepted", v.Late()
		}
		d.out.Tier, d.out.DraftTokens, d.out.Unverified = "draft", len(d.ids), v.Lot != accept.LotWhole
		d.request.finish(loadtest.Answered, "")
		return
	}
	at := d.course.Seam(v, d.finish != "")
	if at.Tokens == 0 && d.out.First == 0 {
		d.ids = d.ids[:0]
		d.direct()
		return
	}
	d.ids = d.ids[:at.IDs]
	d.out.Tier, d.out.DraftTokens = "mixed", at.Tokens
	d.continueAt(d.warm)
}
