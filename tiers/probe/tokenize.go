package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

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
