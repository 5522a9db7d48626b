package app_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// recording is a session of a coding agent, as make agents writes it with FOREGATE_AGENTS_RECORD.
type recording struct {
	Program  string            `json:"program"`
	Path     string            `json:"path"`
	Headers  map[string]string `json:"headers"`
	Answers  json.RawMessage   `json:"answers"`
	Requests []struct {
		Set  map[string]json.RawMessage `json:"set"`
		Gone []string                   `json:"gone"`
		Keep int                        `json:"keep"`
		Add  []json.RawMessage          `json:"add"`
	} `json:"requests"`
}

// bodies are the requests, with a text of the same length for each that the recording left out: another one for each agent.
func (r *recording) bodies(t *testing.T, model, agent string) (all []string) {
	t.Helper()
	list := map[string]string{"/v1/messages": "messages", "/v1/responses": "input"}[r.Path]
	body := map[string]any{"model": model}
	var said []json.RawMessage
	for _, next := range r.Requests {
		for name, v := range next.Set {
			body[name] = v
		}
		for _, name := range next.Gone {
			delete(body, name)
		}
		said = append(slices.Clone(said[:next.Keep]), next.Add...)
		body[list] = said
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, leftOut.ReplaceAllStringFunc(string(raw), func(mark string) string { return filler(mark, agent) }))
	}
	return all
}

var leftOut = regexp.MustCompile(`«(\d+):([0-9a-f]{8})»`)

// filler is a text of the length and for the hash that a mark names.
func filler(mark, agent string) string {
	m := leftOut.FindStringSubmatch(mark)
	n, err := strconv.Atoi(m[1])
	if err != nil || n > 1<<20 {
		panic("no length of a text: " + mark)
	}
	words := []string{"the", "file", "is", "read", "before", "a", "tool", "changes", "it", "and", "then", "command", "runs", "in", "project", "folder"}
	h := fnv.New64a()
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprint(h, agent, m[2], i)
		b.WriteString(words[h.Sum64()%uint64(len(words))] + " ")
	}
	return b.String()[:n]
}

func recordings(t *testing.T) (all []*recording) {
	t.Helper()
	files, err := filepath.Glob("testdata/agents/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := &recording{}
		if err := json.Unmarshal(raw, r); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, r)
	}
	return all
}

// agentPools are two backends of a draft and two of a target, with the answers of a session.
type agentPools struct {
	draft, target []*vllmsim.Server
	replica       *apptest.Replica
}

