// Package answer reads what a client gets of the OpenAI API, or of Anthropic's: a stream of server-sent events, or
// an answer in one piece. It judges nothing: [Answer] counts what came, and its users say what that means.
package answer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	maxLine = 1 << 20  // bytes of one line of a stream
	maxBody = 64 << 20 // bytes of an answer that is not streamed
	maxBad  = 200      // bytes that are kept of what is no JSON
)

// The ways an answer cannot be read, beside the connection's own.
var (
	ErrLongLine = errors.New("line_too_long") // of more than 1 MiB
	ErrBadJSON  = errors.New("bad_json")
)

// Answer is what has come of one answer. The zero value is ready.
type Answer struct {
	API     API             // "" is chat completions
	OnStart func()          // called at the first line or with the body; nil: nobody is told
	OnText  func(piece int) // called after each piece of text, from 1 on; nil: nobody is told
	OnEvent func()          // called for each event of a stream of chat or text that has a choice; nil: nobody is told
	OnToken func(Token)     // called for each token of a chat whose logprobs were asked for; nil: nobody is told
	MaxText int             // bytes that are kept of the text; 0 is no bound

	Text     strings.Builder
	Silence  time.Duration // the longest between two pieces of text
	Pieces   int           // of text
	Choices  int           // of an answer in one piece
	Finishes int           // finish reasons
	Dones    int           // [DONE]
	Engine   string        // system_fingerprint, "": not told
	Failed   string        // what an error said
	Bad      string        // the beginning of what is no JSON
	Usage    *Usage        // nil: not told
	Gateway  *Gateway      // nil: not told

	started bool
	spoke   time.Time // when the last piece came
}

// Usage is the OpenAI API's.
type Usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// Gateway is the gateway's object "foregate".
type Gateway struct {
	Tier       string `json:"tier"`
	Accepted   int    `json:"accepted_tokens"`
	Target     int    `json:"target_tokens"`
	Acceptance string `json:"acceptance"`
	Reason     string `json:"reason"`
}

// Token is what an engine says of one token, in nats.
type Token struct {
	Logprob float64                     `json:"logprob"`
	Top     []struct{ Logprob float64 } `json:"top_logprobs"` // of the likeliest tokens there
}

// event is what matters of one event, or of an answer in one piece.
type event struct {
	Choices []struct {
		Delta    struct{ Content string }   `json:"delta"`
		Message  struct{ Content string }   `json:"message"`
		Finish   *string                    `json:"finish_reason"`
		Logprobs *struct{ Content []Token } `json:"logprobs"`
	} `json:"choices"`
	Engine  string          `json:"system_fingerprint"`
	Usage   *Usage          `json:"usage"`
	Gateway *Gateway        `json:"foregate"`
	Error   json.RawMessage `json:"error"`
}

// readers are for streams; each is large enough for almost every line.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}

// Stream reads server-sent events to the end of the connection, past [DONE] and errors: of an OpenAI stream,
// every event has one line of data. The error is the connection's, [ErrLongLine] or [ErrBadJSON].
func (a *Answer) Stream(r io.Reader) error {
	lines := readers.Get().(*bufio.Reader)
	lines.Reset(r)
	defer func() {
		lines.Reset(nil)
		readers.Put(lines)
	}()
	var long []byte
	for {
		line, err := readLine(lines, &long)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		a.begin()
		if a.Failed == "" && bytes.HasPrefix(line, []byte("event: error")) {
			a.Failed = string(line)
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if err := a.event(bytes.TrimSpace(data)); err != nil {
			return err
		}
	}
}

// Whole reads an answer in one piece.
func (a *Answer) Whole(r io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(r, maxBody))
	a.begin()
	if err != nil {
		return err
	}
	if a.API != "" {
		return a.apiWhole(body)
	}
	var e event
	if json.Unmarshal(body, &e) != nil {
		return a.bad(body)
	}
	a.note(&e)
	a.Choices = len(e.Choices)
	for i := range e.Choices {
		a.say(e.Choices[i].Message.Content)
	}
	return nil
}

// begin tells of the first byte.
func (a *Answer) begin() {
	if !a.started && a.OnStart != nil {
		a.OnStart()
	}
	a.started = true
}

// event takes up the data of one event.
func (a *Answer) event(data []byte) error {
	if string(data) == "[DONE]" {
		a.Dones++
		return nil
	}
	if a.API != "" {
		return a.apiEvent(data)
	}
	var e event
	if json.Unmarshal(data, &e) != nil {
		return a.bad(data)
	}
	a.note(&e)
	if len(e.Choices) > 0 && a.OnEvent != nil {
		a.OnEvent()
	}
	for i := range e.Choices {
		a.say(e.Choices[i].Delta.Content)
	}
	return nil
}

// note takes up what an event says beside its text.
func (a *Answer) note(e *event) {
	if len(e.Error) > 0 && string(e.Error) != "null" {
		a.Failed = string(e.Error)
	}
	if e.Usage != nil {
		a.Usage = e.Usage
	}
	if e.Gateway != nil {
		a.Gateway = e.Gateway
	}
	if e.Engine != "" {
		a.Engine = e.Engine
	}
	for i := range e.Choices {
		if e.Choices[i].Finish != nil {
			a.Finishes++
		}
		if l := e.Choices[i].Logprobs; l != nil && a.OnToken != nil {
			for _, t := range l.Content {
				a.OnToken(t)
			}
		}
	}
}

// bad keeps the beginning of what is no JSON.
func (a *Answer) bad(data []byte) error {
	a.Bad = string(data[:min(len(data), maxBad)])
	return ErrBadJSON
}

// say takes up a piece of the text.
func (a *Answer) say(text string) {
	if text == "" {
		return
	}
	now := time.Now()
	if a.Pieces++; a.Pieces > 1 {
		a.Silence = max(a.Silence, now.Sub(a.spoke))
	}
	a.spoke = now
	if a.MaxText == 0 || a.Text.Len()+len(text) <= a.MaxText {
		a.Text.WriteString(text)
	}
	if a.OnText != nil {
		a.OnText(a.Pieces)
	}
}

// readLine reads one line without its end; long holds one that the reader's
// buffer is too small for. At the end of the stream it says io.EOF.
func readLine(r *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		*long = append((*long)[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(*long) > maxLine {
				return nil, ErrLongLine
			}
			line, err = r.ReadSlice('\n')
			*long = append(*long, line...)
		}
		line = *long
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
