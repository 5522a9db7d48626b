package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// cacheRows are faults of answers that are kept, and what must not come of them.
func cacheRows() []Row {
	copies := sharing()
	copies.Sim = nil
	none := copies
	none.Config = everyLookup
	return []Row{
		{
			ID: "R9", Fault: "stored answers damaged in Redis: a bit flipped, truncated, replaced by random bytes", Short: true, Added: -1,
			Promise: "misses, counted, and stored again; never a wrong byte", Setup: none, Run: tampered(flipped, cutOff, scribbled),
		},
		{
			ID: "R10", Fault: "stored answers swapped in Redis: each under another key", Added: -1,
			Promise: "misses, counted, and stored again; never another request's answer", Setup: none, Run: tampered(swapped),
		},
		isolated(),
		{
			ID: "S25b", Fault: "none: `foregate cache purge --tenant`, with copies of its answers on three replicas", Short: true, Added: -1,
			Promise: "0 hits 1 s after the command; the other tenant's answers remain", Setup: copies, Run: purged,
		},
	}
}

const tamperedEntries = 48

// A tampering makes other values of those that Redis has; each differs from the one in its place.
type tampering func(all [][]byte) [][]byte

func flipped(all [][]byte) (out [][]byte) {
	for _, v := range all {
		bit := rand.IntN(8 * len(v)) //nolint:gosec // any will do
		v = slices.Clone(v)
		v[bit/8] ^= 1 << (bit % 8)
		out = append(out, v)
	}
	return out
}

func cutOff(all [][]byte) (out [][]byte) {
	for _, v := range all {
		out = append(out, v[:1+rand.IntN(len(v)-1)]) //nolint:gosec // any will do; nothing at all is no value
	}
	return out
}

func scribbled(all [][]byte) (out [][]byte) {
	for _, v := range all {
		junk := make([]byte, 1+rand.IntN(2*len(v))) //nolint:gosec // any will do
		for i := range junk {
			junk[i] = byte(rand.Uint32()) //nolint:gosec // as above
		}
		out = append(out, junk)
	}
	return out
}

func swapped(all [][]byte) [][]byte {
	by := 1 + rand.IntN(len(all)-1) //nolint:gosec // any will do
	return append(slices.Clone(all[by:]), all[:by]...)
}

// tampered keeps answers, changes them all in each of the ways, and asks for them again.
func tampered(ways ...tampering) func(context.Context, *Testbed) error {
	return func(ctx context.Context, w *Testbed) error {
		if err := w.emptied(ctx); err != nil {
			return err
		}
		l := w.NewLoad()
		w.Phase(During)
		request := func(i int) Request {
			return Request{
				Tenant: Tenants[i%2], Priority: "normal", Stream: i/2%2 == 0, Tokens: 8 + i, Prompt: fmt.Sprintf("What is written on buoy %d?", i),
			}
		}
		truth := l.Each(tamperedEntries, request)
		l.KeepAll(truth)
		names, err := w.stored(ctx, tamperedEntries)
		if err != nil {
			return err
		}
		rounds := 1
		if !w.Short() {
			rounds = 20
		}
		refused, unasked := w.refused(ctx), w.unasked(ctx)
		for range rounds {
			for _, change := range ways {
				if err := w.tamper(ctx, names, change); err != nil {
					return err
				}
				again := l.Each(tamperedEntries, request)
				l.KeepAll(again)
				w.sameAnswers(truth, again, wordMiss)
			}
		}
		done := rounds * len(ways) * tamperedEntries
		n, without := w.refused(ctx)-refused, w.unasked(ctx)-unasked
		w.Note("%d values changed, %.0f refused", done, n)
		if n+without < float64(done) {
			w.Fail("%d values were changed, %.0f were counted as refused, and %.0f not looked at", done, n, without)
		}
		return w.keptAnew(ctx, l, names, truth, request)
	}
}

// keptAnew checks that what was refused is made good.
func (w *Testbed) keptAnew(ctx context.Context, l *Load, names []string, truth []Outcome, request func(int) Request) error {
	if _, err := w.stored(ctx, len(names)); err != nil {
		return err
	}
	again := l.Each(len(truth), request)
	l.KeepAll(again)
	w.sameAnswers(truth, again, wordHit)
	return nil
}

// refused is how many values all gateways have passed over.
func (w *Testbed) refused(ctx context.Context) (sum float64) {
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // one that does not answer has ended, and breaks the row elsewhere
		sum += m.Sum("foregate_cache_refused_total")
	}
	return sum
}

// unasked is for how many requests Redis had no answer in time.
func (w *Testbed) unasked(ctx context.Context) (sum float64) {
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // as above
		for _, result := range []string{"away", "late", "error"} {
			sum += m.Sum("llm_cache_requests_total", fmt.Sprintf("result=%q", result))
		}
	}
	return sum
}

