package engines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// own of an answer and of this request alone: ids, times, names, measurements, the cache of the engine, and what the guides
// say that the gateway adds.
var ownOfAnswer = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`"id":"[^"]*"`), `"id":""`},
	{regexp.MustCompile(`"created":\d+`), `"created":0`},
	{regexp.MustCompile(`"model":"[^"]*"`), `"model":""`},
	{regexp.MustCompile(`"timings":\{[^}]*\}`), `"timings":{}`},
	{regexp.MustCompile(`"cached_tokens":\d+`), `"cached_tokens":0`},
	{regexp.MustCompile(`,"foregate":\{[^}]*\}`), ``},
	{logprob, `"$1":0`},
	// Alternatives behind the first, of which batches exchange those that are nearly equal.
	{regexp.MustCompile(`,\{("id":\d+,)?"token":"(?:[^"\\]|\\.)*",("bytes":\[[\d,]*\],)?"logprob":0(,"bytes":\[[\d,]*\])?\}`), ``},
	{regexp.MustCompile(`("token_logprobs":\[)[^\]]*`), `$1`},
	{regexp.MustCompile(`("top_logprobs":\[)\{"(?:[^"\\]|\\.)*":-[^\]]*`), `$1`}, // of vLLM's completions
}

var logprob = regexp.MustCompile(`"(logprob)":(-?[0-9.e+-]+)`)

// plain is an answer without what is its own.
func plain(body string) string {
	for _, r := range ownOfAnswer {
		body = r.is.ReplaceAllString(body, r.as)
	}
	return body
}

// whole is an answer in one piece without what is its own. The answer of an engine that does not notice clients that leave was
// streamed, so the order of its members is the gateway's: vLLM's alone is kept.
func whole(body string) string {
	body = strings.TrimSpace(plain(body))
	if strings.Contains(body, `"timings":{}`) {
		var members any
		if json.Unmarshal([]byte(body), &members) == nil {
			sorted, _ := json.Marshal(members) // it was read a line above
			return string(sorted)
		}
	}
	return body
}

// saidText are the texts of chunks: they come in other pieces each time.
var saidText = regexp.MustCompile(`"(content|text|arguments)":"(?:[^"\\]|\\.)*"`)

// ids and logprobs of chunks come in as many pieces.
var lists = regexp.MustCompile(`"(token_ids|content|tokens|text_offset)":\[(?:[^\[\]]|\[[^\[\]]*\])*\]`)

// counts of usage in each chunk grow with the pieces.
var counting = regexp.MustCompile(`"(completion_tokens|total_tokens)":\d+`)

// choiceOf is the index of the choice that a chunk is of.
var choiceOf = regexp.MustCompile(`"choices":\[\{"index":(\d+)`)

// byChoice orders chunks by their choice, whose pieces come in turns that differ each time; what is of no choice comes last.
func byChoice(a, b string) int {
	at := func(chunk string) int {
		if m := choiceOf.FindStringSubmatch(chunk); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			return n
		}
		return math.MaxInt
	}
	return cmp.Compare(at(a), at(b))
}

// shapes are the forms of a stream's events, each once where it comes several times in a row.
func shapes(body string) (all []string) {
	data, done := events(body)
	slices.SortStableFunc(data, byChoice)
	for i, d := range data {
		d = lists.ReplaceAllString(saidText.ReplaceAllString(plain(d), `"$1":""`), `"$1":[]`)
		if i < len(data)-1 {
			d = counting.ReplaceAllString(d, `"$1":0`)
		}
		if len(all) == 0 || all[len(all)-1] != d {
			all = append(all, d)
		}
	}
	return append(all, fmt.Sprintf("done: %v", done))
}

// maxLogprobGap is how far log-probabilities of one token differ between batches, in nats.
const maxLogprobGap = 0.3

