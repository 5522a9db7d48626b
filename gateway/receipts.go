package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/identity"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

const (
	keptReceipts    = 1000 // number of receipts kept
	defaultReceipts = 100  // number of receipts shown by default
	receiptTimeout  = 10 * time.Second
)

// keptReceipt is the immutable receipt of one finished request, with what only the gateway knows. It holds no
// text and nothing that references text, so a thousand of them stay small: 1 kB each, at most 6.
type keptReceipt struct {
	id, tenant string
	client     string // X-Request-ID as the client sent it
	route      string
	class      identity.Priority
	time       time.Time
	total      time.Duration // until the end of the answer
	lookup     time.Duration // spent on the cache look-up
	limits     time.Duration // spent on the tenant's limits
	code       int           // as in the access record
	cache      cache.Result  // "" where it was not asked
	problem    string        // code of the error, "" for none
	target     string        // pool of the variant that answers; "" on routes without variants, and for what is passed through
	diverted   string        // pool of the variant that was passed over; "" for none
	rules      receiptSettings
	prices     pricesJSON       // zero if the route's prices are not known
	receipt    *receipt.Receipt // nil if the cascade was not called
	trace      [16]byte         // its id, if the trace is recorded
	dropped    []string         // of the request, as [clientapi.Request] has it
	cached     cachedAnswer     // set if the answer was not generated for this request
}

// cachedAnswer is the part of a receipt about a cached answer.
type cachedAnswer struct {
	tier, finish             string
	prompt, accepted, target int     // tokens
	usd                      float64 // what it had cost to make
}

// receiptSettings are the settings of the route that its receipt's decisions depend on and do not contain.
type receiptSettings struct {
	mode              plan.Mode
	holdback          int
	holdbackTime      time.Duration
	midstreamFailover bool
	economyGuard      bool
	exploreRate       float64
}

func settingsOf(c *plan.Config) receiptSettings {
	return receiptSettings{
		mode: c.Mode, holdback: c.HoldbackTokens, holdbackTime: c.Holdback, midstreamFailover: c.MidstreamFailover,
		economyGuard: c.Economy.Enabled, exploreRate: c.Economy.ExploreRate,
	}
}

// receiptOf builds the kept receipt of a request.
func receiptOf(l *accessRecord, took time.Duration) keptReceipt {
	f := keptReceipt{
		id: l.ID, client: l.client, tenant: l.Caller.Tenant, route: l.route, class: l.Caller.Priority, time: l.Began, total: took,
		code: l.code, cache: l.Cache, lookup: l.Lookup, receipt: l.Receipt, limits: l.Limits, dropped: l.dropped,
	}
	if l.trace.recorded() {
		f.trace = l.trace.ID
	}
	f.diverted = l.diverted
	if l.variant != nil {
		f.target = l.variant.Target.Name()
	}
	if l.Config != nil {
		f.rules = settingsOf(l.Config)
	}
	if e := l.Entry; e != nil {
		f.receipt = nil
		f.cached = cachedAnswer{strings.Clone(e.Tier), strings.Clone(e.Finish), e.Prompt, e.Accepted, e.Target, e.USD}
	}
	switch {
	case l.err == nil:
	case l.code == statusGone:
		f.problem = "client_left"
	default:
		f.problem = problemOf(l.err).body.Code
	}
	return f
}

// acceptance is the verdict in one word: accepted, rejected, bypassed, or "" if the cascade was not called.
func (f *keptReceipt) acceptance() string {
	if f.receipt == nil {
		return ""
	}
	word, _, _ := strings.Cut(f.receipt.Acceptance(), ";")
	return word
}

// receipts is a ring of the last receipts. The zero value is ready. Receipts are encoded only on request:
// adding one takes 0.1 µs and no memory, encoding it takes about 15 µs (BenchmarkReceipts).
type receipts struct {
	mu   sync.Mutex
	ring [keptReceipts]keptReceipt
	n    int // total number added
}

func (r *receipts) add(f *keptReceipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring[r.n%keptReceipts] = *f
	r.n++
}

// last returns at most n wanted receipts, the newest last.
func (r *receipts) last(n int, filter func(*keptReceipt) bool) []keptReceipt {
	r.mu.Lock()
	all := make([]keptReceipt, 0, min(r.n, keptReceipts))
	for i := range cap(all) {
		all = append(all, r.ring[(r.n-1-i)%keptReceipts])
	}
	r.mu.Unlock()
	out := slices.DeleteFunc(all, func(f keptReceipt) bool { return !filter(&f) })
	out = out[:min(n, len(out))]
	slices.Reverse(out)
	return out
}

// keepReceipt stores the receipt of a finished request, and logs a share of them. Requests without a known
// route have none, so that they do not displace others.
func (g *Gateway) keepReceipt(l *accessRecord, took time.Duration) {
	if l.route == "" {
		return
	}
	f := receiptOf(l, took)
	if rt := g.answering(l); rt != nil && rt.Prices != nil {
		p := rt.Prices()
		f.prices = pricesJSON{finite(p.DraftPrefill), finite(p.DraftDecode), finite(p.TargetPrefill), finite(p.TargetDecode)}
	}
	g.receipts.add(&f)
	if rand.Float64() < g.opts.Settings.Snapshot().Global().ReceiptLog.LogShare {
		logged := f // encode keeps it: a copy of the few that are logged
		g.log.Info().RawJSON("receipt", logged.encode()).Msg("receipt")
	}
}

// answering returns the route that a request was answered by, with its own variant; nil if it has been removed.
func (g *Gateway) answering(l *accessRecord) *tiers.Route {
	if l.variant != nil {
		return l.variant
	}
	rt, err := g.opts.Cascade.Route(l.route)
	if err != nil {
		return nil
	}
	return rt
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
	for _, f := range g.receipts.last(n, filter) {
		if _, err := lines.Write(append(f.encode(), '\n')); err != nil {
			break // the client has disconnected
		}
	}
	_ = lines.Flush() // as above
	return nil, nil
}

// receiptQuery parses how many receipts are wanted, and which.
func (g *Gateway) receiptQuery(q url.Values) (n int, filter func(*keptReceipt) bool, err error) {
	if n, err = count(q, defaultReceipts, keptReceipts); err != nil {
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
	return n, func(f *keptReceipt) bool {
		return (route == "" || f.route == route) && (word == "" || f.acceptance() == word) && !f.time.Before(since)
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
var errNoReceipt = refuse("unknown_receipt", fmt.Sprintf("There is no receipt of this request. This replica keeps those of its last %d.", keptReceipts))

// oneReceipt answers GET /admin/receipts/{id}: the receipt of the request with this id, else the last one
// whose client sent this id.
func (g *Gateway) oneReceipt(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := query(r); err != nil {
		return nil, err
	}
	id := chi.URLParam(r, "id")
	found := g.receipts.last(1, func(f *keptReceipt) bool { return f.id == id })
	if len(found) == 0 {
		found = g.receipts.last(1, func(f *keptReceipt) bool { return f.client == id })
	}
	if len(found) == 0 {
		return nil, errNoReceipt
	}
	return json.RawMessage(found[0].encode()), nil
}
