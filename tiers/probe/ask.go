package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

const (
	// longest bounds a question whose answer goes on and on, in times of the idle limit.
	longest = 10
	// maxLine bounds what is kept of an engine's own words, in bytes.
	maxLine = 200
)

// asker asks one engine.
type asker struct {
	upstream    engine.Upstream
	timeout     time.Duration // how long it may say nothing
	url, model  string
	engine      dialect.Kind // by whose rules it is asked
	priority    *int64
	credentials *credentials.Credentials
	unpinned    bool // it refuses the arguments of templates that pin a date
}

// dialect is what the engine differs in.
func (a *asker) dialect() *dialect.Dialect { return dialect.Of(a.engine) }

func (a *asker) terms() engine.Terms { return engine.Terms{Model: a.model, Priority: a.priority} }

// unusable is an answer that does not say what it should.
type unusable string

func (u unusable) Error() string { return string(u) }

// fails reports whether err says nothing of what the engine can do, only that it cannot now: no answer, too late, too
// busy, a refused key, or an error of its own.
func fails(err error) bool {
	if f, is := errors.AsType[*engine.Failure](err); is {
		return f.Kind != engine.Rejected && f.Kind != engine.BadResponse && f.Kind != engine.WrongModel
	}
	_, read := errors.AsType[unusable](err)
	return err != nil && !read
}

// reason is what an error of a call says, in one line.
func reason(err error) string {
	f, is := errors.AsType[*engine.Failure](err)
	if !is {
		return line(err.Error())
	}
	var said []string
	if f.Status != 0 {
		said = append(said, fmt.Sprintf("status %d", f.Status))
	}
	if f.Fault != nil && f.Fault.Message != "" {
		said = append(said, f.Fault.Message)
	} else if f.Err != nil && (credentials.RefusalOf(f) == nil || f.Kind == engine.Unauthorized) {
		said = append(said, f.Err.Error())
	}
	if len(said) == 0 {
		said = append(said, string(f.Kind))
	}
	return line(strings.Join(said, ": "))
}

// userAgent tells an engine's operator who asks.
var userAgent = http.Header{"User-Agent": {"foregate-probe"}}

// open makes a call. Behind some proxies only the paths of requests are open: 403 for another path, or for the list of models, says
// that the engine lacks it.
func (a *asker) open(ctx context.Context, call engine.Call) (engine.Stream, error) {
	s, err := a.upstream.Open(ctx, &engine.Attempt{
		Call: call, URL: strings.TrimSuffix(a.url, "/"), Engine: a.engine, Credentials: a.credentials, FirstByteTimeout: a.timeout,
		IdleTimeout: a.timeout, MaxAnswer: answerTokens, Header: userAgent,
	})
	if f, is := errors.AsType[*engine.Failure](err); is && f.Kind == engine.Unauthorized && f.Status == http.StatusForbidden {
		switch call.(type) {
		case *engine.Ask, *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize:
			return nil, &engine.Failure{Kind: engine.Rejected, Status: f.Status} // without its words, which may repeat a key
		}
	}
	return s, err
}

// ask makes a call whose answer comes in one piece.
func (a *asker) ask(ctx context.Context, call engine.Call) error {
	s, err := a.open(ctx, call)
	if err == nil {
		s.Close()
	}
	return err
}

// get reads what the engine tells of itself.
func (a *asker) get(ctx context.Context, path string) (body []byte, err error) {
	err = a.ask(ctx, &engine.Ask{Path: path, Into: &body})
	return body, err
}

// said makes a call whose answer is a stream, and returns all of it.
func (a *asker) said(ctx context.Context, call engine.Call) (all answer, err error) {
	ctx, end := context.WithTimeoutCause(ctx, longest*a.timeout, fmt.Errorf("no end within %v", longest*a.timeout))
	defer end()
	s, err := a.open(ctx, call)
	if err != nil {
		return answer{}, err
	}
	defer s.Close()
	all.tokens = -1
	for {
		c, err := s.Next(engine.WantTops)
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return answer{}, err
		}
		all.add(c)
	}
}

// pinned are arguments of templates that put a date into the prompt. Llama 3's take this; those that ask the clock
// themselves (strftime_now) cannot be pinned, and their fingerprint changes every day: a day later two pools are unlike
// until both were probed again.
const pinned = "date_string"

