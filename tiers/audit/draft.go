package audit

import (
	"context"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/draft"
	"github.com/foregate/foregate/tiers/inflight"
	"github.com/foregate/foregate/tiers/receipt"
	"github.com/foregate/foregate/tiers/strategy"
)

// Subject is a request whose drafts are audited. It has a Trial.
type Subject struct {
	*inflight.Request
	Auditor *Auditor

	Keep    func() (released func()) // says that something uses the request's body until released is called; nil tells nobody
	Vouched func()                   // called when the target stands by a draft that the warm-up served; nil tells nobody
}

// Draft is a draft that is audited. It sees the chunks that the client's draft takes, or reads its own. When it is over, or
// nobody else has a use for it any more, it goes on in the background, is audited, and ends there. It is for one goroutine.
type Draft struct {
	*draft.Audit
	Subject
	caller inflight.Caller
	cost   receipt.Tally // of the audit
}

// draft begins to audit a draft.
func (s Subject) draft() *Draft {
	r := s.Request
	return &Draft{
		Audit: draft.NewAudit(strategy.DraftOptions(r), accept.Nats(r.Trial.Floor(r.Views.Own.Band))), Subject: s,
		caller: inflight.Caller{Request: r, Identity: r.Untraced(), Events: unrecorded{}},
		cost:   receipt.Tally{Prompt: r.Body.PromptTokens},
	}
}

// start runs a task in the background, which uses the request's body beyond its request; it reports whether there was a
// place for it. An audit without one is dropped.
func (d *Draft) start(task func(context.Context)) bool {
	released := func() {}
	if d.Keep != nil {
		released = d.Keep()
	}
	started := d.Auditor.start(d.Deadline(), func(ctx context.Context) {
		defer released()
		task(ctx)
	})
	if !started {
		released()
		d.dropped("busy")
	}
	return started
}

// whole is how long to wait for an answer in one piece from a pool whose first byte may take so long.
func (d *Draft) whole(firstByte time.Duration) time.Duration {
	return d.Config.Timeouts.Whole(d.FirstByte(firstByte), d.Body)
}

// settle books what the audit cost.
func (d *Draft) settle() {
	cost, priced := TargetCost(d.cost, d.Auditor.Prices(d.Route))
	if !d.Views.Spare {
		d.Auditor.spend(d.Route, cost)
	}
	if !priced {
		cost = 0 // it is in tokens
	}
	d.Auditor.Metrics.Audited(d.Route, d.cost.Scored, cost)
}

// dropped counts an audit that nothing came of, before its outcome was known.
func (d *Draft) dropped(why string) { d.Auditor.Metrics.Dropped(d.Route, why) }

// unrecorded keeps no record of calls.
type unrecorded struct{}

func (unrecorded) Waited(time.Duration)              {}
func (unrecorded) Tried(dispatch.Try, time.Time) int { return 0 }
func (unrecorded) Settled(int, dispatch.Try)         {}
func (unrecorded) Cost(float64)                      {}
