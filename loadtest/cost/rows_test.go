package cost

import (
	"fmt"
	"time"
)

const (
	connections = 64
	shortAnswer = 24  // tokens of an answer where the cost of a request is of interest
	longAnswer  = 256 // where the cost of a token is

	streamTokens = 64 // of a paced stream
	streamPause  = 10 * time.Millisecond
)

// workload is a load of one process, with a name.
type workload struct {
	load
	title    string
	at       string // the process
	tokens   int    // of each answer; 0: the cost is per request
	paced    bool   // one stream for each connection; else slices of a continuous load
	evidence []evidence
}

// row compares what a workload costs with what another one costs.
type row struct {
	title       string
	own, beside string  // titles of workloads of one group
	goal        float64 // the highest ratio that is wanted; 0 is none
}

// group is measured together: its workloads take turns.
type group struct {
	workloads []workload
	rows      []row
}

// Metrics that show how requests were served.
var (
	missed   = []evidence{says(1, `llm_cache_requests_total{result="miss"`), says(0, `foregate_cache_dropped_total{`)}
	bypassed = []evidence{says(1, `llm_cache_requests_total{result="bypass"`)}
)

// hitLocal shows that the requests were served from the copy in the process. It is asked for again each second, and requests
// that come before Redis has answered are served by Redis.
var hitLocal = []evidence{says(1, `llm_cache_requests_total{result="local"`, `llm_cache_requests_total{result="hit"`)}

// hitRedis shows that the requests were served from Redis.
var hitRedis = []evidence{says(1, `llm_cache_requests_total{result="hit"`)}

// accepted shows that drafts of so many tokens were judged and accepted.
func accepted(tokens int) []evidence {
	return []evidence{says(float64(tokens), `foregate_accepted_tokens_total{`), says(float64(tokens), `foregate_draft_tokens_total{`)}
}

// checked shows in addition that the target was asked about each.
func checked(tokens int) []evidence {
	return append(accepted(tokens), says(1, `foregate_verifications_total{reason="target_agrees"`))
}

// groups are what a run measures.
func groups(f form) []group {
	list := []group{sized(f, "200 B", 200, 1.0, 0.65)}
	kib := sized(f, "1 KiB", 1<<10, 1.0, 0.65)
	kib.add("hit", "yardstick 1 KiB", 0.45, f.repeated("a hit in the process, 1 KiB", newcomer, hitLocal))
	kib.add("hit from Redis", "yardstick 1 KiB", 0, f.repeated("a hit in Redis, 1 KiB", noCopies, hitRedis))
	kib.add("miss, temperature 0", "yardstick 1 KiB", 0,
		f.continuous("default, temperature 0, 1 KiB", newcomer, chat{size: 1 << 10, tokens: shortAnswer, greedy: true}.exchange(), missed))
	return append(list, kib, sized(f, "16 KiB", 16<<10, 1.2, 0.7), sized(f, "128 KiB", 128<<10, 1.6, 0.9),
		passed(f, "1 KiB", 1<<10), passed(f, "16 KiB", 16<<10), paced(f), bursts(f),
		drafted(f, "a whole answer", chat{tokens: shortAnswer}, 1.3), drafted(f, "a whole answer", chat{tokens: longAnswer}, 1.3),
		drafted(f, "a stream", chat{tokens: shortAnswer, stream: true, pause: streamPause}, 1.3),
		drafted(f, "a whole answer", chat{tokens: streamTokens, pause: streamPause}, 0), replicated(f))
}

// add adds a workload and the row that compares it with another one.
func (g *group) add(title, beside string, goal float64, w workload) {
	g.workloads = append(g.workloads, w)
	g.rows = append(g.rows, row{title: title + ", " + unit(w), own: w.title, beside: beside, goal: goal})
}

func unit(w workload) string {
	if w.tokens > 0 {
		return "per token"
	}
	return "per request"
}

// continuous is a load of as many requests as the process answers.
func (f form) continuous(title, at string, x exchange, served []evidence) workload {
	return workload{title: title, at: at, load: load{each: []exchange{x}, lasts: f.lasts}, evidence: served}
}

// repeated is a load of requests that were answered before.
func (f form) repeated(title, at string, served []evidence) workload {
	w := f.continuous(title, at, exchange{}, served)
	w.each = chat{size: 1 << 10, tokens: shortAnswer}.numbered(connections)
	return w
}