// request returns a request with these members: a completion if it has a prompt, else a chat.
func (a *asker) request(members map[string]any) (*openai.Request, error) {
	q := map[string]any{"model": a.model, "stream": true, "temperature": 0, "max_tokens": answerTokens}
	maps.Copy(q, members)
	kind := openai.Chat
	if q["prompt"] != nil {
		kind = openai.Completion
	} else if !a.unpinned && a.dialect().Members.TemplateArgs {
		arguments := map[string]any{pinned: "26 Jul 2024"}
		if own, is := q[openai.Kwargs].(map[string]any); is {
			maps.Copy(arguments, own)
		}
		q[openai.Kwargs] = arguments
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	limits := openai.DefaultLimits()
	limits.Allow = func(string) []string { return []string{openai.Kwargs + "." + pinned} }
	return openai.Scan(kind, body, limits)
}

// templated asks with a request, and once more without the arguments of templates if those may have been refused.
func (a *asker) templated(members map[string]any, ask func(*openai.Request) error) error {
	r, err := a.request(members)
	if err == nil {
		err = ask(r)
	}
	if f, is := errors.AsType[*engine.Failure](err); !is || f.Status != http.StatusBadRequest || a.unpinned || r.Kind != openai.Chat {
		return err
	}
	a.unpinned = true
	if r, err = a.request(members); err == nil {
		err = ask(r)
	}
	a.unpinned = err == nil
	return err
}

// draft has the engine answer as it would a draft.
func (a *asker) draft(ctx context.Context, members map[string]any) (all answer, err error) {
	err = a.templated(members, func(r *openai.Request) error {
		all, err = a.said(ctx, &engine.Draft{Terms: a.terms(), Request: r})
		return err
	})
	return all, err
}

// relay has the engine answer as it would a client.
func (a *asker) relay(ctx context.Context, members map[string]any) (all answer, err error) {
	err = a.templated(members, func(r *openai.Request) error {
		all, err = a.said(ctx, &engine.Relay{Terms: a.terms(), Request: r})
		return err
	})
	return all, err
}

// line makes one printable line of at most maxLine bytes.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s[:min(len(s), 4*maxLine)], func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxLine)], "")
}

// answer is what is read of an engine's answer.
type answer struct {
	prompt []int32 // ids of the prompt; nil where they are not told
	ids    []int32 // generated; nil where they are not told
	text   string
	thinks bool   // it has a part beside its text, or its text has thoughts
	finish string // its finish_reason
	cut    bool   // a stop string ended it
	tokens int    // generated, by its usage; −1 where it is not told

	logprobs []float64   // of the generated tokens, in nats, where they are told
	tops     [][]float64 // those of each one's alternatives
}

// add adds a chunk.
func (a *answer) add(c *openai.Chunk) {
	if len(a.prompt) == 0 {
		a.prompt = slices.Clone(c.PromptIDs)
	}
	if c.HasUsage {
		a.tokens = max(c.Usage.Completion, 0)
	}
	if len(c.Finish) > 0 {
		a.finish = string(c.Finish)
	}
	a.cut = a.cut || len(c.Stop) > 0 && c.Stop[0] == '"'
	a.text += string(c.Text)
	// Some templates begin the thoughts themselves, so that only their end is in the answer.
	a.thinks = a.thinks || c.Choices > 0 && !c.Plain || strings.HasPrefix(strings.TrimSpace(a.text), thinkTag) || strings.Contains(a.text, "</think>")
	a.ids = append(a.ids, c.IDs...)
	for i, l := range c.Logprobs {
		a.logprobs, a.tops = append(a.logprobs, l), append(a.tops, slices.Clone(c.Top(i)))
	}
}

// thinkTag begins thoughts.
const thinkTag = "<think>"

// tie is how far apart the two most probable tokens may be, in nats, for an engine to
// choose either: one step of bfloat16 for logits of 16 to 32.
const tie = 0.125

// tied reports whether the two most probable tokens at a place are within tie.
func (a *answer) tied(at int) bool {
	if at < 0 || at >= len(a.tops) || len(a.tops[at]) < 2 {
		return false
	}
	most := slices.Sorted(slices.Values(a.tops[at]))
	return most[len(most)-1]-most[len(most)-2] <= tie
}

// goesOn reports whether b begins as a does, and where they first differ: by ids where
// both tell theirs, else by text, where the place is 0. What is compared is what is
// shorter.
func goesOn(a, b *answer) (same bool, at int) {
	if len(a.ids) > 0 && len(b.ids) > 0 {
		n := min(len(a.ids), len(b.ids))
		for i := range n {
			if a.ids[i] != b.ids[i] {
				return false, i
			}
		}
		return true, n
	}
	// Half a character at the end is shown as U+FFFD.
	x, y := strings.TrimRight(a.text, "\uFFFD"), strings.TrimRight(b.text, "\uFFFD")
	return x != "" && y != "" && (strings.HasPrefix(x, y) || strings.HasPrefix(y, x)), 0
}

// fewestConstant is how many tokens must have the same logprob, and no other alternative, to be refused.
const fewestConstant = 4

// constant reports whether at least half of the logprobs after the first are one constant beside which no alternative has
// another: llama.cpp tells the first token's truth, and 0.0 of all that it speculated. A token that a model is sure of has
// alternatives that are less likely.
func (a *answer) constant() (value float64, n int, is bool) {
	count := map[float64]int{}
	for i, l := range a.logprobs {
		if i > 0 && !slices.ContainsFunc(a.tops[i], func(top float64) bool { return top != l }) {
			count[l]++
		}
	}
	for v, k := range count {
		if k > n || k == n && v > value {
			value, n = v, k
		}
	}
	return value, n, n >= fewestConstant && 2*n >= len(a.logprobs)-1
}

