package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// The routes of a world. They share their pools and differ in how they judge,
// by settings of their own.
const (
	routeUsual  = "llama-3"  // judged as configured by default
	routeAccept = "accept"   // every draft is kept
	routeReject = "reject"   // no draft is kept
	routeSeam   = "seam"     // released early, so that the target takes over in mid-stream
	routeText   = "seam-txt" // the same with pools that share no tokenizer
	routeAlone  = "alone"    // no draft pool
)

var allRoutes = []string{routeUsual, routeAccept, routeReject, routeSeam, routeText, routeAlone}

// worldSettings make the routes what they are called. On the seam routes the
// window's term rules the score: it begins above the threshold and crosses it
// wherever the draft doubts itself for a few tokens, which it does in one answer
// of six.
var worldSettings = map[string]string{
	"speculation.mode":                            "confidence", // drafts from the first request on
	"speculation.threshold_nats@" + routeAccept:   "-20",
	"speculation.threshold_nats@" + routeReject:   "20",
	"speculation.holdback_tokens@" + routeSeam:    "2",
	"speculation.offset_window_nats@" + routeSeam: "-0.3",
	"speculation.holdback_tokens@" + routeText:    "2",
	"speculation.offset_window_nats@" + routeText: "-0.3",
	"speculation.max_prompt_tokens@" + routeSeam:  "8000",
}

const (
	simDraft  = "sim/draft"
	simTarget = "sim/target"
	simSeed   = 1
	simScale  = 50
)

// world is a gateway with what stands behind it.
type world struct {
	*process
	draft  []*vllmsim.Server
	target []*vllmsim.Server
	redis  *miniredis.Miniredis
}

// newWorld starts two draft backends, one target, a Redis and a gateway, and
// waits until it is ready.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{redis: miniredis.RunT(t)}
	for range 2 {
		w.draft = append(w.draft, vllmsim.Start(t, vllmsim.Options{
			Model: simDraft, Profile: "a10g-8b", Divergence: 0.6, Seed: simSeed, TimeScale: simScale}))
	}
	w.target = append(w.target, vllmsim.Start(t, vllmsim.Options{
		Model: simTarget, Profile: "h100-70b-tp4", Seed: simSeed, TimeScale: simScale}))
	for name, value := range worldSettings {
		w.redis.HSet("foregate:settings", name, value)
	}
	w.process = serve(t, w.config())
	w.ready(t)
	// Probes are requests, too: who counts what engines do is not to find them at it.
	eventually(t, "both pools were probed", func() bool {
		return strings.Count(w.metrics(t), "\nforegate_probe_age_seconds{") == 2
	})
	return w
}

func (w *world) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `listen: 127.0.0.1:0
admin: 127.0.0.1:0
redis: {url: "redis://%s/0"}
pools:
  small: {model: %s, backends: [%q, %q]}
  large: {model: %s, backends: [%q]}
routes:
`, w.redis.Addr(), simDraft, w.draft[0].URL(), w.draft[1].URL(), simTarget, w.target[0].URL())
	for _, name := range allRoutes {
		switch name {
		case routeAlone:
			fmt.Fprintf(&b, "  - {model: %s, target: large}\n", name)
		default:
			fmt.Fprintf(&b, "  - {model: %s, draft: small, target: large, same_tokenizer: %t}\n", name, name != routeText)
		}
	}
	b.WriteString("drain: {delay: 0s, grace: 5s}\n")
	return b.String()
}

func (w *world) backends() []*vllmsim.Server { return slices.Concat(w.draft, w.target) }

// running is the number of requests that the backends work on.
func (w *world) running() int {
	n := 0
	for _, s := range w.backends() {
		st := s.State()
		n += st.Running + st.Waiting
	}
	return n
}

// aborted is the number of generations that ended because their client left.
func (w *world) aborted() int {
	n := 0
	for _, s := range w.backends() {
		n += s.State().Aborted
	}
	return n
}

// client is OpenAI's own, without its retries.
func (p *process) client(opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(p.base + "/v1/"), option.WithAPIKey("none"), option.WithMaxRetries(0), option.WithHTTPClient(plain),
	}, opts...)...)
}

// user is a conversation of one message.
func user(text string) []openai.ChatCompletionMessageParamUnion {
	return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}
}

// ask is a greedy request for a short answer.
func ask(route, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: route, Messages: user(text), Temperature: openai.Float(0), MaxTokens: openai.Int(120),
	}
}

// tier demands a tier.
func tier(name string) option.RequestOption { return option.WithHeader("X-Tier", name) }

// told is the object "foregate" of an answer.
type told struct {
	Tier           string
	AcceptedTokens int `json:"accepted_tokens"`
	TargetTokens   int `json:"target_tokens"`
	Acceptance     string
	Reason         string
}

// parseTold reads the object; an answer without one fails the test.
func parseTold(t *testing.T, raw string) told {
	t.Helper()
	var out told
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		t.Fatalf("the foregate object %q: %v", raw, err)
	}
	return out
}

// answer is what came of a streamed or a whole request, gathered.
type answer struct {
	id      string
	header  http.Header
	model   string
	texts   map[int64]string // by choice
	finish  map[int64]string
	usage   openai.CompletionUsage
	told    told
	chunks  int
	toolsOf map[int64]toolText
}

type toolText struct{ id, name, args string }
