package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
)

// exam is one probe of one engine.
type exam struct {
	*asker
	card    Card
	missing map[string]string
	variant int    // which of the questions
	closed  string // why nothing may be scored now; "" is: it may

	model   modelCard
	pins    pins
	ofTexts route
	ofChats route
	noChat  string  // why there are no chats
	ids     []int32 // some that this tokenizer makes
	prompt  []int32 // of the long question; nil while unknown
	answer  answer  // to it

	weak   string // what may be better soon, and was not now
	deadly bool   // it was scoring that ended the engine
}

// pins says whether chats may have arguments for their template: an engine that knows none
// refuses them.
type pins int

const (
	pinsUntried pins = iota
	pinsTaken
	pinsRefused
)

// take asks all questions. The error is why the engine cannot be probed now; what it lacks
// is none.
func (e *exam) take(ctx context.Context) error {
	e.missing = map[string]string{}
	e.card.Model = e.asker.model
	defer func() { e.card.Spent = e.spent }()
	for _, part := range []func(context.Context) error{
		e.window, e.ending, e.tokenizer, e.template, e.words, e.logprobs, e.temper, e.drawing, e.longAnswer, e.goingOn,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	// Last, because it may be the end of the engine.
	e.scoring(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	slices.Sort(e.card.EOS)
	for what, why := range e.missing {
		e.card.Missing = append(e.card.Missing, Missing{what, why})
	}
	slices.SortFunc(e.card.Missing, func(a, b Missing) int { return cmp.Compare(a.What, b.What) })
	return nil
}

// lack notes that something is missing; what was said of it first stands.
func (e *exam) lack(what, why string) {
	if _, said := e.missing[what]; !said {
		e.missing[what] = why
	}
}

// window reads the model's card.
func (e *exam) window(ctx context.Context) error {
	body, err := e.send(ctx, http.MethodGet, "/v1/models", nil)
	if err == nil {
		e.model, err = parseModels(body, e.asker.model)
	}
	if fails(err) {
		return err
	}
	e.card.Window = max(e.model.Window, 0)
	switch {
	case err != nil:
		e.lack(MissingWindow, err.Error())
	case e.card.Window == 0:
		e.lack(MissingWindow, "/v1/models lists the model without max_model_len")
	}
	return nil
}

// complete asks /v1/completions or /v1/chat/completions, greedily unless the question says
// otherwise, and for ids.
func (e *exam) complete(ctx context.Context, path string, most int, question map[string]any) (answer, error) {
	q := map[string]any{"max_tokens": most, "temperature": 0, "return_token_ids": true, "stream": false}
	maps.Copy(q, question)
	post := e.post
	if q["messages"] != nil {
		post = e.templated
	}
	body, err := post(ctx, path, q)
	if err != nil {
		return answer{}, err
	}
	a, err := parseAnswer(body)
	e.spent.Prompt += a.prompts
	e.spent.Generated += max(a.tokens, 0)
	return a, err
}

// ask asks one question as a chat.
func (e *exam) ask(ctx context.Context, text string, most int, more map[string]any) (answer, error) {
	q := map[string]any{"messages": []message{{"user", text}}}
	maps.Copy(q, more)
	return e.complete(ctx, "/v1/chat/completions", most, q)
}

// templated asks a question about a chat, with the template's arguments if they are taken.
func (e *exam) templated(ctx context.Context, path string, question map[string]any) ([]byte, error) {
	if e.pins != pinsRefused {
		q := maps.Clone(question)
		q["chat_template_kwargs"] = pinned
		body, err := e.post(ctx, path, q)
		if err == nil {
			e.pins = pinsTaken
		}
		r, refused := errors.AsType[*refusal](err)
		if e.pins == pinsTaken || !refused || r.status != http.StatusBadRequest {
			return body, err
		}
	}
	body, err := e.post(ctx, path, question)
	if err == nil {
		e.pins = pinsRefused
	}
	return body, err
}

// ending asks for an answer that ends by itself, soon. It is the first that an engine has
// to generate: one that cannot is not probed.
func (e *exam) ending(ctx context.Context) error {
	a, err := e.ask(ctx, short[e.variant%len(short)], shortTokens, nil)
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case err != nil && (!isRefusal || fails(err)):
		return err
	case err != nil:
		e.noChat = "chats are refused: " + refused.Error()
		e.lack(MissingIDs, e.noChat)
		e.lack(MissingPromptIDs, e.noChat)
		return nil
	case len(a.ids) == 0:
		e.lack(MissingIDs, "it answers without token_ids")
	case a.tokens >= 0 && a.tokens != len(a.ids):
		e.lack(MissingIDs, fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens))
	default:
		e.card.TokenIDs = true
	}
	if len(a.prompt) == 0 {
		e.lack(MissingPromptIDs, "it answers without prompt_token_ids")
	}
	e.ended(&a)
	return nil
}

// ended notes the id that ended an answer.
func (e *exam) ended(a *answer) {
	if id, ok := a.end(); ok && !slices.Contains(e.card.EOS, id) {
		e.card.EOS = append(e.card.EOS, id)
	}
}