// sameLogprobs tells whether two answers have the same log-probabilities, up to what batches change.
func sameLogprobs(a, b string) error {
	x, y := logprob.FindAllStringSubmatch(a, -1), logprob.FindAllStringSubmatch(b, -1)
	if len(x) != len(y) {
		return fmt.Errorf("%d log-probabilities and %d", len(x), len(y))
	}
	for i := range x {
		p, _ := strconv.ParseFloat(x[i][2], 64) // JSON of numbers, as the pattern says
		q, _ := strconv.ParseFloat(y[i][2], 64)
		if math.Abs(p-q) > maxLogprobGap {
			return fmt.Errorf("log-probability %d is %v and %v", i, p, q)
		}
	}
	return nil
}

// differs tells how the gateway's answer to a request in mode off differs from the engine's own; "" is not at all.
func (rq *request) differs(direct, relayed reply) string {
	if said, found := strings.CutPrefix(direct.body, `data: {"error":`); found && relayed.status >= http.StatusBadRequest {
		data, _, _ := strings.Cut(said, "\n") // a stream that begins with an error is answered with its status
		return differentErrors(`{"error":`+data, relayed.body)
	}
	if direct.status != relayed.status {
		return fmt.Sprintf("status %d, not %d: %s", relayed.status, direct.status, relayed.body)
	}
	if direct.status != http.StatusOK {
		return differentErrors(direct.body, relayed.body)
	}
	api := rq.api
	if rq.chat != "" {
		api = "chat"
	}
	want, err := read(api, direct.body)
	if err != nil {
		return fmt.Sprintf("the engine itself: %v", err)
	}
	got, err := read(rq.api, relayed.body)
	if err != nil {
		return err.Error()
	}
	if rq.chat != "" { // arguments are written anew
		compact(want.Calls)
		compact(got.Calls)
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("%+v, not %+v", got, want)
	}
	if rq.chat != "" {
		return ""
	}
	if strings.HasPrefix(direct.body, "data:") || strings.HasPrefix(direct.body, ":") {
		if a, b := shapes(direct.body), shapes(relayed.body); !slices.Equal(a, b) {
			return fmt.Sprintf("events\n%s\nnot\n%s", strings.Join(b, "\n"), strings.Join(a, "\n"))
		}
	} else if a, b := whole(direct.body), whole(relayed.body); a != b {
		return fmt.Sprintf("\n%s\nnot\n%s", b, a)
	}
	if err := sameLogprobs(direct.body, relayed.body); err != nil {
		return err.Error()
	}
	return ""
}

func compact(calls []call) {
	for i := range calls {
		var v any
		if json.Unmarshal([]byte(calls[i].Arguments), &v) == nil {
			text, _ := json.Marshal(v) // it was read a line above
			calls[i].Arguments = string(text)
		}
	}
}

// differentErrors compares refusals: the gateway has a form of its own and tells what the engine says.
func differentErrors(direct, relayed string) string {
	type refusal struct {
		Error struct{ Message string }
	}
	var want, got refusal
	if err := json.Unmarshal([]byte(direct), &want); err != nil {
		return fmt.Sprintf("the engine itself: %v: %s", err, direct)
	}
	if err := json.Unmarshal([]byte(relayed), &got); err != nil {
		return fmt.Sprintf("%v: %s", err, relayed)
	}
	if got.Error.Message == "" || want.Error.Message == "" || !strings.Contains(got.Error.Message, want.Error.Message) {
		return fmt.Sprintf("%s, not %s", relayed, direct)
	}
	return ""
}

// again is how often the engine is asked again where an answer differs from its own.
const again = 3

func TestAnswersInModeOffAreTheEnginesOwn(t *testing.T) {
	each(t, func(t *testing.T, p pair) {
		if p.name == mixed {
			t.Skip("the target was compared with its own draft before it")
		}
		r := serve(t, p, setup{relayOnly: true})
		for i := range requests {
			q := &requests[i]
			if q.only != "" && q.only != p.target.Kind {
				continue
			}
			for _, stream := range []bool{false, true} {
				if testing.Short() && os.Getenv("FOREGATE_ENGINES") == "" && stream == (i%2 == 0) {
					continue // of make test
				}
				t.Run(fmt.Sprintf("%s %s %d stream %v", q.api, q.kind, i, stream), func(t *testing.T) {
					t.Parallel()
					q.compare(t, p, r, stream)
				})
			}
		}
	})
}

