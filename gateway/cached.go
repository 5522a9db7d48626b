package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/gateway/lookup"
	"github.com/foregate/foregate/gateway/upload"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/receipt"
)

// exchange is one generation request on its way: from the cache, from an identical request that is
// under way, or from the cascade.
type exchange struct {
	g    *Gateway
	l    *exchangeLog
	w    http.ResponseWriter
	r    *http.Request
	body *upload.Body
	req  *openai.Request
	tier plan.Tier // demanded
	rag  string

	again *repeat // the same request before, nil where it is not known

	judging  plan.Config // as it was when the key was made
	stricter plan.Demand // than the route's mode, by the request's word
	cfg      cache.Config
	control  cacheControl
	bypass   bool        // the cache has no part in it
	keeps    bool        // answers may be looked up and kept
	parts    cache.Parts // of the key, without the request
	key      cache.Key
	plan     plan.Plan // that the key was made by
	vouched  *vouched  // whether an audit stood by the answer; nil where nobody will tell
}

// ragOf is the digest of the retrieved context: as told, else over the documents in the body.
func ragOf(l *exchangeLog, req *openai.Request) string {
	if l.caller.RAGHash != "" {
		return l.caller.RAGHash
	}
	if docs := req.Documents(); docs != nil {
		sum := sha256.Sum256(docs)
		return hex.EncodeToString(sum[:])
	}
	return ""
}

// salt is what engines are told to keep a tenant's prefixes apart by, "" where they need not.
func (g *Gateway) salt(route, tenant string) string {
	if g.opts.Salt == nil || !g.cacheConfig(route).Isolate {
		return ""
	}
	return g.opts.Salt(tenant)
}

func (g *Gateway) cacheConfig(route string) cache.Config {
	if g.opts.CacheConfig == nil {
		return cache.Config{}
	}
	return g.opts.CacheConfig(route)
}

// asCached finds out what the cache may do for the request, and its key.
func (x *exchange) asCached(route *tiers.Route) {
	x.cfg, x.judging = x.g.cacheConfig(route.Model), route.Config()
	x.judging.Mode = x.judging.Mode.Stricter(x.stricter)
	x.l.rules = rulesOf(&x.judging)
	x.control = readCacheControl(x.r.Header)
	x.bypass = x.g.opts.Cache == nil || !x.cfg.On || x.control.noStore || x.req.Unshareable() != "" || x.wantsOwnSample()
	if x.bypass {
		return
	}
	tenant := x.l.caller.Tenant
	x.parts = cache.Parts{
		Kind: x.req.Kind.Path(), Tenant: tenant, Route: route.Model, RAG: x.rag, Tier: x.demanded(route),
	}
	if x.g.opts.Served != nil {
		x.parts.Draft, x.parts.Target = x.g.opts.Served(route.Model)
	}
	x.parts.Epochs, x.keeps = x.g.opts.Cache.Epochs(tenant, route.Model)
	var known bool
	if x.key, known = x.again.keyOf(&x.parts); known {
		return
	}
	body, err := x.req.Canonical(make([]byte, 0, len(x.req.Body)))
	if err != nil { // no JSON that another parser would read alike: nothing is claimed of it
		x.bypass = true
		return
	}
	whole := x.parts
	whole.Request = body
	x.key, x.again = cache.KeyOf(&whole), nil
}

// wantsOwnSample reports whether the answer must be drawn from the target's law for this request alone.
func (x *exchange) wantsOwnSample() bool {
	return x.req.Temperature > 0 && (x.judging.Mode == plan.ModeVerify || x.stricter == plan.DemandExact)
}

// coalesces reports whether the request may wait for identical ones that are under way.
func (x *exchange) coalesces() bool {
	return x.g.opts.Flights != nil && x.cfg.Follow > 0 && x.control.plain() && (x.cfg.Sampled || !x.req.Sampled())
}

// demanded is the tier that is to answer, and for a draft that is judged how: who is no longer
// content with what was accepted before does not get it any more.
func (x *exchange) demanded(route *tiers.Route) string {
	x.plan = x.g.opts.Cascade.Plan(route, x.judging, x.req, x.tier)
	if x.plan.Judged {
		return string(plan.Auto) + " " + x.judging.Judged()
	}
	return string(x.plan.Tier)
}

// promised is the plan that the key was made by, nil where the answer is for this request alone.
func (x *exchange) promised() *plan.Plan {
	if x.bypass {
		return nil
	}
	return &x.plan
}