// fold adds ids to a fingerprint, with their number before them.
func fold(h hash.Hash, ids []int32) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(ids)))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	_, _ = h.Write(b) // never fails
}

// tokenizer takes its fingerprint.
func (e *exam) tokenizer(ctx context.Context) error {
	h := sha256.New()
	for _, text := range texts {
		ids, err := e.rendered(ctx, map[string]any{"prompt": text, "add_special_tokens": true})
		switch {
		case fails(err):
			return err
		case err != nil:
			e.lack(MissingTokenizer, err.Error())
			return nil
		}
		fold(h, ids)
		e.ids = append(e.ids, ids...)
	}
	e.card.Tokenizer = hex.EncodeToString(h.Sum(nil))
	return nil
}

// template takes the fingerprint of the chat template. A chat that it refuses, such as one
// with tools, is a part of that.
func (e *exam) template(ctx context.Context) error {
	h := sha256.New()
	for i := range chats {
		c := &chats[i]
		q := map[string]any{"messages": c.messages, "add_generation_prompt": true}
		if c.tools != nil {
			q["tools"] = c.tools
		}
		ids, err := e.rendered(ctx, q)
		refused, isRefusal := errors.AsType[*refusal](err)
		switch {
		case fails(err):
			return err
		case isRefusal && i > 0 && refused.status == http.StatusBadRequest:
			ids = nil
		case err != nil:
			e.lack(MissingTemplate, fmt.Sprintf("chat %q: %v", c.name, err))
			return nil
		}
		fold(h, ids)
	}
	e.card.Template = hex.EncodeToString(h.Sum(nil))
	return nil
}

// words finds out whether texts, chats and ids can be turned into each other without an answer.
func (e *exam) words(ctx context.Context) error {
	for _, r := range []*route{&e.ofTexts, &e.ofChats} {
		if !r.known {
			e.lack(MissingTokenize, cmp.Or(r.not, "/tokenize was not asked"))
			break
		}
	}
	body, err := e.post(ctx, "/detokenize", map[string]any{"tokens": e.ids[:min(len(e.ids), 16)]})
	if fails(err) {
		return err
	}
	var answer struct {
		Prompt *string `json:"prompt"`
	}
	switch {
	case err != nil:
		e.lack(MissingWords, "/detokenize: "+err.Error())
	case json.Unmarshal(body, &answer) != nil || answer.Prompt == nil:
		e.lack(MissingWords, "the answer of /detokenize has no text")
	}
	return nil
}

// route is by which route the ids of texts, or of chats, are told.
type route struct {
	known bool   // /tokenize has told some
	not   string // why it is not asked any more
}

// rendered returns the ids that the engine makes of a text or of a chat: by /tokenize, or
// where that tells none at first, as the prompt of one token. Both give the same where both
// are known.
func (e *exam) rendered(ctx context.Context, question map[string]any) ([]int32, error) {
	post, path, r := e.post, "/v1/completions", &e.ofTexts
	if question["messages"] != nil {
		post, path, r = e.templated, "/v1/chat/completions", &e.ofChats
	}
	if r.not == "" {
		body, err := post(ctx, "/tokenize", question)
		var ids []int32
		if err == nil {
			ids, err = parseIDs(body)
		}
		r.known = r.known || err == nil
		if r.known || fails(err) {
			return ids, err
		}
		r.not = "/tokenize: " + err.Error()
	}
	a, err := e.complete(ctx, path, 1, question)
	if _, refused := errors.AsType[*refusal](err); refused && question["tools"] != nil {
		// "auto" needs a parser; some engines leave the tools out for "none".
		q := maps.Clone(question)
		q["tool_choice"] = "none"
		a, err = e.complete(ctx, path, 1, q)
	}
	if err == nil && len(a.prompt) == 0 {
		err = &unreadable{"answers come without prompt_token_ids"}
	}
	if err != nil && !fails(err) {
		err = fmt.Errorf("%s; %s: %w", r.not, path, err)
	}
	return a.prompt, err
}

// logprobs finds out how many alternatives are told.
func (e *exam) logprobs(ctx context.Context) error {
	if e.noChat != "" {
		e.lack(MissingLogprobs, e.noChat)
		return nil
	}
	why := ""
	for _, k := range []int{20, 10, 5, 1, 0} {
		a, err := e.ask(ctx, "Name a colour.", 1, map[string]any{"logprobs": true, "top_logprobs": k})
		switch {
		case fails(err):
			return err
		case err != nil:
			why = err.Error()
			continue
		case a.first == nil:
			e.card.Unscored = true
			e.lack(MissingLogprobs, "it answers without logprobs")
			return nil
		}
		e.card.TokenBytes = a.first.bytes
		if !a.first.bytes {
			e.lack(MissingBytes, "logprobs come without bytes")
		}
		e.card.TopLogprobs = min(k, a.first.listed)
		if k > 0 && e.card.TopLogprobs == 0 {
			why = fmt.Sprintf("asked for %d, it tells none", k)
			continue
		}
		if k == 0 {
			e.lack(MissingTop, why)
		}
		return nil
	}
	e.lack(MissingLogprobs, why)
	return nil
}

