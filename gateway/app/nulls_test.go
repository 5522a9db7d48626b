package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/app/apptest"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// own are members that the gateway adds, and those that tell of one engine or of what an answer has used of a cache.
var own = []string{"foregate", "system_fingerprint", "prompt_tokens_details"}

// idForm is the part of an id that differs each time.
var idForm = regexp.MustCompile(`[0-9a-f]{32}`)

// members are the members of a JSON value with their paths, and which of them are null.
func members(path string, v any) (all []string) {
	switch at := v.(type) {
	case map[string]any:
		for key, value := range at {
			if !slices.Contains(own, key) {
				all = append(all, members(path+"."+key, value)...)
			}
		}
	case []any:
		for _, value := range at {
			all = append(all, members(path+"[]", value)...)
		}
		if len(at) == 0 {
			all = append(all, path+"[]")
		}
	case nil:
		return []string{path + " null"}
	case string:
		if path == ".id" {
			return []string{path + idForm.ReplaceAllString(at, "#")}
		}
		return []string{path}
	default:
		return []string{path}
	}
	return all
}

// shapes are the different shapes of a whole answer, or of the chunks of a stream.
func shapes(t *testing.T, body string) []string {
	t.Helper()
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
		if part = strings.TrimPrefix(part, "data: "); part == "[DONE]" || strings.HasPrefix(part, ":") {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(part), &v); err != nil {
			t.Fatalf("%v in %s", err, part)
		}
		all := members("", v)
		slices.Sort(all)
		seen[strings.Join(slices.Compact(all), " ")] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestAnAnswerHasOneShapeWhereverItComesFrom(t *testing.T) {
	target := vllmsim.Start(t, vllmsim.Options{Model: simTarget, Seed: simSeed, TimeScale: simScale})
	draft := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Divergence: 1, Seed: simSeed, TimeScale: simScale})
	near := vllmsim.Start(t, vllmsim.Options{Model: simDraft, Seed: simSeed, TimeScale: simScale})
	r := apptest.Serve(t, conf(`%spools: {near: {model: %s, backends: [%q]}, small: {model: %s, backends: [%q]}, large: {model: %s, backends: [%q]}}
routes: [{model: relayed, draft: small, target: large}, {model: drafted, draft: near, target: large}, {model: continued, draft: small, target: large, same_tokenizer: true}]
`, withSettings(t, "redis.timeout", "1s", "economy.guard", "off", "speculation.mode", "confidence", "speculation.threshold_nats@drafted", "-100", "speculation.mode@continued", "verify", "speculation.mode@relayed", "off"),
		simDraft, near.URL(), simDraft, draft.URL(), simTarget, target.URL()))
	r.Ready(t)
	apptest.Eventually(t, "all pools were probed", r.EnginesKnown)
	for path, question := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"Why is the sky blue, MODEL?"}]`,
		"/v1/completions":      `"prompt":"Tell me of a MODEL harbour, and of its"`,
	} {
		for _, form := range []string{"", `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
			ask := func(url, model string, n int) string {
				body := fmt.Sprintf(`{"model":%q,"temperature":0,"ignore_eos":true,"max_tokens":40,%s%s}`, model, strings.ReplaceAll(question, "MODEL", fmt.Sprint(model, len(form), n)), form)
				answer, _ := apptest.Post(t, url+path, body)
				return answer
			}
			want := shapes(t, ask(target.URL(), simTarget, 0))
			for model, tier := range map[string]string{"relayed": "", "drafted": "draft", "continued": "mixed"} {
				n, fresh := 0, ask(r.URL, model, 0)
				for ; n < 40 && tier != "" && !strings.Contains(fresh, `"tier":"`+tier+`"`); n++ {
					fresh = ask(r.URL, model, n+1)
				}
				cached := ""
				apptest.Eventually(t, "the answer of "+model+" is cached", func() bool {
					cached = ask(r.URL, model, n)
					return strings.Contains(cached, `"cache":"`) && strings.Contains(cached, `"tier":"`+tier)
				})
				for what, answer := range map[string]string{"fresh": fresh, "cached": cached} {
					for _, got := range shapes(t, answer) {
						if !slices.Contains(want, got) { // a stream may have fewer chunks
							t.Errorf("%s %s, %s%s:\n%s\nfrom the engine:\n%s", path, model, what, form, got, strings.Join(want, "\n"))
						}
					}
				}
			}
		}
	}
}
