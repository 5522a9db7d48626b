package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/loadtest/process"
)

// What X-Cache says.
const (
	wordHit       = "HIT"
	wordMiss      = "MISS"
	wordCoalesced = "COALESCED"
	wordBypass    = "BYPASS"
)

const (
	answerKeys = "foregate:cache:" // begin the Redis keys of answers

	chatPath        = "/v1/chat/completions"
	completionsPath = "/v1/completions" // continuations and probes
)

// sharing is a world for rows of what identical requests share: targets alone, so that one
// generation is one request to a simulator, and slow enough to be met under way.
func sharing() Setup {
	return Setup{Drafts: -1, Rate: -1, Sim: slowly, Config: without("rpm", "tpm"), Settings: map[string]string{"cache.lookup_timeout": longLookupTimeout}}
}

// longLookupTimeout is a budget within which Redis answers on machines that do other things, too:
// these rows count generations, and a lookup that was late costs one.
const longLookupTimeout = "500ms"

// cached is what X-Cache says of an outcome.
func (o *Outcome) cached() string { return o.Header.Get("X-Cache") }

// burstPace is how many requests of a crowd come in a millisecond. Gateways that share two cores with each other and with
// a thousand clients are late for Redis (100 ms) where all of those come at the very same moment, and then rightly
// go without it.
const burstPace = 3

// Burst sends a request n times as good as at once, to the gateways in turn, and waits for all answers.
func (l *Load) Burst(gateways []*Gateway, n int, r Request) []Outcome {
	out := make([]Outcome, n)
	var all sync.WaitGroup
	for i := range out {
		if i%burstPace == burstPace-1 {
			time.Sleep(time.Millisecond)
		}
		all.Go(func() { out[i] = l.Send(gateways[i%len(gateways)], r) })
	}
	all.Wait()
	return out
}

// Each sends one request for each number below n, eight at a time, to the gateways in turn.
func (l *Load) Each(n int, request func(i int) Request) []Outcome {
	out := make([]Outcome, n)
	gateways := l.gateways()
	var all sync.WaitGroup
	for first := range min(n, 8) {
		all.Go(func() {
			for i := first; i < n; i += 8 {
				out[i] = l.Send(gateways[i%len(gateways)], request(i))
			}
		})
	}
	all.Wait()
	return out
}

// KeepAll puts outcomes among the load's.
func (l *Load) KeepAll(all []Outcome) {
	for i := range all {
		l.Keep(all[i])
	}
}

// truth is what a request is answered without the cache. The simulators' answers follow from the prompt, at
// temperature 0.
func (l *Load) truth(g *Gateway, r Request) (text string, err error) {
	r.Header = http.Header{"Cache-Control": {"no-store"}}
	o := l.Send(g, r)
	l.Keep(o)
	if o.Kind != Answered || o.cached() != wordBypass {
		return "", fmt.Errorf("without the cache: %s (X-Cache %q) %s", o.Kind, o.cached(), o.Detail)
	}
	return o.Text, nil
}

// allSay checks that whatever was answered is the text, to the last byte.
func (w *Testbed) allSay(what, text string, all []Outcome) {
	other := slices.DeleteFunc(slices.Clone(all), func(o Outcome) bool { return o.Kind != Answered || o.Text == text })
	if len(other) > 0 {
		w.Fail("%s: %d of %d answers are not what the backends say, such as %.40q (%s) for %.40q", what, len(other), len(all), other[0].Text, other[0].cached(), text)
	}
}

// words counts what X-Cache said.
func words(all []Outcome) string {
	n := map[string]int{}
	for i := range all {
		n[all[i].cached()]++
	}
	return kinds(n)
}

// generations is how many chat completions the targets were asked for so far.
func (w *Testbed) generations() (n int) {
	for _, s := range w.Targets {
		n += s.State().Requests[chatPath]
	}
	return n
}

// checkMaxGenerations checks a number of generations, and notes it.
func (w *Testbed) checkMaxGenerations(ctx context.Context, what string, made, maximum int) {
	w.Note("%s: %d generations", what, made)
	if made > maximum {
		w.Fail("%s: %d generations, promised %d; lookups %v", what, made, maximum, w.lookups(ctx))
	}
}

// lookups are what came of the lookups of each gateway.
func (w *Testbed) lookups(ctx context.Context) (out []string) {
	for _, g := range w.Gateways {
		m, _ := g.Metrics(ctx) // one that does not answer tells nothing
		n := map[string]int{}
		for _, result := range []string{"hit", "local", "coalesced", "miss", "away", "late", "error", "bypass"} {
			if v := m.Sum("llm_cache_requests_total", fmt.Sprintf("result=%q", result)); v > 0 {
				n[result] = int(v)
			}
		}
		out = append(out, kinds(n))
	}
	return out
}

// patience is how long something is waited for that comes at once.
const patience = 10 * time.Second

// keptAnswers are the Redis keys of the answers that are kept.
func keptAnswers(ctx context.Context, s *Server) (names []string, err error) {
	err = eachKey(ctx, s.Client, answerKeys+"*", func(name string) { names = append(names, name) })
	slices.Sort(names)
	return names, err
}

// eachKey calls do with every key that a pattern matches.
func eachKey(ctx context.Context, c *redis.Client, pattern string, do func(name string)) error {
	seen := map[string]bool{}
	keys := c.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if name := keys.Val(); !seen[name] {
			seen[name] = true
			do(name)
		}
	}
	return keys.Err()
}

// values are what Redis has under keys; nil is nothing.
func values(ctx context.Context, s *Server, names []string) ([][]byte, error) {
	list, err := s.Client.MGet(ctx, names...).Result()
	if err != nil {
		return nil, err
	}
	out := make([][]byte, len(list))
	for i, v := range list {
		if text, ok := v.(string); ok {
			out[i] = []byte(text)
		}
	}
	return out, nil
}

// emptied waits until what the gateways were warmed up with is kept, and takes it away.
func (w *Testbed) emptied(ctx context.Context) error {
	names, err := w.stored(ctx, warmUps*len(w.Gateways))
	if err != nil {
		return err
	}
	return w.Redis.Servers[0].Client.Unlink(ctx, names...).Err()
}

// stored waits until Redis keeps so many answers, and names them.
func (w *Testbed) stored(ctx context.Context, n int) (names []string, err error) {
	s := w.Redis.Servers[0]
	werr := process.Poll(ctx, patience, func() bool {
		names, err = keptAnswers(ctx, s)
		return err != nil || len(names) >= n
	})
	if err = errors.Join(err, werr); err != nil {
		return nil, fmt.Errorf("%d answers are kept, not %d: %w", len(names), n, err)
	}
	return names, nil
}