func startAgentPools(t *testing.T, r *recording) *agentPools {
	t.Helper()
	answers, err := vllmsim.ParseAnswers(r.Answers)
	if err != nil {
		t.Fatal(err)
	}
	p := &agentPools{}
	for range 2 {
		p.draft = append(p.draft, vllmsim.Start(t, vllmsim.Options{Model: simDraft, Divergence: 0.3, TimeScale: simScale, Answers: answers, PromptTokensDetails: true}))
		p.target = append(p.target, vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", TimeScale: simScale, Answers: answers, PromptTokensDetails: true}))
	}
	store := miniredis.RunT(t)
	for name, value := range map[string]string{"speculation.mode@off": "off", "speculation.mode@risk": "risk", "speculation.max_prompt_tokens": "100000"} {
		store.HSet("foregate:settings", name, value)
	}
	p.replica = apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s"}
drain: {delay: 0s, grace: 2s}
pools:
  draft: {model: %s, backends: [%q, %q]}
  target: {model: %s, backends: [%q, %q]}
routes:
  - {model: "off", draft: draft, target: target, same_tokenizer: true}
  - {model: risk, draft: draft, target: target, same_tokenizer: true}
`, store.Addr(), simDraft, p.draft[0].URL(), p.draft[1].URL(), simTarget, p.target[0].URL(), p.target[1].URL()))
	p.replica.Ready(t)
	apptest.Eventually(t, "both pools were probed", func() bool {
		return strings.Count(p.replica.Metrics(t), "\nforegate_probe_age_seconds{") == 2
	})
	return p
}

// prefixes are the prompt tokens that the pools' engines were asked for, and those that they had.
func (p *agentPools) prefixes() (all map[string][2]int) {
	all = map[string][2]int{}
	for name, pool := range map[string][]*vllmsim.Server{"draft": p.draft, "target": p.target} {
		var n [2]int
		for _, s := range pool {
			state := s.State()
			n[0], n[1] = n[0]+state.PrefixQueries, n[1]+state.PrefixHits
		}
		all[name] = n
	}
	return all
}

// turn sends one request of a session, and returns the time to the first event with text or a call, and the answer.
func (p *agentPools) turn(t *testing.T, r *recording, body string) (first time.Duration, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.replica.URL+r.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for name, v := range r.Headers {
		req.Header.Set(name, v)
	}
	began := time.Now()
	resp, err := apptest.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	some := make([]byte, 4096)
	for {
		n, err := resp.Body.Read(some)
		b.Write(some[:n])
		if first == 0 && firstWords.MatchString(b.String()) {
			first = time.Since(began)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, b.String())
	}
	return first, b.String()
}

var (
	firstWords = regexp.MustCompile(`event: (response\.(output_text|function_call_arguments)\.delta|content_block_delta)`)
	lastWords  = regexp.MustCompile(`event: (response\.completed|message_stop)`)
	tierNames  = regexp.MustCompile(`"tier":"(\w+)"`)
)

// TestRecordedAgentsFindTheirPrefixesWarm replays recorded sessions: each request is answered whole, and from a pool's second one on at
// least 95 % of the prompt is in the cache of the engine that it goes to, at drafts and targets alike.
func TestRecordedAgentsFindTheirPrefixesWarm(t *testing.T) {
	for _, r := range recordings(t) {
		for _, route := range []string{"off", "risk"} {
			t.Run(r.Program+" "+route, func(t *testing.T) {
				p := startAgentPools(t, r)
				tiers, warm := map[string]int{}, map[string]bool{}
				for i, body := range r.bodies(t, route, "") {
					before := p.prefixes()
					first, answer := p.turn(t, r, body)
					if !lastWords.MatchString(answer) {
						t.Fatalf("request %d is not answered whole: %s", i, answer)
					}
					tier := lastTier(answer)
					tiers[tier]++
					for name, now := range p.prefixes() {
						asked, had := now[0]-before[name][0], now[1]-before[name][1]
						if asked < longPrompt {
							continue // a probe
						}
						share := float64(had) / float64(asked)
						t.Logf("request %d, answered by the %s, first words after %v; the %s had %.1f %% of %d prompt tokens", i, tier, first.Round(time.Millisecond), name, 100*share, asked)
						if warm[name] && share < 0.95 {
							t.Errorf("request %d: the %s had %.1f %% of the prompt", i, name, 100*share)
						}
						warm[name] = true
					}
				}
				if !warm["target"] || route == "off" && tiers["target"] != len(r.Requests) || route == "risk" && !warm["draft"] {
					t.Errorf("answers by tier: %v, pools with long prompts: %v", tiers, warm)
				}
				t.Logf("answers by tier: %v", tiers)
			})
		}
	}
}

// TestAgentsAtOnceKeepTheirBackends has six agents with system prompts and tools of their own work at once at two backends of each
// pool: what they read anew after a pool's first look at each is at most 5 % of what they send.
func TestAgentsAtOnceKeepTheirBackends(t *testing.T) {
	const agents = 6
	for _, r := range recordings(t) {
		for _, route := range []string{"off", "risk"} {
			t.Run(r.Program+" "+route, func(t *testing.T) {
				p := startAgentPools(t, r)
				probed := p.prefixes()
				var all sync.WaitGroup
				var longest atomic.Int64
				for agent := range agents {
					bodies := r.bodies(t, route, strconv.Itoa(agent))
					all.Go(func() {
						for i, body := range bodies {
							_, answer := p.turn(t, r, body)
							if !lastWords.MatchString(answer) {
								t.Errorf("agent %d, request %d is not answered whole: %s", agent, i, answer)
							}
							if n := promptOf(answer); i == len(bodies)-1 {
								longest.Store(max(longest.Load(), n)) // nearly the same of all
							}
						}
					})
				}
				all.Wait()
				for name, now := range p.prefixes() {
					asked, had := now[0]-probed[name][0], now[1]-probed[name][1]
					if asked < agents*longPrompt {
						continue // probes
					}
					again := asked - agents*int(longest.Load())
					t.Logf("the %s: %d of %d prompt tokens were cached", name, had, asked)
					if float64(had) < 0.95*float64(again) || longest.Load() < longPrompt {
						t.Errorf("the %s: %d of %d prompt tokens were cached; first looks at %d agents are %d each", name, had, asked, agents, longest.Load())
					}
				}
			})
		}
	}
}

var promptTokens = regexp.MustCompile(`"(input_tokens|cache_read_input_tokens)":(\d+)`)

// promptOf is the length of the prompt that the end of an answer tells, in tokens.
func promptOf(answer string) (n int64) {
	end := answer[max(0, strings.LastIndex(answer, `"usage":{`)):]
	for _, m := range promptTokens.FindAllStringSubmatch(end, 2) {
		tokens, err := strconv.ParseInt(m[2], 10, 64)
		if err == nil {
			n += tokens
		}
	}
	return n
}

// longPrompt is less than a prompt of a coding agent, and more than all prompts of a probe, in tokens.
const longPrompt = 4000

// lastTier is the tier that the end of an answer tells.
func lastTier(answer string) string {
	all := tierNames.FindAllStringSubmatch(answer, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}