// compare asks the engine and the gateway in mode off.
func (rq *request) compare(t *testing.T, p pair, r *replica, stream bool) {
	t.Helper()
	direct := func() reply {
		if rq.chat != "" {
			return post(t, p.target.URL+paths["chat"], rq.asChat(p.target.Model, stream))
		}
		return post(t, p.target.URL+paths[rq.api], rq.body(p.target.Model, stream))
	}
	row := kindOfAnswer{p.target.Kind, rq.api, rq.kind + map[bool]string{true: ", streamed"}[stream]}
	relayed := post(t, r.URL+paths[rq.api], rq.body("off", stream))
	first := ""
	for range again { // an engine that differs from itself gives the gateway's answer, too
		how := rq.differs(direct(), relayed)
		switch {
		case how == "" && first == "":
			tally(row, equal)
			return
		case how == "":
			tally(row, explained)
			return
		case first == "":
			first = how
		}
	}
	if rq.tie(t, p.target, relayed) {
		tally(row, explained)
		return
	}
	tally(row, different)
	t.Errorf("%s %s, stream %v: %.3000s", rq.api, rq.kind, stream, first)
}

// maxTie is between the two best tokens of a step that rounding may exchange, in nats.
const maxTie = 0.13

// tie tells whether the engine's own answer and the given one part at a token whose two best are nearly equal.
func (rq *request) tie(t *testing.T, e *Engine, given reply) bool {
	t.Helper()
	got, err := read(rq.api, given.body)
	if err != nil {
		return false
	}
	api, members := rq.api, rq.members
	if rq.chat != "" {
		api, members = "chat", rq.chat
	}
	more := `,"logprobs":true,"top_logprobs":2`
	if api == "completions" {
		more = `,"logprobs":2`
	}
	if strings.Contains(members, `"logprobs"`) {
		more = ""
	}
	own := post(t, e.URL+paths[api], rq.write(api, members+more, e.Model, false))
	return partsAtTie(own.body, got.Text)
}

// partsAtTie tells whether a text parts from an answer with log-probabilities at a token whose two best are nearly equal, or does
// not part from it: then the engine, which was asked before, too, has said both.
func partsAtTie(own, given string) bool {
	steps, err := stepsOf(own)
	if err != nil {
		return false
	}
	text := ""
	for _, s := range steps {
		if text += s.token; !strings.HasPrefix(given, text) {
			return s.gap <= maxTie
		}
	}
	return text == given
}

// step is a token of an answer, and the distance of the two best at its place in nats.
type step struct {
	token string
	gap   float64
}

// stepsOf reads log-probabilities in the form of chats, and in that of vLLM's completions.
func stepsOf(body string) (steps []step, err error) {
	var m struct {
		Choices []struct {
			Logprobs struct {
				Content []struct {
					Token string
					Top   []struct{ Logprob float64 } `json:"top_logprobs"`
				}
				Tokens []string
				Top    []map[string]float64 `json:"top_logprobs"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil || len(m.Choices) == 0 {
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	l := m.Choices[0].Logprobs
	gap := func(all []float64) float64 {
		if len(all) < 2 {
			return math.Inf(1)
		}
		slices.Sort(all)
		return all[len(all)-1] - all[len(all)-2]
	}
	for _, c := range l.Content {
		var all []float64
		for _, top := range c.Top {
			all = append(all, top.Logprob)
		}
		steps = append(steps, step{c.Token, gap(all)})
	}
	for i, token := range l.Tokens {
		var all []float64
		if i < len(l.Top) {
			for _, v := range l.Top[i] {
				all = append(all, v)
			}
		}
		steps = append(steps, step{token, gap(all)})
	}
	return steps, nil
}