// fits says whether an answer is of the tier that its key promises. The key and the answer are made under one
// config, so it always is; but a draft must not be taken for the target's.
func (x *exchange) fits(e *cache.Entry) bool {
	return x.parts.Tier != string(plan.Target) || e.Tier == string(plan.Target)
}

// answer answers the request the cheapest way.
func (x *exchange) answer() error {
	switch {
	case x.bypass && x.control.only:
		x.count(cache.ResultBypass, nil)
		return errNotCached
	case x.bypass:
		return x.alone(cache.ResultBypass)
	}
	if x.keeps && !x.control.noCache {
		if e, ok := x.g.opts.Cache.Local(x.key); ok && x.control.takes(e, x.g.now()) {
			if served, err := x.serve(e, cache.ResultLocal); served {
				return err
			}
		}
	}
	if x.coalesces() {
		if seat := x.g.opts.Flights.Join(x.flight()); seat != nil {
			defer seat.Depart()
			return x.share(seat)
		}
	}
	e, result := x.look(x.r.Context(), nil)
	if e != nil {
		if served, err := x.serve(e, cache.ResultHit); served {
			return err
		}
		result = cache.ResultError
	}
	if x.control.only {
		x.count(result, nil)
		return errNotCached
	}
	return x.alone(result)
}

func (x *exchange) flight() cache.FlightID {
	return cache.FlightID{Key: x.key, Class: int8(x.l.caller.Priority), Stream: x.req.Stream}
}

// look asks Redis, where it may be asked. The entry is nil where there is none that will do; the result says why.
func (x *exchange) look(ctx context.Context, lease *cache.Lease) (*cache.Entry, cache.Result) {
	switch {
	case !x.keeps:
		return nil, cache.ResultAway
	case x.control.noCache:
		return nil, cache.ResultMiss
	}
	began := time.Now()
	e, found := x.g.opts.Cache.Look(lookup.WithPatience(ctx, &x.l.redis), x.key, lease)
	x.l.looked, x.l.out.lookup = began, time.Since(began)
	switch {
	case e != nil && x.control.takes(e, x.g.now()):
		return e, cache.ResultHit
	case found == cache.FoundAway:
		return nil, cache.ResultAway
	case found == cache.FoundLate:
		return nil, cache.ResultLate
	case found == cache.FoundError:
		return nil, cache.ResultError
	}
	return nil, cache.ResultMiss
}

// count books what came of the cache, once for a request, and tells the client.
func (x *exchange) count(result cache.Result, e *cache.Entry) {
	x.l.cache = result
	x.tell()
	if x.g.opts.Cache != nil {
		x.g.opts.Cache.Count(x.l.route, x.l.caller.Tenant, result, e)
	}
}

// tell sets X-Cache.
func (x *exchange) tell() {
	word := "MISS"
	switch x.l.cache {
	case cache.ResultHit, cache.ResultLocal:
		word = "HIT"
	case cache.ResultCoalesced:
		word = "COALESCED"
	case cache.ResultBypass:
		word = "BYPASS"
	}
	x.w.Header().Set("X-Cache", word)
}

// alone has the cascade answer, and keeps the answer where it may be kept.
func (x *exchange) alone(result cache.Result) error {
	x.count(result, nil)
	if x.bypass || !x.keeps {
		return x.ask(x.r.Context(), nil, x.l.out)
	}
	rec := newRecording(x, nil)
	if err := x.ask(x.r.Context(), rec, x.l.out); err != nil {
		return err
	}
	if e, whole := rec.entry(x.l.receipt); e != nil && x.mayKeep(e, whole) {
		if unproven(e) {
			x.keepOnceVouched(e)
		} else {
			x.g.opts.Cache.Put(x.key, e, x.cfg.TTL, nil)
		}
	}
	return nil
}

// ask has the cascade answer, within the tenant's limits. tap may be nil.
func (x *exchange) ask(ctx context.Context, tap tiers.Tap, out tiers.Sink) error {
	return x.askFrom(ctx, nil, tap, out)
}

