package virtual

import (
	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/accept"
)

// topLogprobs is how many alternatives the gateway asks a draft pool for.
const topLogprobs = 5

// draft is a draft in the making.
type draft struct {
	*request
	course accept.Course
	text   int // bytes so far
	finish string
	lost   bool // it broke off
	top    [topLogprobs]float64
}

// token judges the next token as the gateway judges a chunk of one.
func (d *draft) token(a *attempt, id int32, done bool) {
	var top []float64
	if d.course.WantsTop() {
		top = a.writer.Top(d.top[:0], topLogprobs)
	}
	if !d.course.Add(a.writer.Logprob(), top) {
		a.stop()
		d.settle() // the crossing token is not part of what was accepted
		return
	}
	d.ids = append(d.ids, id)
	text := a.writer.Text()
	d.text += len(text)
	if done {
		d.finish = a.writer.Finish()
	}
	d.course.Mark(accept.Step{
		Tokens: d.course.Tokens(), Text: d.text, IDs: len(d.ids), Clean: text != "" && !done, Rests: accept.Rests([]byte(text)),
	})
	if done {
		d.settle()
		return
	}
	waited := d.lab.clock.now-d.began >= d.lab.values.Tiers.Holdback
	if d.course.Decide(waited) {
		d.out.Tier = "draft"
		if d.req.Stream {
			d.first()
		}
	}
	if d.course.Rejected() {
		a.stop()
		d.settle()
	}
}

// fail is a draft that no backend gave, or that broke off.
func (d *draft) fail(f failure, began bool) {
	if began {
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

// settle turns a draft that is over into an answer.
func (d *draft) settle() {
	text := vllmsim.DefaultTokenizer().Decode(d.ids, true)
	if d.finish == "length" && (d.req.MaxTokens == 0 || d.course.Tokens() < d.req.MaxTokens) {
		d.finish = "" // its own context ended, not the client's limit
	}
	v := d.course.Final(accept.Draft{Text: []byte(text), IDs: d.ids, Finish: d.finish})
	if d.lost && v.Reason == accept.ReasonCut {
		v.Reason = "draft_lost"
	}
	d.out.Acceptance, d.out.Reason = "rejected", v.Reason
	if v.Accept {
		d.out.Acceptance = "accepted"
	}
	if d.course.Keeps(v, d.finish != "") {
		d.out.Tier, d.out.DraftTokens = "draft", len(d.ids)
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
	rest := d.req.MaxTokens
	if rest > 0 {
		if rest -= at.Tokens; rest <= 0 {
			d.request.finish(loadtest.Answered, "")
			return
		}
	}
	prompt := append(append(make([]int32, 0, len(d.prompt)+len(d.ids)), d.prompt...), d.ids...)
	c := d.newCall(tiers.Target, prompt, rest)
	c.patience = d.firstByte(d.lab.values.Tiers.Timeouts.TargetFirstByte)
	c.must = d.out.First > 0
	c.onFail = d.stranded
	d.follow(c)
}

// stranded is a continuation that no target gave, or that broke off. While nothing
// was sent, an answer from the target alone is as good, unless there is no target.
func (d *draft) stranded(f failure, began bool) {
	if d.out.First > 0 || f.detail == "no_backend" || f.shed {
		d.lose(f, began || d.out.First > 0)
		return
	}
	d.ids, d.out.DraftTokens, d.out.TargetTokens = d.ids[:0], 0, 0
	d.direct()
}
