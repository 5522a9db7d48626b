package tiers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/pool"
	"github.com/foregate/foregate/tiers/risk"
)

func TestAnAuditIsBookedWhenThereIsAPlaceForItAndBeforeTheTargetIsAsked(t *testing.T) {
	play(t, func(r *auditRig) {
		r.priced()
		r.watched()
		r.happens("good", "open own t1", "score", "close t1 good")
		b := r.bookings[0]
		if b.Key != ownKey || b.Tokens != 12 || b.Score < -1 || b.Score > 0.45 || len(b.Features) == 0 || b.Version != 1 {
			t.Errorf("%+v", b)
		}
		r.refuses = true
		r.watched()
		r.happens("bad", "open own t2", "score", "close t2 bad")
		r.drops()
		if r.usd() != 2*scoreUSD {
			t.Errorf("two audits cost %g USD", r.usd())
		}
	})
}

func TestAnAuditThatTheTargetHasNoPlaceForIsNotBooked(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Config.MaxConcurrentScores = 0 // nobody may be asked
		began := time.Now()
		r.watched()
		r.happens("no place")
		r.drops("target_full")
		if took := time.Since(began); took < audit.Wait || took > audit.Wait+auditPause {
			t.Errorf("given up after %s", took)
		}
	})
}

func TestAnAuditThatTheTargetNeverAnswersStaysBad(t *testing.T) {
	play(t, func(r *auditRig) {
		r.target = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.ServerError, Status: 500} }
		r.watched()
		r.happens("three tries", "open own t1", "score", "score", "score")
		r.drops()
	})
}

func TestADraftThatCannotBeAskedAboutIsBookedAsBad(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Decision.Auditor = plan.ScorerNone
		r.watched()
		r.happens("no way to ask", "open own t1")
		r.subject.Decision.Auditor = plan.ScorerText
		r.target = func(*engine.Attempt) error { return &engine.Failure{Kind: engine.Rejected, Status: 400} }
		r.watched()
		r.happens("a text that is refused", "tokenizeprompt", "open own t2")
		r.drops()
	})
}

func TestAScoreThatHelpsToPlaceAGridIsToldAtOnce(t *testing.T) {
	play(t, func(r *auditRig) {
		r.fate = func(string) (risk.OpenResult, error) { return risk.Learned, nil }
		r.subject.Decision.Audit.Own = risk.Decision{Key: ownKey, Audited: true, Floor: -1e9}
		r.watched()
		r.happens("learned", "open own t1")
		r.drops()
	})
}

func TestWhatNobodyCountsIsNotAsked(t *testing.T) {
	play(t, func(r *auditRig) {
		r.fate = func(string) (risk.OpenResult, error) { return risk.Stale, nil }
		r.watched()
		r.happens("stale", "open own t1")
		r.drops("stale")
		r.fate = func(string) (risk.OpenResult, error) { return "", errors.New("away") }
		r.watched()
		r.happens("away", "open own t2")
		r.drops("evidence_away")
		r.logprob = -9 // below the region
		r.watched()
		r.happens("of no interest")
		r.drops()
	})
}

func TestAFaultOfShapeThatShowsTooLateIsBad(t *testing.T) {
	for whole, want := range map[bool][]string{false: {"open own t1"}, true: nil} {
		play(t, func(r *auditRig) {
			r.subject.Decision.Whole, r.loops, r.words = whole, true, 20
			r.watched()
			r.happens("it runs in circles", want...)
			r.drops()
		})
	}
}

func TestAnOutcomeIsToldUpToThreeTimes(t *testing.T) {
	play(t, func(r *auditRig) {
		away := 2
		r.closes = func() error {
			if away--; away >= 0 {
				return errors.New("away")
			}
			return nil
		}
		r.watched()
		r.happens("away twice", "open own t1", "score", "close t1 good", "close t1 good", "close t1 good")
		away = 9
		r.watched()
		r.happens("away", "open own t2", "score", "close t2 good", "close t2 good", "close t2 good")
	})
}

func TestADraftOfTheWarmupIsVouchedForWhereTheTargetStandsByIt(t *testing.T) {
	play(t, func(r *auditRig) {
		vouched := 0
		r.subject.onLabel = func(good bool) {
			if good {
				vouched++
			}
		}
		r.subject.Decision.Audit.Warmup, r.subject.Decision.Audit.Cautious = true, -1
		r.watched()
		r.happens("good", "open own t1", "warmup own t2", "score", "close t1 good", "close t2 good")
		r.refuses = true
		r.watched()
		r.happens("bad", "open own t3", "warmup own t4", "score", "close t3 bad", "close t4 bad")
		r.subject.Decision.Audit.Cautious, r.refuses = 5, false
		r.watched()
		r.happens("not served by the warm-up", "open own t5", "score", "close t5 good")
		if vouched != 2 {
			t.Errorf("vouched %d times", vouched)
		}
	})
}