// tamper waits until all of the keys have values, and changes these.
func (w *Testbed) tamper(ctx context.Context, names []string, change tampering) error {
	s := w.Redis.Servers[0]
	if _, err := w.stored(ctx, len(names)); err != nil { // the last ones are on their way
		return err
	}
	was, err := values(ctx, s, names)
	if err != nil {
		return err
	}
	for i, v := range change(was) {
		if bytes.Equal(v, was[i]) {
			return fmt.Errorf("%s is what it was", names[i])
		}
		if err := s.Client.SetArgs(ctx, names[i], v, redis.SetArgs{KeepTTL: true}).Err(); err != nil {
			return fmt.Errorf("SET %s: %w", names[i], err)
		}
	}
	return nil
}

// sameAnswers checks answers against those of the same requests before, and what X-Cache says of each.
func (w *Testbed) sameAnswers(was, is []Outcome, word string) {
	for i := range is {
		if is[i].Kind != Answered || was[i].Kind != Answered {
			continue // which breaks the row by itself
		}
		if is[i].Text != was[i].Text {
			w.Fail("answered %.60q (%s), before %.60q", is[i].Text, is[i].cached(), was[i].Text)
			return
		}
		if is[i].cached() != word {
			w.Fail("X-Cache says %q, not %q", is[i].cached(), word)
			return
		}
	}
}

const (
	manyTenants = 20
	guessedSalt = "a-salt-of-the-client's"
)

func tenantName(i int) string { return fmt.Sprintf("tenant-%02d", i) }

// saltRecorder is what backends were told.
type saltRecorder struct {
	mu             sync.Mutex
	salts          map[string]map[string]bool // tenant → salts
	bare           int                        // requests without one
	withClientSalt int                        // requests with the client's
	requests       int
}

// hear takes a request for generation up. Its user is its tenant, which is no part of the cache's keys.
func (h *saltRecorder) hear(_ http.Header, body []byte) {
	var b struct {
		Salt   string `json:"cache_salt"`
		Tenant string `json:"user"`
	}
	if json.Unmarshal(body, &b) != nil || b.Tenant == "" {
		return // a probe of the gateway's own
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if b.Salt == "" {
		h.bare++
	}
	if bytes.Contains(body, []byte(guessedSalt)) {
		h.withClientSalt++
	}
	if h.salts[b.Tenant] == nil {
		h.salts[b.Tenant] = map[string]bool{}
	}
	h.salts[b.Tenant][b.Salt] = true
}

// isolated has all tenants send the same prompts while Redis fails in one way after the other. Each
// tenant asks for each once, so whatever is served from the cache is another's.
func isolated() Row {
	var fronts []*EngineProxy
	shape := fronted(&fronts, 2)
	backends := shape.Config
	shape.Config = func(i int, file map[string]any) {
		backends(i, file)
		var tenants []any
		for n := range manyTenants {
			sum := sha256.Sum256([]byte(Key(tenantName(n))))
			tenants = append(tenants, map[string]any{"id": tenantName(n), "keys_sha256": []string{hex.EncodeToString(sum[:])}, "max_priority": "high"})
		}
		file["tenants"] = tenants
	}
	shape.Rate = 80
	shape.Load = func(n int) Request {
		return Request{
			Tenant: tenantName(n % manyTenants), Priority: "normal", Stream: n/manyTenants%2 == 0, Tokens: 12,
			Prompt: fmt.Sprintf("What does everybody ask on day %d?", n/manyTenants),
			Fields: map[string]any{"cache_salt": guessedSalt, "user": tenantName(n % manyTenants)},
		}
	}
	return Row{
		ID: "S16", Fault: fmt.Sprintf("the same prompts from %d tenants, each with its own salt, while Redis is frozen, damaged, slow, cut, killed", manyTenants), Added: -1, MaxLogLines: 40,
		Promise: "0 failed, 0 hits across tenants; engines see one different salt per tenant, never the client's",
		Setup:   shape, Run: func(ctx context.Context, w *Testbed) error { return w.isolated(ctx, fronts) },
	}
}

func (w *Testbed) isolated(ctx context.Context, fronts []*EngineProxy) error {
	h := &saltRecorder{salts: map[string]map[string]bool{}}
	for _, f := range fronts {
		f.Observe(h.hear)
	}
	s := w.Redis.Servers[0]
	set := func(t NetworkFault) func() error { return func() error { return w.Redis.Set(t) } }
	well := set(NetworkFault{})
	for _, fault := range [][2]func() error{
		{func() error { return nil }, func() error { return nil }},
		{s.Freeze, s.Thaw},
		{set(NetworkFault{Corrupt: 50}), well},
		{set(NetworkFault{Delay: 22 * time.Millisecond}), well},
		{set(NetworkFault{CutAfter: 700}), well},
		{s.Kill, func() error { return s.Start(ctx) }},
	} {
		if err := w.Inject(ctx, w.outage(), fault[0], fault[1]); err != nil {
			return err
		}
	}
	w.Load.Stop() // what is under way ends
	shared := 0
	for _, o := range w.Load.Outcomes() {
		if o.Kind == Answered && o.cached() != wordMiss {
			shared++
		}
	}
	h.judge(w)
	w.Note("%d generations, %d answers shared", h.requests, shared)
	if shared > 0 {
		w.Fail("%d answers were shared by tenants", shared)
	}
	return nil
}

// judge holds what was heard to the promise.
func (h *saltRecorder) judge(w *Testbed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]bool{}
	for tenant, salts := range h.salts {
		if len(salts) != 1 {
			w.Fail("%s has %d salts", tenant, len(salts))
		}
		for salt := range salts {
			all[salt] = true
		}
	}
	w.Note("%d tenants, %d salts", len(h.salts), len(all))
	if len(h.salts) != manyTenants || len(all) != manyTenants {
		w.Fail("%d tenants have %d salts, promised %d", len(h.salts), len(all), manyTenants)
	}
	if h.bare > 0 || h.withClientSalt > 0 {
		w.Fail("%d requests had no salt, %d the client's", h.bare, h.withClientSalt)
	}
}

