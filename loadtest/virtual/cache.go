package virtual

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/loadtest"
)

// answers is the response cache that the replicas share: what Redis would hold. A question
// to it takes a hop there and one back. Left out are the copies that a replica keeps for
// itself, purges, and what Redis has no memory for.
type answers struct {
	lab     *lab
	kept    map[cache.Key]*kept
	flights map[flightKey]*flight
	drawn   uint64
}

// kept is a whole answer.
type kept struct {
	out loadtest.Outcome
	ids []int32
}

// flightKey is what requests have in common that share one generation.
type flightKey struct {
	key    cache.Key
	class  string
	stream bool
}

// flight is a generation that others wait for, too.
type flight struct {
	key       flightKey
	leader    *request
	followers []*request
}

func newAnswers(l *lab) *answers {
	return &answers{lab: l, kept: map[cache.Key]*kept{}, flights: map[flightKey]*flight{}}
}

// keep remembers an answer for as long as the settings say, less up to a tenth by chance.
func (a *answers) keep(key cache.Key, e *kept) {
	a.drawn++
	ttl := float64(a.lab.values.Cache.TTL) * (0.9 + 0.1*unit(a.lab.seed, 2<<32, a.drawn))
	a.kept[key] = e
	a.lab.clock.after(time.Duration(ttl), func() {
		if a.kept[key] == e { // not one that came later
			delete(a.kept, key)
		}
	})
}

// cacheKey names the request as the gateway does.
func (r *request) cacheKey() cache.Key {
	q := r.req
	body := fmt.Appendf(make([]byte, 0, r.shape.PromptBytes+256), "%d %t %g", q.MaxTokens, q.IgnoreEOS, q.Temperature)
	for _, m := range q.Messages {
		body = fmt.Appendf(body, " %s %d %s", m.Role, len(m.Content), m.Content)
	}
	p := cache.Parts{
		Kind: "/v1/chat/completions", Tenant: q.Tenant, Route: route, Target: r.lab.spec.Target.Model, Tier: string(plan.Auto), RAG: q.RAGHash,
		Request: body,
	}
	if r.lab.spec.Draft != nil {
		p.Draft = r.lab.spec.Draft.Model
	}
	return cache.KeyOf(&p)
}

// salt keeps a tenant's prefixes apart in the engines' caches.
func salt(tenant string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, tenant) // never fails
	return h.Sum64()
}

// look is the request's question at Redis: it is served, follows an identical one that is
// under way, or becomes the one that others follow.
func (r *request) look() {
	if r.over {
		return
	}
	l := r.lab
	a := l.answers
	if e := a.kept[r.key]; e != nil {
		r.out.Cached = true
		r.adopt(&e.out, e.ids)
		r.book(loadtest.Answered, "")
		return
	}
	key := flightKey{r.key, r.req.Priority, r.req.Stream}
	wait := l.values.Cache.Follow
	if wait <= 0 || r.req.Temperature > 0 && !l.values.Cache.Sampled {
		l.clock.after(hop, r.dispatch)
		return
	}
	if f := a.flights[key]; f != nil {
		f.join(r)
		l.clock.after(wait, func() { f.tire(r) })
		return
	}
	r.flight = &flight{key: key, leader: r}
	a.flights[key] = r.flight
	l.clock.after(hop, r.dispatch)
}

// adopt takes another's answer over.
func (r *request) adopt(o *loadtest.Outcome, ids []int32) {
	r.ids = ids
	r.out.Tier, r.out.Acceptance, r.out.Reason = o.Tier, o.Acceptance, o.Reason
	r.out.DraftTokens, r.out.TargetTokens = o.DraftTokens, o.TargetTokens
	r.out.Checked, r.out.Identical, r.out.Wrong = o.Checked, o.Identical, o.Wrong
}

// join makes q a follower, who sees at once what was shown before.
func (f *flight) join(q *request) {
	q.flight = f
	f.followers = append(f.followers, q)
	if q.req.Stream && f.leader.out.First > 0 {
		q.first()
	}
}

// tire sends a follower who has seen nothing so far on its own way.
func (f *flight) tire(q *request) {
	if q.over || q.flight != f || q.out.First > 0 {
		return
	}
	q.leave()
	q.flight = nil
	q.dispatch()
}

// tell does something at each follower's replica: at the leader's at once, elsewhere
// by way of Redis.
func (f *flight) tell(do func(q *request)) {
	for _, q := range f.followers {
		way := 2 * hop
		if q.replica == f.leader.replica {
			way = 0
		}
		q.lab.clock.after(way, func() {
			if !q.over && q.flight == f {
				do(q)
			}
		})
	}
}

// leads says whether others may follow r.
func (r *request) leads() bool { return r.flight != nil && r.flight.leader == r }

// orphan says that nobody waits for r's generation any more.
func (r *request) orphan() bool {
	return r.over && (!r.leads() || len(r.flight.followers) == 0)
}

// share keeps a whole answer and hands it to the followers. Of an answer that failed those
// who saw a part have the same; the others ask again, and one of them leads.
func (r *request) share(end, detail string) {
	a := r.lab.answers
	if end == loadtest.Answered && r.lab.values.Cache.On {
		a.keep(r.key, &kept{r.out, r.ids})
	}
	if !r.leads() {
		return
	}
	f, out, ids := r.flight, r.out, r.ids
	delete(a.flights, f.key)
	f.tell(func(q *request) {
		q.flight = nil
		switch {
		case end == loadtest.Answered:
			q.out.Coalesced = true
			q.adopt(&out, ids)
			q.book(end, "")
		case q.out.First > 0:
			q.book(loadtest.Broken, detail)
		default:
			q.look()
		}
	})
	r.flight = nil
}

// leave lets go of a generation, and ends it if nobody else waits for it.
func (r *request) leave() {
	leader := r
	if f := r.flight; f != nil {
		leader = f.leader
		f.followers = slices.DeleteFunc(f.followers, func(q *request) bool { return q == r })
		if len(f.followers) > 0 || leader != r && !leader.over {
			return
		}
		if r.lab.answers.flights[f.key] == f {
			delete(r.lab.answers.flights, f.key)
		}
	}
	if leader.call != nil {
		leader.call.leave()
	}
	if leader.check != nil {
		leader.check.leave()
	}
}
