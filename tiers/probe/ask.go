package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
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

// open makes a call. Behind some proxies only the paths of requests are open: 403 for another path, or for the list of
// models, says that the engine lacks it.
func (a *asker) open(ctx context.Context, call engine.Call) (engine.Stream, error) {
	s, err := a.upstream.Open(ctx, &engine.Attempt{
		Call: call, URL: strings.TrimSuffix(a.url, "/"), Engine: a.engine, Credentials: a.credentials, FirstByteTimeout: a.timeout,
		IdleTimeout: a.timeout, MaxAnswer: answerTokens,
	})
	f, _ := errors.AsType[*engine.Failure](err)
	if f == nil || f.Kind != engine.Unauthorized || f.Status == 0 {
		return s, err
	}
	switch call := call.(type) {
	case *engine.Ask:
		if call.Path == dialect.ModelsPath && f.Status != http.StatusForbidden {
			return nil, err
		}
	case *engine.TokenizeText, *engine.TokenizePrompt, *engine.Detokenize:
	default:
		return nil, err
	}
	return nil, &engine.Failure{Kind: engine.Rejected, Status: f.Status} // without its words, which may repeat a key
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
