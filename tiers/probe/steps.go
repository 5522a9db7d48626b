package probe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/dialect"
)

// run asks all questions. The error says that the engine cannot be probed now; a missing capability is no error.
func (e *probeRun) run(ctx context.Context) error {
	e.missing, e.hazards = map[string]string{}, map[string]string{}
	e.found.Model, e.found.Engine = e.asker.model, e.engine
	defer func() { e.found.Spent = e.spent }()
	for _, part := range []func(context.Context) error{
		e.window, e.ending, e.tokenizer, e.template, e.tokenizeRoutes, e.logprobs, e.longAnswer, e.continuation,
		e.constantLogprobs, e.thinksFirst,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	e.missingEnd()
	// Last, because scoring may crash the engine.
	e.scoring(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.swappedModel()
	slices.Sort(e.found.EOS)
	for what, why := range e.missing {
		e.found.Missing = append(e.found.Missing, MissingCapability{what, why})
	}
	slices.SortFunc(e.found.Missing, func(a, b MissingCapability) int { return cmp.Compare(a.Name, b.Name) })
	e.found.Hazards = sortedHazards(e.hazards)
	return nil
}

// ending asks for an answer that ends by itself soon. It is the first generated answer: an engine that cannot give one
// is not probed.
func (e *probeRun) ending(ctx context.Context) error {
	e.opened = short[e.variant%len(short)]
	a, err := e.ask(ctx, e.opened, shortTokens, nil)
	e.opening = a
	refused, isRefusal := errors.AsType[*refusal](err)
	switch {
	case err != nil && (!isRefusal || fails(err)):
		return err
	case err != nil:
		e.noChat = "chats are refused: " + refused.Error()
		e.addMissing(MissingIDs, e.noChat)
		e.addMissing(MissingPromptIDs, e.noChat)
		return nil
	case len(a.ids) == 0:
		e.addMissing(MissingIDs, e.withoutIDs())
	case a.tokens >= 0 && a.tokens != len(a.ids):
		e.addMissing(MissingIDs, fmt.Sprintf("it tells %d ids of %d tokens", len(a.ids), a.tokens))
	case e.dialect().Members.WholeTokenIDs:
		e.addMissing(MissingIDs, "it tells token_ids of answers in one piece alone, and drafts are streamed")
	default:
		e.found.TokenIDs = true
	}
	if len(a.prompt) == 0 {
		e.addMissing(MissingPromptIDs, "it answers without prompt_token_ids")
	}
	e.ended(&a)
	return nil
}

// withoutIDs says why the ids of answers are not known.
func (e *probeRun) withoutIDs() string {
	switch known := &e.dialect().Members; {
	case known.IDsInLogprobs:
		return "the entries of its logprobs have no id"
	case !known.TokenIDs && !known.WholeTokenIDs:
		return "the API of " + string(e.engine) + " tells no ids of answers"
	}
	return "it answers without token_ids"
}

// fold adds ids to a fingerprint, after their number.
func fold(h hash.Hash, ids []int32) {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(ids)))
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	_, _ = h.Write(b) // never fails
}

// tokenizer computes the fingerprint of the tokenizer.
func (e *probeRun) tokenizer(ctx context.Context) error {
	h := sha256.New()
	for _, text := range texts {
		ids, err := e.rendered(ctx, map[string]any{"prompt": text, "add_special_tokens": true})
		switch {
		case fails(err):
			return err
		case err != nil:
			e.addMissing(MissingTokenizer, err.Error())
			return nil
		}
		fold(h, ids)
		e.ids = append(e.ids, ids...)
	}
	e.found.Tokenizer = hex.EncodeToString(h.Sum(nil))
	return nil
}

// template computes the fingerprint of the chat template. A refused chat, such as one with tools, is part of it.
func (e *probeRun) template(ctx context.Context) error {
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
			e.addMissing(MissingTemplate, fmt.Sprintf("chat %q: %v", c.name, err))
			return nil
		}
		fold(h, ids)
	}
	e.found.Template = hex.EncodeToString(h.Sum(nil))
	return nil
}

