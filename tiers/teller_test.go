package tiers

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"
)

// tale is an answer that scripted engines know by heart, in tokens that are made up: words,
// characters, and bytes of characters.
type tale struct {
	text   string
	tokens []string
	ids    []int32
}

// wordsOf tales: letters, and characters of two to eighteen bytes.
var wordsOf = strings.Split("heron| mill| gatehouse| ran| über| café| 鯨が| 語| 한국말| 🤖| 🧪🧪| 👩‍👩‍👧|鯨|.\n|,|. |!\n\n| naïve| Ω| the| waterwheel|é", "|")

func newTale(seed uint64) *tale {
	rng := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	for b.Len() < 60+rng.IntN(120) {
		b.WriteString(wordsOf[rng.IntN(len(wordsOf))])
	}
	t := &tale{text: b.String()}
	t.tokens = tokensOf(t.text)
	t.ids = vocabulary.ids(t.tokens)
	return t
}

// tokensOf cuts a text into tokens: ASCII words with the space before them, in pieces of six
// letters; other characters whole, in bytes, or as their first byte and the rest.
func tokensOf(text string) (out []string) {
	for from := 0; from < len(text); {
		to := from
		if text[to] == ' ' {
			to++
		}
		for to < len(text) && to-from < 6 && (text[to]|0x20) >= 'a' && (text[to]|0x20) <= 'z' {
			to++
		}
		r, n := utf8.DecodeRuneInString(text[to:])
		switch {
		case to > from+1 || to == len(text) || to == from+1 && n < 2:
		case n < 2 || r%3 == 0:
			to += n
		case r%3 == 1:
			for range n - 1 {
				to++
				out, from = append(out, text[from:to]), to
			}
			to++
		default:
			out, from = append(out, text[from:to+1]), to+1
			to += n
		}
		out, from = append(out, text[from:to]), to
	}
	return out
}

// vocabulary gives tokens their ids; 0 is the end of an answer.
var vocabulary vocab

type vocab struct {
	mu  sync.Mutex
	all map[string]int32
}

func (v *vocab) ids(tokens []string) []int32 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = map[string]int32{}
	}
	out := make([]int32, len(tokens))
	for i, s := range tokens {
		if v.all[s] == 0 {
			v.all[s] = int32(len(v.all) + 1)
		}
		out[i] = v.all[s]
	}
	return out
}

// speech is text that comes in tokens, under the rules by which an engine ends an answer.
type speech struct {
	limit   int      // tokens; 0 is none
	stop    []string // ends it
	include bool     // the stop string is shown

	pend   string // tokens of which the last ends within a character: vLLM shows nothing of them
	text   string
	given  int // bytes of text that were shown
	n      int
	finish string
	hit    string // the stop string that ended it
}

// hear takes the next token, "" is the end, and returns the text that it lets be shown.
func (s *speech) hear(token string) string {
	s.n++
	if token == "" {
		s.finish = "stop"
	} else if s.n == s.limit {
		s.finish = "length"
	}
	s.pend += token
	before := len(s.text)
	if utf8.ValidString(s.pend) {
		s.text, s.pend = s.text+s.pend, ""
	}
	hold := 0
	for _, w := range s.stop {
		if i := strings.Index(s.text[max(before-len(w)+1, 0):], w); i >= 0 {
			if i += max(before-len(w)+1, 0); s.include {
				i += len(w)
			}
			s.text, s.finish, s.hit = s.text[:i], "stop", w
			break
		}
		if !s.include {
			hold = max(hold, len(w)-1)
		}
	}
	to := len(s.text)
	if s.finish == "" {
		for to = max(to-hold, s.given); to > s.given && to < len(s.text) && !utf8.RuneStart(s.text[to]); to-- {
		}
	}
	out := s.text[min(s.given, to):to]
	s.given = to
	return out
}

// tell has all of a tale told: what an engine that nothing happens to says.
func (s speech) tell(tokens []string) speech {
	for _, token := range append(slices.Clone(tokens), "") {
		if s.hear(token); s.finish != "" {
			break
		}
	}
	return s
}

// show is one request, with what happens to it.
type show struct {
	*tale
	number int
	lost   int  // tokens of the tale after which the draft, or who answers first, is gone; −1 never
	doubt  int  // token that the draft doubts; −1 none
	again  int  // tokens after which the first that carries on is gone too; 0 never
	loud   bool // the target goes on in capitals
	grain  int  // most tokens in a chunk of the draft

	asked  atomic.Int32 // how often the target was
	mu     sync.Mutex
	heard  []string // the texts that it was to carry on behind
	limits []int    // its max_tokens there
	byIDs  int      // how often it had ids
	faults []string
}

func (s *show) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// theatre is where scripted engines tell tales.
type theatre struct {
	shows sync.Map // by number
}