// sized compares straight requests with a body of one size.
func sized(f form, name string, size int, missGoal, noStoreGoal float64) group {
	plain, noStore := chat{size: size, tokens: shortAnswer}, chat{size: size, tokens: shortAnswer, noStore: true}
	base := f.continuous("yardstick "+name, yardstick, plain.exchange(), nil)
	g := group{workloads: []workload{base}}
	g.add("miss, "+name, base.title, missGoal, f.continuous("default, "+name, newcomer, plain.exchange(), missed))
	g.add("no-store, "+name, base.title, noStoreGoal, f.continuous("no-store, "+name, newcomer, noStore.exchange(), bypassed))
	g.add("nginx, "+name, base.title, 0, f.continuous("nginx, "+name, nginx, plain.exchange(), nil))
	return g
}

// passed compares requests of which the gateway knows only the path.
func passed(f form, name string, size int) group {
	x := embeddings(size)
	base := f.continuous("yardstick, embeddings "+name, yardstick, x, nil)
	g := group{workloads: []workload{base}}
	g.add("embeddings, "+name, base.title, 0, f.continuous("embeddings "+name, newcomer, x, nil))
	return g
}

// streams is a load of streams, counted by tokens.
func (f form) streams(title, at string, c chat, served []evidence) workload {
	c.size, c.stream = 1<<10, true
	w := f.continuous(title, at, c.exchange(), served)
	w.tokens = c.tokens
	if c.pause > 0 {
		pace(&w)
	}
	return w
}

// pace makes a load one stream for each connection. They begin one after the other, so that their tokens come evenly.
func pace(w *workload) {
	w.paced = true
	w.lasts, w.requests, w.stagger = 0, 1, streamPause/connections
}

// paced compares streams of which a token comes every few milliseconds.
func paced(f form) group {
	plain := chat{tokens: streamTokens, pause: streamPause}
	auto, noStore := plain, plain
	auto.tier, noStore.noStore = "auto", true
	base := f.streams("yardstick, paced", yardstick, plain, nil)
	straight := f.streams("relayed beside drafts, paced", drafter, plain, missed)
	judged := f.streams("judged, paced", drafter, auto, accepted(streamTokens))
	whole := auto
	whole.route = wholeRoute
	whole.greedy = true // the mock scores without alternatives, which sampled answers need
	g := group{workloads: []workload{base, straight}}
	g.add("relayed stream", base.title, 0.85, f.streams("relayed, paced", newcomer, plain, missed))
	g.add("relayed stream, no-store", base.title, 0, f.streams("relayed no-store, paced", newcomer, noStore, bypassed))
	g.add("judged stream", base.title, 1.5, judged)
	g.rows = append(g.rows, row{title: "judged stream beside a straight one, per token", own: judged.title, beside: straight.title, goal: 1.3})
	g.add("held-back stream, all of it checked by the target", base.title, 0, f.streams("whole-checked, paced", drafter, whole, checked(streamTokens)))
	g.add("nginx, relayed stream", base.title, 0, f.streams("nginx, paced", nginx, plain, nil))
	return g
}

// bursts compares streams that the engine sends in one piece.
func bursts(f form) group {
	plain := chat{tokens: longAnswer}
	auto := plain
	auto.tier = "auto"
	base := f.streams("yardstick, at once", yardstick, plain, nil)
	g := group{workloads: []workload{base}}
	g.add("relayed stream, all at once", base.title, 0, f.streams("relayed, at once", newcomer, plain, missed))
	g.add("judged stream, all at once", base.title, 3, f.streams("judged, at once", drafter, auto, accepted(longAnswer)))
	return g
}

// drafted compares an accepted draft with the target's answer to the same request, at the same gateway. Short answers show what
// a request costs, others what a token costs. The engine sends a draft as a stream also where the client gets a whole answer: at
// once, or paced as engines do.
func drafted(f form, name string, plain chat, goal float64) group {
	plain.size = 1 << 10
	auto := plain
	auto.tier = "auto"
	name = fmt.Sprintf("%s of %d tokens", name, plain.tokens)
	if plain.pause > 0 {
		name += ", paced"
	}
	base := f.continuous("straight, "+name, drafter, plain.exchange(), missed)
	own := f.continuous("drafted, "+name, drafter, auto.exchange(), accepted(plain.tokens))
	for _, w := range []*workload{&base, &own} {
		if plain.tokens != shortAnswer {
			w.tokens = plain.tokens
		}
		if plain.pause > 0 {
			pace(w)
		}
	}
	g := group{workloads: []workload{base}}
	g.add("drafted, "+name+", beside a straight one", base.title, goal, own)
	return g
}