// texts are what the tokenizer's fingerprint is made of: each is where tokenizers differ. Any change here changes every
// fingerprint, so that pools must be probed by the same release to be compared.
var texts = []string{
	"The quick brown fox jumps over the lazy dog 1234567890 times, doesn't it?",
	"数据模型的答案是什么？東京と한국어の世界",
	"😀🎉 👩‍👩‍👧 🇫🇷 naïve Ünïcödé",
	"func main() {\n\tif err := run(); err != nil {\n\t\tos.Exit(1)\n\t}\n}",
	" a  b   c\t\td \r\n e \u00a0f",
	"\n\n",
	"0.1 1e-9 0xFF 100,000 ١٢٣",
}

// message is one turn of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// chat returns the members of a chat.
func chat(turns ...message) map[string]any { return map[string]any{"messages": turns} }

// withTools returns those of one that offers a tool.
func withTools(members map[string]any) map[string]any {
	members["tools"] = json.RawMessage(`[{"function": {
		"description": "Current weather in a city.", "name": "get_weather",
		"parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"], "type": "object"}
	}, "type": "function"}]`)
	return members
}

// plainChat is the first of chats.
func plainChat() map[string]any { return asked("What is the capital of France?") }

// chats returns what the template's fingerprint is made of. The first is plain: a template that refuses it has none.
func chats() []map[string]any {
	return []map[string]any{
		plainChat(),
		chat(message{"system", "You are brief."}, message{"user", "Hello there."}),
		chat(message{"user", "Hi"}, message{"assistant", "Hello! What can I do for you?"}, message{"user", " Count to three.\n"}),
		withTools(asked("What is the weather in Paris?")),
	}
}

// fingerprint is the same for the same ids alone.
func fingerprint(all [][]int32) string {
	sum := sha256.Sum256(fmt.Append(nil, all))
	return hex.EncodeToString(sum[:])
}

var errNoIDs = unusable("it told no ids")

// tokenizer computes the fingerprint of the tokenizer.
func (p *probeRun) tokenizer(ctx context.Context) error {
	p.found.Tokenizer, p.ids = "", nil
	var all [][]int32
	for _, text := range texts {
		var ids []int32
		err := p.ask(ctx, &engine.TokenizeText{Model: p.model, Text: []byte(text), Into: &ids})
		if err == nil && len(ids) == 0 {
			err = errNoIDs
		}
		if err != nil {
			return p.missingBy(MissingTokenize, "/tokenize: ", err)
		}
		all = append(all, ids)
	}
	p.found.Tokenizer, p.ids = fingerprint(all), slices.Concat(all...)
	return nil
}

// template computes the fingerprint of the chat template. A refused chat, such as one with tools, is part of it.
func (p *probeRun) template(ctx context.Context) error {
	if p.found.Template = ""; p.found.Tokenizer == "" {
		return nil
	}
	var all [][]int32
	for i, c := range chats() {
		ids, err := p.rendered(ctx, c)
		if f, is := errors.AsType[*engine.Failure](err); is && i > 0 && f.Status == http.StatusBadRequest {
			ids, err = nil, nil
		}
		if err != nil {
			return p.missingBy(MissingTokenize, fmt.Sprintf("/tokenize of chat %d: ", i+1), err)
		}
		all = append(all, ids)
	}
	p.found.Template, p.tail = fingerprint(all), tailOf(all[0])
	return nil
}

// rendered returns the ids of a chat as the engine's own routes tell them.
func (a *asker) rendered(ctx context.Context, members map[string]any) (ids []int32, err error) {
	err = a.templated(members, func(r *openai.Request) error {
		return a.ask(ctx, &engine.TokenizePrompt{Model: a.model, Request: r, Into: &ids})
	})
	if err == nil && len(ids) == 0 {
		err = errNoIDs
	}
	return ids, err
}

// detokenize finds out whether ids can be turned into a text, and whether that of a chat's end begins thoughts.
func (p *probeRun) detokenize(ctx context.Context) error {
	p.begins = false
	if why := p.missing[MissingTokenize]; why != "" && len(p.ids) == 0 {
		p.addMissing(MissingWords, why)
		return nil
	}
	ids := p.tail
	if len(ids) == 0 {
		ids = tailOf(p.ids)
	}
	var text []byte
	err := p.ask(ctx, &engine.Detokenize{Model: p.model, IDs: ids, Into: &text})
	p.begins = strings.HasSuffix(strings.TrimSpace(string(text)), thinkTag)
	return p.missingBy(MissingWords, "/detokenize: ", err)
}

// beginsAnyhow reports whether a chat's end is the same where the engine is told not to think.
func (p *probeRun) beginsAnyhow(ctx context.Context) bool {
	ids, err := p.rendered(ctx, unthinking(plainChat()))
	return err == nil && slices.Equal(tailOf(ids), p.tail)
}

// tailOf returns the last ids.
func tailOf(ids []int32) []int32 { return ids[max(len(ids)-8, 0):] }