// engine starts an engine of one role.
func (th *theatre) engine(t *testing.T, target bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"big","max_model_len":100000}]}`)
		case "/tokenize":
			var q struct {
				Prompt   string
				Messages []struct{ Content string }
			}
			_ = json.Unmarshal(body, &q)
			ids, number := vocabulary.ids(tokensOf(q.Prompt)), 0
			for _, m := range append(q.Messages, struct{ Content string }{q.Prompt}) {
				if _, err := fmt.Sscanf(m.Content, "show %d:", &number); err == nil {
					ids = []int32{1, int32(firstShow + number)} // a prompt's
				}
			}
			list, _ := json.Marshal(map[string]any{"tokens": ids})
			_, _ = w.Write(list)
		default:
			th.play(w, r, body, target)
		}
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// heardRequest is what of a request an engine looks at.
type heardRequest struct {
	Prompt   json.RawMessage
	Messages []struct{ Role, Content string }
	Most     int      `json:"max_tokens"`
	Stop     []string `json:"stop"`
	Include  bool     `json:"include_stop_str_in_output"`
	Stream   bool
	IDs      bool `json:"return_token_ids"`
	Options  struct {
		Usage bool `json:"include_usage"`
		Each  bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	chat bool
}

const firstShow = 1 << 24 // the id of the prompt of show 0

// play answers one request.
func (th *theatre) play(w http.ResponseWriter, r *http.Request, body []byte, target bool) {
	q := heardRequest{chat: strings.Contains(r.URL.Path, "chat")}
	if err := json.Unmarshal(body, &q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	number, behind, ids := 0, "", []int32(nil)
	switch {
	case q.chat:
		_, _ = fmt.Sscanf(q.Messages[0].Content, "show %d:", &number)
		if len(q.Messages) > 1 {
			behind = q.Messages[1].Content
		}
	case q.Prompt[0] == '[':
		_ = json.Unmarshal(q.Prompt, &ids)
		number, ids = int(ids[1])-firstShow, ids[2:]
	default:
		var text string
		_ = json.Unmarshal(q.Prompt, &text)
		_, _ = fmt.Sscanf(text, "show %d:", &number)
		_, behind, _ = strings.Cut(text, ":")
	}
	found, ok := th.shows.Load(number)
	if !ok {
		http.Error(w, "no such show", http.StatusBadRequest)
		return
	}
	a := act{show: found.(*show), q: q, w: w, target: target}
	a.given = len(ids)
	if ids == nil {
		a.given = len(tokensOf(behind))
	}
	a.play(behind, ids)
}

// act is an engine's part in a show.
type act struct {
	*show
	q      heardRequest
	w      http.ResponseWriter
	target bool
	given  int // tokens of the answer that it was given
	speech
	buf []byte
}

func (a *act) play(behind string, ids []int32) {
	tokens, cut := a.tokens, a.lost
	if a.target {
		n := a.asked.Add(1)
		carries := ids != nil || behind != ""
		switch {
		case a.again > 0 && carries && n == 1:
			cut = max(a.again, a.given+1)
		case a.straight() && n == 1:
		default:
			cut = -1
		}
		a.note(behind, ids)
	}
	switch {
	case ids != nil && (len(ids) > len(a.ids) || !slices.Equal(ids, a.ids[:len(ids)])):
		a.fault("ids %v are not the tale's %v", ids, a.ids)
	case ids != nil:
		tokens = tokens[len(ids):]
	case !strings.HasPrefix(a.tale.text, behind):
		a.fault("%q is not how the tale %q begins", behind, a.tale.text)
	case behind != "":
		tokens = tokensOf(a.rest(behind))
	}
	a.speech = speech{limit: a.q.Most, stop: a.q.Stop, include: a.q.Include}
	if a.q.Stream {
		a.w.Header().Set("Content-Type", "text/event-stream")
	}
	a.perform(tokens, cut)
}

// straight reports whether no draft is made.
func (s *show) straight() bool { return s.grain == 0 }

func (a *act) note(behind string, ids []int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case ids != nil:
		a.byIDs++
	case behind != "":
		a.heard = append(a.heard, behind)
		a.limits = append(a.limits, a.q.Most)
	}
}

// rest is what comes behind a part of the tale.
func (s *show) rest(behind string) string {
	rest := s.text[len(behind):]
	if s.loud {
		rest = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 32
			}
			return r
		}, rest)
	}
	return rest
}

// perform tells the tokens, in chunks.
func (a *act) perform(tokens []string, cut int) {
	if a.q.chat && a.q.Stream {
		a.event(`"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null`, a.promptIDs())
	}
	var text, lps, list []string
	for i, token := range append(slices.Clone(tokens), "") {
		if cut >= 0 && a.given+i == cut {
			if a.number%5 == 0 && a.q.Stream { // it says so itself, in one breath with its last words
				a.buf = append(a.buf, "data: {\"error\":{\"message\":\"EngineDeadError\",\"type\":\"InternalServerError\",\"code\":500}}\n\ndata: [DONE]\n\n"...)
				a.flush()
				return
			}
			a.flush()
			if a.number%5 == 1 && a.q.Stream {
				return // as if it had come to its end
			}
			panic(http.ErrAbortHandler)
		}
		text = append(text, a.hear(token))
		lps, list = append(lps, a.logprob(token, a.given+i == a.doubt && !a.target)), append(list, fmt.Sprint(vocabulary.ids([]string{token})[0]))
		if token == "" {
			list[len(list)-1] = "0"
		}
		if a.finish == "" && len(list) < a.chunk(i) {
			continue
		}
		if a.q.Stream {
			a.say(strings.Join(text, ""), lps, list, i)
			text, lps, list = nil, nil, nil
		}
		if a.number%2 == 0 {
			a.flush()
		}
		if a.finish != "" {
			break
		}
	}
	a.end(strings.Join(text, ""))
}