const (
	purgedEntries = 90 // of the tenant; each is asked for once after the purge
	otherEntries  = 15 // of the other
	purgedIn      = time.Second
	purgedPace    = 20 * time.Millisecond // between two requests after the purge
)

// purged has copies of a tenant's answers everywhere, purges them, and asks for them one by one.
func purged(ctx context.Context, w *Testbed) error {
	if err := w.emptied(ctx); err != nil {
		return err
	}
	l := w.NewLoad()
	l.Phase(During)
	ask := func(tenant string) func(int) Request {
		return func(i int) Request {
			return Request{Tenant: tenant, Priority: "normal", Stream: i%2 == 0, Tokens: 12, Prompt: fmt.Sprintf("What is in barrel %d?", i)}
		}
	}
	gone, spared := ask(Tenants[0]), ask(Tenants[1])
	first := append(l.Each(purgedEntries, gone), l.Each(otherEntries, spared)...)
	l.KeepAll(first)
	if _, err := w.stored(ctx, purgedEntries+otherEntries); err != nil {
		return err
	}
	for _, g := range w.Gateways { // copies of them all, everywhere
		for i := range purgedEntries {
			o := l.Send(g, gone(i))
			l.Keep(o)
			if o.Kind == Answered && o.cached() != wordHit {
				w.Fail("before the purge: X-Cache says %q", o.cached())
			}
		}
	}
	// Nothing is deleted, so that only the word that all was purged keeps an answer from being given.
	if err := w.purge(ctx, "--tenant", Tenants[0], "--sweep", "0s"); err != nil {
		return err
	}
	switch there, err := keptAnswers(ctx, w.Redis.Servers[0]); {
	case err != nil:
		return err
	case len(there) != purgedEntries+otherEntries:
		w.Fail("%d answers are in Redis after a purge that deletes none, of %d", len(there), purgedEntries+otherEntries)
	}
	if err := w.askPurged(ctx, l, gone, time.Now()); err != nil {
		return err
	}
	rest := l.Each(otherEntries, spared)
	l.KeepAll(rest)
	for i := range rest {
		if rest[i].Kind == Answered && rest[i].cached() != wordHit {
			w.Fail("the other tenant's answers: X-Cache says %q", rest[i].cached())
			break
		}
	}
	return nil
}

// askPurged asks for what was purged, each once, for longer than a purge may take.
func (w *Testbed) askPurged(ctx context.Context, l *Load, gone func(int) Request, since time.Time) error {
	var last time.Duration
	hits := 0
	for i := range purgedEntries {
		o := l.Send(w.Gateways[i%len(w.Gateways)], gone(i))
		l.Keep(o)
		if o.cached() == wordHit {
			hits++
			last = o.At.Sub(since)
		}
		if err := w.Hold(ctx, purgedPace); err != nil {
			return err
		}
	}
	w.Note("%d hits of %d, the last %v after the command", hits, purgedEntries, round(last))
	if last > purgedIn {
		w.Fail("a hit %v after the purge, promised none after %v", round(last), purgedIn)
	}
	return nil
}

// purge runs the gateway's own command.
func (w *Testbed) purge(ctx context.Context, args ...string) error {
	args = append([]string{"cache", "purge", "--config", w.Gateways[0].file}, args...)
	out, err := exec.CommandContext(ctx, w.opts.Gateway, args...).CombinedOutput() //nolint:gosec // the binary under test
	if err != nil {
		return fmt.Errorf("foregate %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
