package gateway

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
)

const (
	defaultReceipts = 100 // number of receipts shown by default
	receiptTimeout  = 10 * time.Second
)

// receiptOf returns the receipt of a finished request.
func (g *Gateway) receiptOf(l *accessRecord, path string, took time.Duration) *receipts.Receipt {
	f := &receipts.Receipt{
		ID: l.ID, Client: l.client, Tenant: l.Caller.Tenant, Priority: l.Caller.Priority.String(), Time: l.Began, Route: l.route, Code: l.code,
		Cache: string(l.Cache), Dropped: l.dropped, DivertedFrom: l.diverted,
		Path: path, Stream: l.out != nil && l.out.stream, Took: took, LookedUpAt: l.LookedUpAt, Lookup: l.Lookup, Limits: l.Limits,
	}
	if l.trace.Recorded() {
		f.Trace = hex.EncodeToString(l.trace.ID[:])
	}
	if l.variant != nil {
		f.TargetPool = l.variant.Target.Name()
	}
	f.Answer(l.Receipt, l.Entry)
	if f.Cascade != nil && l.Config != nil {
		f.Settings = receipts.SettingsOf(l.Config)
	}
	if f.Cascade != nil && l.answering != nil && l.answering.Prices != nil {
		f.Prices = l.answering.Prices()
	}
	f.Model = modelOf(l.answering, f)
	switch {
	case l.err == nil:
	case l.code == statusGone:
		f.Error = "client_left"
	default:
		f.Error = problemOf(l.err).body.Code
	}
	return f
}

// modelOf returns the model of the pool that wrote an answer: of the draft if it wrote all of it, otherwise of the target,
// or of the fallback, whose call is the last one. It is "" if that is not known. The key of a cached answer contains the
// models of its route, so that they are those of rt.
func modelOf(rt *tiers.Route, f *receipts.Receipt) string {
	if rt == nil {
		return ""
	}
	switch plan.Tier(f.Tier) {
	case plan.Target, plan.Mixed:
		return rt.Target.Model()
	case plan.Draft:
		if rt.Draft != nil {
			return rt.Draft.Model()
		}
	case plan.Fallback:
		if f.Cascade == nil || len(f.Cascade.Tries) == 0 {
			return ""
		}
		answered := f.Cascade.Tries[len(f.Cascade.Tries)-1].Pool
		for i := range rt.Fallbacks {
			if p := rt.Fallbacks[i].Pool; p.Name() == answered {
				return p.Model()
			}
		}
	}
	return ""
}

// keepReceipt keeps the receipt of a finished request, logs a share of them, and ends its trace. Requests without a known
// route are not kept, so that they do not displace others.
func (g *Gateway) keepReceipt(l *accessRecord, f *receipts.Receipt) {
	if l.route != "" {
		g.receipts.Add(f)
		if rand.Float64() < g.opts.Settings.Snapshot().Global().ReceiptLog.LogShare {
			g.log.Info().RawJSON("receipt", f.Encode()).Msg("receipt")
		}
	}
	if !l.trace.Recorded() {
		return
	}
	if l.content != nil {
		l.content.End(l.Entry)
		f.Content = l.content // the kept one has none
	}
	g.opts.Tracer.End(l.trace, f)
}

// listReceipts answers GET /admin/receipts?n=&route=&acceptance=&since= with JSON lines,
// the newest last.
func (g *Gateway) listReceipts(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := query(r, "n", "route", "acceptance", "since")
	if err != nil {
		return nil, err
	}
	n, filter, err := g.receiptQuery(q)
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(receiptTimeout)) // net/http always supports it
	lines := bufio.NewWriterSize(w, 64<<10)
	for _, f := range g.receipts.Last(n, filter) {
		if _, err := lines.Write(append(f.Encode(), '\n')); err != nil {
			break // the client has disconnected
		}
	}
	_ = lines.Flush() // as above
	return nil, nil
}

// receiptQuery parses how many receipts are wanted, and which.
func (g *Gateway) receiptQuery(q url.Values) (n int, filter func(*receipts.Receipt) bool, err error) {
	if n, err = count(q, defaultReceipts, receipts.Kept); err != nil {
		return 0, nil, err
	}
	route, word := q.Get("route"), q.Get("acceptance")
	if q.Has("route") {
		if err := g.hasRoute(route); err != nil {
			return 0, nil, err
		}
	}
	if q.Has("acceptance") && !slices.Contains([]string{"accepted", "rejected", "bypassed"}, word) {
		return 0, nil, badParam("acceptance", "want accepted, rejected or bypassed")
	}
	var since time.Time
	if q.Has("since") {
		if since, err = sinceOf(q.Get("since"), time.Now()); err != nil {
			return 0, nil, err
		}
	}
	return n, func(f *receipts.Receipt) bool {
		return (route == "" || f.Route == route) && (word == "" || f.Word() == word) && !f.Time.Before(since)
	}, nil
}

// sinceOf parses a time, or a duration before now.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, badParam("since", "want a time such as 2026-01-31T12:00:00Z, or how long ago, such as 5m")
	}
	return t, nil
}

// errNoReceipt means that there is no such receipt, or it was overwritten.
var errNoReceipt = refuse("unknown_receipt", fmt.Sprintf("There is no receipt of this request. This replica keeps those of its last %d.", receipts.Kept))

// oneReceipt answers GET /admin/receipts/{id}: the receipt of the request with this id, else the last one
// whose client sent this id.
func (g *Gateway) oneReceipt(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	id := chi.URLParam(r, "id")
	found := g.receipts.Last(1, func(f *receipts.Receipt) bool { return f.ID == id })
	if len(found) == 0 {
		found = g.receipts.Last(1, func(f *receipts.Receipt) bool { return f.Client == id })
	}
	if len(found) == 0 {
		return nil, errNoReceipt
	}
	return json.RawMessage(found[0].Encode()), nil
}