func TestEveryLabelIsTheTargetsWord(t *testing.T) {
	for what, c := range map[string]struct {
		label   plan.Label
		auditor plan.Scorer
		asked   []string
		same    bool // the target writes the same
	}{
		"lenient":                  {plan.LabelLenient, plan.ScorerIDs, []string{"score"}, false},
		"exact":                    {plan.LabelExact, plan.ScorerIDs, []string{"score"}, false},
		"judge":                    {plan.LabelJudge, plan.ScorerJudge, []string{"judge"}, false},
		"regenerate":               {plan.LabelRegenerate, plan.ScorerJudge, []string{"answer", "judge"}, false},
		"regenerate, and the same": {plan.LabelRegenerate, plan.ScorerJudge, []string{"answer"}, true},
	} {
		t.Run(what, func(t *testing.T) {
			play(t, func(r *auditRig) {
				r.subject.Config.Risk.Label, r.subject.Decision.Auditor = c.label, c.auditor
				r.same = c.same
				r.watched()
				r.happens("stood by", append(append([]string{"open own t1"}, c.asked...), "close t1 good")...)
				r.refuses = true
				r.watched()
				outcome := map[bool]string{true: "close t2 good", false: "close t2 bad"}[c.same]
				r.happens("not stood by", append(append([]string{"open own t2"}, c.asked...), outcome)...)
			})
		})
	}
	play(t, func(r *auditRig) {
		r.subject.Config.Risk.Label, r.subject.Decision.Auditor = plan.LabelRegenerate, plan.ScorerNone
		r.watched()
		r.happens("another answer, and nobody to judge", "open own t1", "answer", "close t1 bad")
		if a := r.attempts[0]; a.Call.(*engine.Answer).Request != r.subject.Body || r.tickets[0].Class != 0 || !r.tickets[0].NoWait {
			t.Errorf("%+v, %+v", a, r.tickets[0])
		}
	})
}

func TestWhatAnAuditCostsComesOutOfItsRoutesBudget(t *testing.T) {
	play(t, func(r *auditRig) {
		r.priced()
		r.subject.Config.Risk.Label, r.subject.Decision.Auditor = plan.LabelRegenerate, plan.ScorerJudge
		r.watched()
		r.rests()
		n := r.subject.Body.PromptTokens                    // of the answer's prompt, and of the judge's
		own := openai.EstimateTokens(len("something else")) // which the judge compares with
		want := float64(n+n+12+own)*3 + 30*5
		if r.usd() != want || r.mayAudit() || !r.auditor.MayAudit("m", &plan.Risk{MaxConcurrentAudits: 1, AuditBudget: 1}, true) {
			t.Errorf("%g USD, want %g; or what is spent may be spent again, or what is to spare may not", r.usd(), want)
		}
		r.auditor.AddBudget("m", want*0.99)
		before := r.mayAudit()
		if r.auditor.AddBudget("m", want*0.02); before || !r.mayAudit() {
			t.Errorf("more or less than %g USD is charged to the budget", want)
		}
		r.subject.Prices = nil
		r.subject.Target.SetPrice(pool.Price{})
		r.subject.Views.SpareCapacity = true
		r.watched()
		if r.rests(); r.usd() != want || !r.mayAudit() {
			t.Errorf("%g USD: prices are not known, and capacity is to spare", r.usd()-want)
		}
	})
}

func TestWhatATargetIsAskedLaterAndWhatNever(t *testing.T) {
	for want, all := range map[bool][]error{
		true: {
			pool.ErrFull, pool.ErrNoBackend, dispatch.ErrScoreBusy, dispatch.ErrScoreClosed, &engine.Failure{Kind: engine.Reset},
			&engine.Failure{Kind: engine.ServerError, Status: 503}, &engine.Failure{Kind: engine.Backpressure, Status: 429},
		},
		false: {dispatch.ErrScoreTooLong, &engine.Failure{Kind: engine.Rejected, Status: 400}, errors.New("else")},
	} {
		for _, err := range all {
			if isFull(err) != want {
				t.Errorf("%v: no place %v, want %v", err, !want, want)
			}
		}
	}
}