// tokenizeRoutes finds out whether texts, chats and ids can be converted without generating.
func (e *probeRun) tokenizeRoutes(ctx context.Context) error {
	for _, r := range []*route{&e.ofTexts, &e.ofChats} {
		if !r.confirmed {
			e.addMissing(MissingTokenize, cmp.Or(r.not, "/tokenize was not asked"))
			break
		}
	}
	if e.dialect().Tokenize == dialect.TokenizeNone {
		e.addMissing(MissingWords, "/detokenize: the API of "+string(e.engine)+" has no such route")
		return nil
	}
	ids := e.ids[:min(len(e.ids), 16)]
	q := map[string]any{"tokens": ids}
	if e.dialect().Tokenize == dialect.TokenizeSGLang {
		q["skip_special_tokens"] = false
	}
	body, err := e.post(ctx, "/detokenize", q)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingWords, "/detokenize: "+err.Error())
	case !parseWords(body, e.wordsName()):
		e.addMissing(MissingWords, "the answer of /detokenize has no text")
	}
	return nil
}

// logprobs finds out how many alternatives the engine returns.
func (e *probeRun) logprobs(ctx context.Context) error {
	if e.noChat != "" {
		e.addMissing(MissingLogprobs, e.noChat)
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
			e.found.Unscored = true
			e.addMissing(MissingLogprobs, "it answers without logprobs")
			return nil
		}
		e.found.TopLogprobs = min(k, a.first.listed)
		if k > 0 && e.found.TopLogprobs == 0 {
			why = fmt.Sprintf("asked for %d, it tells none", k)
			continue
		}
		return nil
	}
	e.addMissing(MissingLogprobs, why)
	return nil
}

// longAnswer asks for the answer that is continued. It is long, so that it ends by itself and tells the end's id; but where
// nothing will be scored it is short: a laptop's processor generates five to twenty tokens a second, and a question has 30 s.
func (e *probeRun) longAnswer(ctx context.Context) error {
	if e.noChat != "" || !e.dialect().Members.IDPrompts {
		return nil
	}
	question, maximum := long[e.variant%len(long)], longTokens
	if len(e.opening.ids) == 0 || len(e.dialect().Scoring) == 0 {
		maximum = 2 * continueTokens
	}
	a, err := e.ask(ctx, question, maximum, nil)
	switch {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingContinue, err.Error())
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

// continuation finds out whether an answer can be continued from ids.
func (e *probeRun) continuation(ctx context.Context) error {
	switch {
	case e.noChat != "":
		e.addMissing(MissingContinue, e.noChat)
		return nil
	case !e.dialect().Members.IDPrompts:
		e.addMissing(MissingContinue, "the API of "+string(e.engine)+" takes no ids as a prompt")
		return nil
	case len(e.prompt) == 0:
		e.addMissing(MissingContinue, "nothing tells the ids of a chat")
		return nil
	}
	more := map[string]any{"prompt": e.prompt}
	if e.found.TopLogprobs >= 2 {
		more["logprobs"] = 2
	}
	a, err := e.complete(ctx, "/v1/completions", continueTokens, more)
	switch same, at := goesOn(&e.answer, &a); {
	case fails(err):
		return err
	case err != nil:
		e.addMissing(MissingContinue, err.Error())
		return nil
	case same || at > 0 && a.tied(at):
		e.found.Continues = true
	default:
		e.addMissing(MissingContinue, fmt.Sprintf("from ids it answers otherwise than in the chat, from token %d on", at+1))
	}
	if len(e.found.EOS) > 0 || !e.found.Continues || len(e.answer.ids) == 0 {
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

// missingEnd says why no end-of-sequence id is known.
func (e *probeRun) missingEnd() {
	switch {
	case len(e.found.EOS) > 0:
	case e.noChat != "":
		e.addMissing(MissingEOS, e.noChat)
	case !e.found.TokenIDs && len(e.opening.ids) == 0:
		e.addMissing(MissingEOS, "the ids of answers are not told")
	default:
		e.addMissing(MissingEOS, fmt.Sprintf("no answer has ended by itself, in %d and %d tokens", shortTokens, longTokens))
		e.weak = e.missing[MissingEOS] // other questions may have shorter answers
	}
}
