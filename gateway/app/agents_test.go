package app_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

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

// bodies are the requests, with a text of the same length for each that the recording left out.
func (r *recording) bodies(t *testing.T, model string) (all []string) {
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
		all = append(all, leftOut.ReplaceAllStringFunc(string(raw), filler))
	}
	return all
}

var leftOut = regexp.MustCompile(`«(\d+):([0-9a-f]{8})»`)

// filler is a text of the length and for the hash that a mark names.
func filler(mark string) string {
	m := leftOut.FindStringSubmatch(mark)
	n, err := strconv.Atoi(m[1])
	if err != nil || n > 1<<20 {
		panic("no length of a text: " + mark)
	}
	words := []string{"the", "file", "is", "read", "before", "a", "tool", "changes", "it", "and", "then", "command", "runs", "in", "project", "folder"}
	h := fnv.New64a()
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprint(h, m[2], i)
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
	p.replica = apptest.Serve(t, conf(`%spools:
  draft: {model: %s, backends: [%q, %q]}
  target: {model: %s, backends: [%q, %q]}
routes:
  - {model: "off", draft: draft, target: target, same_tokenizer: true}
  - {model: risk, draft: draft, target: target, same_tokenizer: true}
`, withSettings(t, "speculation.mode@off", "off", "speculation.mode@risk", "risk", "speculation.max_prompt_tokens", "100000"),
		simDraft, p.draft[0].URL(), p.draft[1].URL(), simTarget, p.target[0].URL(), p.target[1].URL()))
	p.replica.Ready(t)
	probed(t, p.replica, 2)
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

var (
	lastWords = regexp.MustCompile(`event: (response\.completed|message_stop)`)
	tierNames = regexp.MustCompile(`"tier":"(\w+)"`)
)

// TestRecordedAgentsFindTheirPrefixesWarm replays recorded sessions: each request is answered whole, and from a pool's second one on at
// least 95 % of the prompt is in the cache of the engine that it goes to, at drafts and targets alike.
func TestRecordedAgentsFindTheirPrefixesWarm(t *testing.T) {
	for _, r := range recordings(t) {
		for _, route := range []string{"off", "risk"} {
			t.Run(r.Program+" "+route, func(t *testing.T) {
				p := startAgentPools(t, r)
				var headers []string
				for name, v := range r.Headers {
					headers = append(headers, name, v)
				}
				tiers, warm := map[string]int{}, map[string]bool{}
				for i, body := range r.bodies(t, route) {
					before := p.prefixes()
					answer, _ := apptest.Post(t, p.replica.URL+r.Path, body, headers...)
					if !lastWords.MatchString(answer) {
						t.Fatalf("request %d is not answered whole: %s", i, answer)
					}
					if all := tierNames.FindAllStringSubmatch(answer, -1); len(all) > 0 {
						tiers[all[len(all)-1][1]]++ // the end of the answer tells it
					}
					for name, now := range p.prefixes() {
						asked, had := now[0]-before[name][0], now[1]-before[name][1]
						if asked < longPrompt {
							continue // a probe
						}
						share := float64(had) / float64(asked)
						if warm[name] && share < 0.95 {
							t.Errorf("request %d: the %s had %.1f %% of the prompt", i, name, 100*share)
						}
						warm[name] = true
					}
				}
				if !warm["target"] || route == "off" && tiers["target"] != len(r.Requests) || route == "risk" && !warm["draft"] {
					t.Errorf("answers by tier: %v, pools with long prompts: %v", tiers, warm)
				}
			})
		}
	}
}

// longPrompt is less than a prompt of a coding agent, and more than all prompts of a probe, in tokens.
const longPrompt = 4000