// temper finds out whether logprobs follow the request's temperature: then all that lies
// between two tokens is twice as much at half of it.
func (e *exam) temper(ctx context.Context) error {
	if e.card.TopLogprobs < 2 {
		e.lack(MissingRaw, "it takes two alternatives to tell")
		return nil
	}
	var tops [2]map[string]float64
	for i, t := range []float64{1, 0.5} {
		a, err := e.ask(ctx, "Name a colour.", 1, map[string]any{
			"logprobs": true, "top_logprobs": min(e.card.TopLogprobs, 5), "temperature": t, "seed": 7,
		})
		switch {
		case fails(err):
			return err
		case err != nil:
			e.lack(MissingRaw, err.Error())
			return nil
		case a.first != nil:
			tops[i] = a.first.tops
		}
	}
	raw, known := follows(tops[0], tops[1])
	e.card.RawLogprobs = raw
	switch {
	case !known:
		e.lack(MissingRaw, "the alternatives at two temperatures cannot be compared")
	case !raw:
		e.lack(MissingRaw, "they follow the request's temperature")
	}
	return nil
}

// follows compares the alternatives at temperature 1 with those at 0.5: raw is true where
// the widest gap between two that both list stayed as it was. Engines are not exact to the
// last bit, so it is what it is closer to.
func follows(one, half map[string]float64) (raw, known bool) {
	const least, floor = 0.5, -100 // nats: a gap to compare; below the floor are stand-ins for minus infinity
	high, low := "", ""
	for t, l := range one {
		if other, both := half[t]; !both || l < floor || other < floor {
			continue
		}
		if high == "" || l > one[high] {
			high = t
		}
		if low == "" || l < one[low] {
			low = t
		}
	}
	was, is := one[high]-one[low], half[high]-half[low]
	if high == low || was < least || math.IsNaN(is) {
		return false, false
	}
	return is < 1.5*was, true
}

// longAnswer asks for the answer that is continued and scored after that.
func (e *exam) longAnswer(ctx context.Context) error {
	if e.noChat != "" {
		return nil
	}
	question, most := long[e.variant%len(long)], longTokens
	if !e.card.TokenIDs {
		most = 2 * continueTokens // there will be no ids to score
	}
	a, err := e.ask(ctx, question, most, nil)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.lack(MissingContinue, err.Error())
		return nil
	}
	e.answer, e.prompt = a, a.prompt
	e.ended(&a)
	if len(e.prompt) > 0 || e.ofChats.not != "" {
		return nil
	}
	e.prompt, err = e.rendered(ctx, map[string]any{"messages": []message{{"user", question}}, "add_generation_prompt": true})
	if fails(err) {
		return err
	}
	return nil // without ids of the prompt, the rest says so
}

// goingOn finds out whether an answer can be continued from ids.
func (e *exam) goingOn(ctx context.Context) error {
	defer e.noEnd()
	switch {
	case e.noChat != "":
		e.lack(MissingContinue, e.noChat)
		return nil
	case len(e.prompt) == 0:
		e.lack(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	more := map[string]any{"prompt": e.prompt}
	if e.card.TopLogprobs >= 2 {
		more["logprobs"] = 2
	}
	a, err := e.complete(ctx, "/v1/completions", continueTokens, more)
	switch same, at := goesOn(&e.answer, &a); {
	case fails(err):
		return err
	case err != nil:
		e.lack(MissingContinue, err.Error())
		return nil
	case same || at > 0 && a.tied(at):
		e.card.Continues = true
	default:
		e.lack(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
	}
	if len(e.card.EOS) > 0 || !e.card.Continues || len(e.answer.ids) == 0 {
		return nil
	}
	// Neither answer has ended; a little more of the long one may.
	a, err = e.complete(ctx, "/v1/completions", moreTokens, map[string]any{"prompt": slices.Concat(e.prompt, e.answer.ids)})
	if fails(err) {
		return err
	}
	e.ended(&a)
	return nil
}

// noEnd says why no id is known that ends an answer.
func (e *exam) noEnd() {
	switch {
	case len(e.card.EOS) > 0:
	case e.noChat != "":
		e.lack(MissingEOS, e.noChat)
	case !e.card.TokenIDs:
		e.lack(MissingEOS, "the ids of answers are not told")
	default:
		e.lack(MissingEOS, fmt.Sprintf("no answer has ended by itself, in %d and %d tokens", shortTokens, longTokens))
		e.weak = e.missing[MissingEOS] // other questions may have shorter answers
	}
}

// question is one that has the engine score the last tokens of ids.
func (e *exam) question(style openai.ScoreStyle, ids []int32, draft int) *openai.ScoreQuestion {
	n := len(ids) - draft
	return &openai.ScoreQuestion{Style: style, Model: e.asker.model, Prompt: ids[:n:n], Draft: ids[n:], Top: 1, Priority: e.priority}
}