// open begins a draft that the client may get, as the request does.
func (r *auditRig) open() *dispatch.Exchange {
	r.t.Helper()
	c := caller{Request: r.subject.Request, Events: dispatch.IgnoreEvents{}}
	x, err := c.Open(context.Background(), c.NewRequest(r.subject.Draft, &engine.Draft{Request: r.subject.Body}))
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// half has a watcher see the first chunks of a draft.
func (r *auditRig) half() (*auditedDraft, *dispatch.Exchange) {
	w, x := r.subject.Watch(), r.open()
	for range 8 {
		c, err := x.Next(engine.WantTokens)
		if err != nil {
			r.t.Fatal(err)
		}
		w.Observe(c, false)
	}
	return w, x
}

func TestAnAuditedDraftGoesOnToItsEndWhenTheRequestHasNoUseForIt(t *testing.T) {
	play(t, func(r *auditRig) {
		w, x := r.half()
		if !w.NeedsMore() {
			t.Fatal("it wants no more")
		}
		w.TakeStream(x)
		r.happens("taken over", "draft", "open own t1", "score", "close t1 good")
		if b := r.bookings[0]; b.Tokens != 12 {
			t.Errorf("%d tokens", b.Tokens)
		}
		r.breaks = 10
		w, x = r.half()
		w.TakeStream(x)
		r.happens("lost on its way", "draft")
		r.drops("draft_lost")
		r.breaks, r.logprob = 0, -9
		if w, x = r.half(); w.NeedsMore() {
			t.Error("of a draft below the region more is wanted")
		}
		x.Drop()
	})
}

// Only so many drafts go on for their audits alone. Who gets no slot when its draft begins is audited as far as the client
// gets it, so that what is in a draft does not decide which of them count.
func TestDraftsGoOnWithinTheSlotsForAuditsOnly(t *testing.T) {
	play(t, func(r *auditRig) {
		r.subject.Views.Own = risk.View{Version: 1, Op: 1, Hi: 3, Threshold: -1, Floor: -3}
		decision := *r.subject.Decision.Audit
		r.logprob = -3 // between floor and threshold
		first, x := r.half()
		own := decision
		r.subject.Decision.Audit = &own
		second, y := r.half()
		if !first.NeedsMore() || second.NeedsMore() {
			t.Errorf("the first goes on %v, the second %v", first.NeedsMore(), second.NeedsMore())
		}
		y.Drop()
		second.End()
		third := decision
		r.subject.Decision.Audit = &third
		r.subject.Shadow()
		r.happens("no slot is free", "draft", "draft")
		r.drops("busy")
		first.TakeStream(x)
		r.happens("the first goes on", "open own t1", "score", "close t1 good")
		if b := r.bookings[0]; b.Hi != 3 || b.Floor != -3 {
			t.Errorf("%+v", b.Decision)
		}
		r.logprob = -0.05
		held := r.auditor.Tasks.TryEnter(1)
		fourth := decision
		r.subject.Decision.Audit = &fourth
		w := r.subject.Watch()
		r.auditor.Tasks.Leave()
		for _, c := range r.chunks() {
			w.Observe(c, false)
		}
		w.End()
		r.happens("without a slot it is evidence of what is served", "open own t2", "score", "close t2 good")
		if b := r.bookings[1]; !held || b.Hi != 1 || b.Floor != -1 {
			t.Errorf("%+v", b.Decision)
		}
	})
}

// A client that leaves before its answer has begun got no draft. What any other was shown counts, and is bad where nobody
// can say what it is.
func TestWhatAClientWasShownBeforeItLeftIsAudited(t *testing.T) {
	play(t, func(r *auditRig) {
		leaves := func(after int) {
			own := *r.subject.Decision.Audit
			r.subject.Decision.Audit = &own
			w := r.subject.Watch()
			for _, c := range r.chunks()[:after] {
				w.Observe(c, false)
			}
			w.Leave()
		}
		leaves(3)
		r.happens("nothing was shown")
		leaves(8)
		r.happens("a part was shown", "open own t1", "score", "close t1 good")
		if b := r.bookings[0]; b.Tokens != 8 {
			t.Errorf("%d tokens", b.Tokens)
		}
		r.refuses = true
		leaves(8)
		r.happens("a wrong part", "open own t2", "score", "close t2 bad")
		r.subject.Decision.Auditor = plan.ScorerJudge
		leaves(8)
		r.happens("a judge in words", "open own t3")
		r.drops()
		if !r.auditor.Tasks.TryEnter(1) {
			t.Error("a slot is held for ever")
		}
	})
}

func TestADraftInOnePieceIsAudited(t *testing.T) {
	play(t, func(r *auditRig) {
		a := r.answer()
		r.subject.Whole(&a)
		r.happens("good", "open own t1", "score", "close t1 good")
		a = r.answer()
		a.Plain = false
		r.subject.Whole(&a)
		r.happens("not of plain text")
		r.logprob = -9
		a = r.answer()
		r.subject.Whole(&a)
		r.happens("below the region")
		r.drops()
	})
}
