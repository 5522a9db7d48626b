package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
	"github.com/foregate/foregate/tiers/openai"
)

// greedyAsk is a greedy question; stop is "" for none.
type greedyAsk struct {
	model, text, stop string
	limit             int
	stream            bool
}

// apiForm is how one API asks it, and what a client reads of the answer: the text of a whole answer, or of an event's delta.
type apiForm struct {
	path  string
	stops bool // the API has stop sequences
	body  func(greedyAsk) string
	read  func(raw []byte) string
}

func quoted(s string) string { return string(openai.Quote(s)) }

var apiForms = []apiForm{
	{chat, true, func(q greedyAsk) string {
		more := ""
		if q.stop != "" {
			more = `,"stop":[` + quoted(q.stop) + `]`
		}
		return fmt.Sprintf(`{"model":%q,"stream":%t,"temperature":0,"max_tokens":%d,"messages":[{"role":"user","content":%s}]%s}`, q.model, q.stream, q.limit, quoted(q.text), more)
	}, func(raw []byte) (text string) {
		var v struct {
			Choices []struct{ Message, Delta struct{ Content string } }
		}
		_ = json.Unmarshal(raw, &v)
		for _, c := range v.Choices {
			text += c.Message.Content + c.Delta.Content
		}
		return text
	}},
	{"/v1/messages", true, func(q greedyAsk) string {
		more := ""
		if q.stop != "" {
			more = `,"stop_sequences":[` + quoted(q.stop) + `]`
		}
		return fmt.Sprintf(`{"model":%q,"stream":%t,"temperature":0,"max_tokens":%d,"messages":[{"role":"user","content":%s}]%s}`, q.model, q.stream, q.limit, quoted(q.text), more)
	}, func(raw []byte) (text string) {
		var v struct {
			Delta   struct{ Text string }
			Content []struct{ Text string }
		}
		_ = json.Unmarshal(raw, &v)
		for _, c := range v.Content {
			text += c.Text
		}
		return text + v.Delta.Text
	}},
	{"/v1/responses", false, func(q greedyAsk) string {
		return fmt.Sprintf(`{"model":%q,"stream":%t,"temperature":0,"max_output_tokens":%d,"input":%s}`, q.model, q.stream, q.limit, quoted(q.text))
	}, func(raw []byte) (text string) {
		var v struct {
			Type   string
			Delta  json.RawMessage
			Output []struct{ Content []struct{ Text string } }
		}
		_ = json.Unmarshal(raw, &v)
		var delta string
		if v.Type == "response.output_text.delta" {
			_ = json.Unmarshal(v.Delta, &delta)
		}
		for _, item := range v.Output {
			for _, c := range item.Content {
				text += c.Text
			}
		}
		return text + delta
	}},
}

// textBy asks a server in a form, and returns the answer's text.
func textBy(t *testing.T, url string, f apiForm, q greedyAsk) string {
	t.Helper()
	status, _, body := apptest.Send(t, http.MethodPost, url+f.path, f.body(q), "Cache-Control", "no-store", "X-Acceptance-Mode", "exact")
	if status != http.StatusOK {
		t.Errorf("%s %+v: status %d: %s", f.path, q, status, body)
		return ""
	}
	if !q.stream {
		return f.read([]byte(body))
	}
	var text strings.Builder
	for line := range strings.SplitSeq(body, "\n") {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			text.WriteString(f.read([]byte(data)))
		}
	}
	return text.String()
}

// TestAnExactAnswerIsTheTargetsOwnThroughEveryAPI asks the target alone, and then the gateway by each API, streamed and whole:
// without drafts, with drafts that are verified, and with a route of mode risk of which an exact answer is demanded. Limits
// cut answers within words, and stop strings of the target's own text end them.
func TestAnExactAnswerIsTheTargetsOwnThroughEveryAPI(t *testing.T) {
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Profile: "a10g-8b", Seed: simSeed, Divergence: 0.4, TimeScale: 100})
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: 100})
	store := miniredis.RunT(t)
	store.HSet("foregate:settings", "cache.lookup_timeout", "1s", "speculation.mode@off", "off", "speculation.mode@verify", "verify")
	r := apptest.Serve(t, fmt.Sprintf(`listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools: {small: {model: %s, backends: [%q]}, large: {model: %s, backends: [%q]}}
routes: [{model: "off", draft: small, target: large}, {model: verify, draft: small, target: large}, {model: risk, draft: small, target: large}]
drain: {delay: 0s, grace: 5s}
`, store.Addr(), simDraft, draft.URL(), simTarget, target.URL()))
	r.Ready(t)
	apptest.Eventually(t, "the engines are probed", r.EnginesKnown)
	questions := 60
	if testing.Short() {
		questions = 20
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	compared, wide := 0, 0
	for i := range questions {
		running.Go(func() {
			q := greedyAsk{model: simTarget, text: fmt.Sprintf("Question %d: 天気はどうですか 🌦, and why?", i), limit: 5 + i*7%90}
			own := textBy(t, target.URL(), apiForms[0], q)
			if runes := []rune(own); i%3 == 0 && len(runes) > 12 {
				q.stop = string(runes[len(runes)/2 : len(runes)/2+3])
				own = textBy(t, target.URL(), apiForms[0], q)
			}
			for _, mode := range []string{"off", "verify", "risk"} {
				for n := range 2 * len(apiForms) {
					f := apiForms[n/2]
					if q.stop != "" && !f.stops {
						continue
					}
					q.model, q.stream = mode, n%2 == 0
					if text := textBy(t, r.URL, f, q); text != own {
						t.Errorf("%s %+v: %q, the target alone says %q", f.path, q, text, own)
					}
					mu.Lock()
					if compared++; len(own) > utf8.RuneCountInString(own) {
						wide++
					}
					mu.Unlock()
				}
			}
		})
	}
	running.Wait()
	page := r.Metrics(t)
	if !strings.Contains(page, `foregate_verifications_total`) || wide == 0 {
		t.Errorf("nothing was verified, or none of %d answers has a character of several bytes:\n%s", compared, apptest.Lines(page, "foregate_verifications_total"))
	}
	t.Logf("%d answers compared, %d with characters of several bytes\n%s", compared, wide, apptest.Lines(page, "foregate_verifications_total"))
}
