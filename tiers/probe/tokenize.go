package probe

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/dialect"
)

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
	e.found.Tokenizer, e.ids = "", nil
	for _, text := range texts {
		ids, err := e.rendered(ctx, map[string]any{"prompt": text, "add_special_tokens": true})
		switch {
		case fails(err):
			return err
		case err != nil:
			e.addMissing(MissingTokenize, "/tokenize: "+err.Error())
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
	if e.found.Template = ""; e.found.Tokenizer == "" {
		return nil
	}
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
			e.addMissing(MissingTokenize, fmt.Sprintf("/tokenize of the chat %q: %v", c.name, err))
			return nil
		}
		fold(h, ids)
		if i == 0 {
			e.tail = tailOf(ids)
		}
	}
	e.found.Template = hex.EncodeToString(h.Sum(nil))
	return nil
}

// rendered returns the ids of a text or of a chat as the engine's own routes tell them.
func (e *probeRun) rendered(ctx context.Context, question map[string]any) ([]int32, error) {
	var body []byte
	var err error
	switch e.dialect().Tokenize {
	case dialect.TokenizeNone:
		return nil, &unreadable{"the API of " + string(e.engine) + " has no such route"}
	case dialect.TokenizeLlamaCpp:
		text := question["prompt"]
		if question["messages"] != nil {
			if text, err = e.templateText(ctx, question); err != nil {
				return nil, err
			}
		}
		// A template's text lacks the token that begins all texts, and names special tokens by their text.
		body, err = e.post(ctx, "/tokenize", map[string]any{"content": text, "add_special": true, "parse_special": true})
	default:
		post := e.post
		if question["messages"] != nil {
			post = e.templated
		}
		body, err = post(ctx, "/tokenize", question)
	}
	if err != nil {
		return nil, err
	}
	return parseIDs(body)
}

// parseIDs reads an answer of /tokenize. The error is an *unreadable.
func parseIDs(body []byte) ([]int32, error) {
	var w struct {
		Tokens []int32 `json:"tokens"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, &unreadable{"the answer cannot be read: " + line(err.Error())}
	}
	if len(w.Tokens) == 0 {
		return nil, &unreadable{"it told no ids"}
	}
	return w.Tokens, nil
}

// templateText has llama.cpp apply the chat template.
func (e *probeRun) templateText(ctx context.Context, question map[string]any) (string, error) {
	body, err := e.templated(ctx, "/apply-template", question)
	if err != nil {
		return "", err
	}
	return parseTemplateText(body)
}

// parseTemplateText reads an answer of /apply-template. The error is an *unreadable.
func parseTemplateText(body []byte) (string, error) {
	var w struct {
		Prompt *string `json:"prompt"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return "", &unreadable{"the answer of /apply-template cannot be read: " + line(err.Error())}
	}
	if w.Prompt == nil {
		return "", &unreadable{"/apply-template told no prompt"}
	}
	return *w.Prompt, nil
}

// detokenize finds out whether ids can be turned into a text, and whether that of a chat's end begins thoughts.
func (e *probeRun) detokenize(ctx context.Context) error {
	e.begins = false
	if why := e.missing[MissingTokenize]; why != "" && len(e.ids) == 0 {
		e.addMissing(MissingWords, why)
		return nil
	}
	ids := e.tail
	if len(ids) == 0 {
		ids = tailOf(e.ids)
	}
	q, name := map[string]any{"tokens": ids}, "prompt"
	switch e.dialect().Tokenize {
	case dialect.TokenizeLlamaCpp:
		name = "content"
	case dialect.TokenizeSGLang:
		q["skip_special_tokens"], name = false, "text"
	}
	body, err := e.post(ctx, "/detokenize", q)
	if err != nil {
		if !fails(err) {
			e.addMissing(MissingWords, "/detokenize: "+err.Error())
			return nil
		}
		return err
	}
	text, ok := parseWords(body, name)
	if !ok {
		e.addMissing(MissingWords, "the answer of /detokenize has no text")
	}
	e.begins = strings.HasSuffix(strings.TrimSpace(text), thinkTag)
	return nil
}

// beginsAnyhow reports whether a chat's end is the same where the engine is told not to think.
func (e *probeRun) beginsAnyhow(ctx context.Context) bool {
	ids, err := e.rendered(ctx, map[string]any{
		"messages": chats[0].messages, "add_generation_prompt": true, "chat_template_kwargs": map[string]any{"enable_thinking": false},
	})
	return err == nil && slices.Equal(tailOf(ids), e.tail)
}

// tailOf returns the last ids.
func tailOf(ids []int32) []int32 { return ids[max(len(ids)-8, 0):] }

// parseWords reads the text of an answer of /detokenize, whose name depends on the engine.
func parseWords(body []byte, name string) (text string, ok bool) {
	var w map[string]json.RawMessage
	var told *string
	if json.Unmarshal(body, &w) != nil || json.Unmarshal(w[name], &told) != nil || told == nil {
		return "", false
	}
	return *told, true
}
