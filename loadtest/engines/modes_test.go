package engines

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// questions for which draft and target differ at times.
var questions = []string{
	"Why is the sky blue?", "What is the capital of France?", "Name a colour.", "Hello there", "Count to three.", "What is 2+2?", "How is bread baked?",
	"Who are you?", "Is water wet?", "Where does the wind come from?", "Tell a story.", "Why do cats purr?", "Write one sentence about snow.",
	"Translate to French: I like bread.", "Give me an antonym of the word hot.", "List three facts about Italy.", "What colour is gold?", "Spell the word rain backwards.",
	"Why is paper important?", "In which continent is Japan?",
}

// inAPI is a question in each API.
var inAPI = map[string]string{
	"chat":        `"messages":[{"role":"user","content":%q}],"max_tokens":%d`,
	"completions": `"prompt":%q,"max_tokens":%d`,
	"messages":    `"messages":[{"role":"user","content":%q}],"max_tokens":%d`,
	"responses":   `"input":%q,"max_output_tokens":%d`,
}

// modeOf are the modes of routes.
var modeOf = map[string]string{"m": "confidence", "verify": "verify", "risk": "risk"}

// judged are a question in an API, and who may answer it.
type judged struct {
	mode string // a route
	request
	stream bool
}

// judgedRequests are n requests, over all modes, APIs and questions in turn.
func judgedRequests(n int) (all []judged) {
	modes, apis := []string{"m", "verify", "risk"}, []string{"chat", "completions", "messages", "responses"}
	for i := range n {
		api, q, tokens := apis[i%len(apis)], questions[i%len(questions)], 16+i%9
		j := judged{mode: modes[i%len(modes)], stream: i/2%2 == 0, request: request{api: api, kind: "judged", members: fmt.Sprintf(inAPI[api], q, tokens)}}
		if api == "messages" || api == "responses" {
			j.chat = fmt.Sprintf(inAPI["chat"], q, tokens)
		}
		all = append(all, j)
	}
	return all
}

// Who says what is in an answer is told by its X-Tier. What both have said is compared where continuations are.
func TestAnswersInModesThatJudgeAreThoseOfDraftOrTarget(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		r := serve(t, p, setup{settings: []string{"speculation.threshold_nats", "-1", "speculation.holdback_tokens", "6"}}) // small models are unsure
		by := map[string]int{}
		for _, j := range judgedRequests(count(24, 96)) {
			if j.mode == "verify" && p.target.Kind == LlamaCpp { // which cannot score
				j.mode = "m"
			}
			by[j.check(t, p, r)]++
		}
		t.Logf("answered by %v", by)
		if by["draft"] == 0 || by["target"]+by["mixed"] == 0 {
			t.Errorf("answered by %v: some want the draft, others the target", by)
		}
	})
}

// check asks one request and compares its answer with that of the engine that gave it.
func (j *judged) check(t *testing.T, p pair, r *replica) (tier string) {
	t.Helper()
	got := post(t, r.URL+paths[j.api], j.body(j.mode, j.stream))
	tier = got.head.Get("X-Tier")
	said, err := read(j.api, got.body)
	if got.status != 200 || err != nil {
		t.Errorf("%s %s, stream %v: %d, %v: %s", j.mode, j.api, j.stream, got.status, err, got.body)
		return "failed"
	}
	if j.stream && tier == "draft" && strings.Contains(got.body, `"tier":"mixed"`) {
		tier = "mixed"
	}
	e := map[string]*Engine{"draft": p.draft, "target": p.target}[tier]
	if e == nil {
		return tier
	}
	row := kindOfAnswer{p.name, j.api, "mode " + modeOf[j.mode] + ", by the " + tier}
	var own answer
	for i := range again {
		direct := post(t, e.URL+paths[j.apiOfEngine()], j.toEngine(e))
		if own, err = read(j.apiOfEngine(), direct.body); err != nil {
			t.Errorf("%s: %v", e.URL, err)
			return tier
		}
		if reflect.DeepEqual(own, said) {
			tally(row, outcome(min(i, 1)))
			return tier
		}
	}
	if j.tie(t, e, got) {
		tally(row, explained)
		return tier
	}
	tally(row, different)
	t.Errorf("%s %s, stream %v, %s: %+v, not %+v: %.2000s", j.mode, j.api, j.stream, got.head.Get("X-Acceptance"), said, own, got.body)
	return tier
}

func (j *judged) apiOfEngine() string {
	if j.chat != "" {
		return "chat"
	}
	return j.api
}

func (j *judged) toEngine(e *Engine) string {
	if j.chat != "" {
		return j.asChat(e.Model, false)
	}
	return j.body(e.Model, false)
}