// chunk is how many tokens the chunk has in which token i is.
func (a *act) chunk(i int) int {
	if a.target || a.grain < 2 {
		return 1
	}
	return 1 + (i*7+a.number)%a.grain
}

// logprob words that of a token in the API's shape.
func (a *act) logprob(token string, doubted bool) string {
	lp := "-0.01"
	if doubted {
		lp = "-60"
	}
	if !a.q.chat {
		return lp
	}
	if !utf8.ValidString(token) {
		token = "\uFFFD" // as vLLM tells tokens that are parts of characters
	}
	return `{"logprob":` + lp + `,"bytes":` + bytesList(token) + `}`
}

// bytesList is a JSON list of the bytes of s.
func bytesList(s string) string {
	return strings.ReplaceAll(fmt.Sprintf("%d", []byte(s)), " ", ",")
}

func (a *act) promptIDs() string {
	if !a.q.IDs {
		return ""
	}
	return fmt.Sprintf(`,"prompt_token_ids":[1,%d]`, firstShow+a.number)
}

// say writes a chunk, of which token i is the last.
func (a *act) say(text string, lps, ids []string, i int) {
	if text == "" && !a.q.IDs && a.finish == "" {
		return
	}
	said, _ := json.Marshal(text)
	b := `"delta":{"content":` + string(said) + `},"logprobs":`
	if !a.q.chat {
		b = `"text":` + string(said) + `,"logprobs":`
	}
	switch all := strings.Join(lps, ","); {
	case !a.q.IDs:
		b += "null"
	case a.q.chat:
		b += `{"content":[` + all + `]}`
	default:
		b += `{"token_logprobs":[` + all + `]}`
	}
	b += a.ended()
	if a.q.IDs {
		b += `,"token_ids":[` + strings.Join(ids, ",") + `]`
	}
	more := ""
	if i < len(ids) && !a.q.chat {
		more = a.promptIDs()
	}
	if a.q.Options.Each {
		more += `,"usage":` + a.usage()
	}
	a.event(b, more)
}

// ended words how the answer ended, if it did.
func (a *act) ended() string {
	finish, stop := "null", "null"
	if a.finish != "" {
		finish = `"` + a.finish + `"`
	}
	if a.hit != "" {
		hit, _ := json.Marshal(a.hit)
		stop = string(hit)
	}
	return `,"finish_reason":` + finish + `,"stop_reason":` + stop
}

func (a *act) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, 2+a.given, a.n)
}

func (a *act) event(choice, more string) {
	a.buf = fmt.Appendf(a.buf, "data: {\"id\":\"x\",\"model\":\"big\",\"choices\":[{\"index\":0,%s}]%s}\n\n", choice, more)
}

// end ends a stream, or sends the body.
func (a *act) end(text string) {
	if a.q.Stream {
		if a.q.Options.Usage {
			a.buf = fmt.Appendf(a.buf, "data: {\"choices\":[],\"usage\":%s}\n\n", a.usage())
		}
		a.buf = append(a.buf, "data: [DONE]\n\n"...)
		a.flush()
		return
	}
	said, _ := json.Marshal(text)
	choice := `"message":{"role":"assistant","content":` + string(said) + `}`
	if !a.q.chat {
		choice = `"text":` + string(said)
	}
	a.w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(a.w, `{"model":"big","choices":[{"index":0,%s%s}],"usage":%s}`, choice, a.ended(), a.usage())
}

func (a *act) flush() {
	_, _ = a.w.Write(a.buf)
	a.buf = a.buf[:0]
	_ = http.NewResponseController(a.w).Flush()
}