// askFrom is ask for an answer that begins with what was said of it before.
func (x *exchange) askFrom(ctx context.Context, said []byte, tap tiers.Tap, out tiers.Sink) error {
	l := x.l
	need := estimateOf(x.req)
	grant, err := x.g.enterLimits(l, x.w, x.r, need)
	if err != nil {
		return err
	}
	defer func() {
		if errors.Is(context.Cause(ctx), cache.ErrFollows) { // what another replica makes does not count here
			grant.Withdraw()
			return
		}
		grant.Settle(need.used(l))
	}()
	l.receipt, err = x.g.opts.Cascade.Answer(ctx, tiers.Ask{
		Request: x.req, Tier: x.tier, ID: l.id, Tenant: l.caller.Tenant, Class: int8(l.caller.Priority), RAG: x.rag,
		Salt: x.g.salt(l.route, l.caller.Tenant), Header: upstreamHeader(l, x.r), Spans: l.trace.recorded(), Tap: tap, Config: &x.judging, Plan: x.promised(), Said: said, Vouched: x.vouching(),
		Keep: x.body.Keep, Spared: l.caller.Spared, Apart: l.caller.Apart,
	}, out)
	return err
}

// serve gives a kept answer. served is false where it cannot be read, which is as good as none.
func (x *exchange) serve(e *cache.Entry, result cache.Result) (served bool, err error) {
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || !x.fits(e) {
		return false, nil
	}
	x.count(result, e)
	x.l.entry = e
	if x.again == nil {
		x.g.repeats.keep(x.l.caller.Tenant, x.req, &x.parts, x.key)
	}
	now := x.g.now()
	age := max(now.Sub(e.Created), 0)
	whole.Usage.Cached = whole.Usage.Prompt
	extra := extraOf(e, result, age)
	f := x.framer(e)
	h := head{age: wholeAgeOf(age), tier: e.Tier, acceptance: e.Acceptance, stream: x.req.Stream, timing: cachedTiming(x.l.out.lookup, now.Sub(x.l.began))}
	room, _ := bodies.Get().(*[]byte)
	defer bodies.Put(room)
	body := (*room)[:0]
	if x.req.Stream {
		body = f.WholeStream(body, whole, extra, x.req.IncludeUsage)
	} else {
		body = f.Whole(body, whole, extra)
		h.length = int64(len(body))
	}
	if cap(body) <= mostBody {
		*room = body
	}
	if err := x.l.out.begin(h); err != nil {
		return true, err
	}
	return true, x.l.out.Write(body)
}

// bodies are lent to answers while they are written: they would be half of what a hit allocates, by bytes
// (BenchmarkHits).
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// mostBody is the largest that is kept for the next, in bytes.
const mostBody = 64 << 10

// framer writes a kept answer under this request's own name.
func (x *exchange) framer(e *cache.Entry) *openai.Framer {
	return openai.NewFramer(x.req.Kind, x.l.id, x.l.route, e.Created.Unix())
}

// mayKeep says whether a whole answer may serve others later.
func (x *exchange) mayKeep(e *cache.Entry, w *openai.Whole) bool {
	if len(e.Answer) > x.cfg.MaxEntry || !x.fits(e) || receipt.Pressed(e.Acceptance) {
		return false
	}
	for i := range w.Choices {
		c := &w.Choices[i]
		switch {
		case !c.Complete(), len(c.Calls) > 0 && !x.cfg.Tools:
			return false
		case x.req.JSON && c.Finish == "stop" && len(c.Calls) == 0 && !json.Valid(c.Text):
			return false
		}
	}
	return true
}

// extraOf is the object "foregate" of an answer that was not made for this request.
func extraOf(e *cache.Entry, result cache.Result, age time.Duration) []byte {
	word, rest, _ := strings.Cut(e.Acceptance, ";")
	b := openai.AppendQuote(append(make([]byte, 0, 192), `{"tier":`...), e.Tier)
	b = appendField(b, "accepted_tokens", int64(e.Accepted))
	b = appendField(b, "target_tokens", int64(e.Target))
	b = openai.AppendQuote(append(b, `,"acceptance":`...), word)
	for part := range strings.SplitSeq(rest, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "phase":
			b = openai.AppendQuote(append(b, `,"phase":`...), value)
		case "reason":
			b = openai.AppendQuote(append(b, `,"reason":`...), value)
		case "score":
			if nats, err := strconv.ParseFloat(value, 64); err == nil {
				b = strconv.AppendFloat(append(b, `,"score":`...), nats, 'f', 3, 64)
			}
		}
	}
	b = openai.AppendQuote(append(b, `,"cache":`...), string(result))
	return append(appendField(b, "age_s", int64(age/time.Second)), '}')
}
