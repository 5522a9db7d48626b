package live

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest"
)

const (
	maxLine = 1 << 20  // bytes of one line of a stream
	maxJSON = 64 << 20 // bytes of an answer that is not streamed
)

// The ways an answer breaks, beside time running out.
var (
	errNoDone   = errors.New("no_done")       // the stream ended without [DONE]
	errEvent    = errors.New("error_event")   // it told of an error
	errLongLine = errors.New("line_too_long") // of maxLine bytes
	errBadJSON  = errors.New("bad_json")
	errCut      = errors.New("cut") // the connection ended
)

// answer is what a client got.
type answer struct {
	text  strings.Builder
	first time.Duration // of text; 0: none came
	usage *usage
	extra *extra
}

// usage is the OpenAI API's.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

// extra is the gateway's object "foregate".
type extra struct {
	Tier       string `json:"tier"`
	Accepted   int    `json:"accepted_tokens"`
	Target     int    `json:"target_tokens"`
	Acceptance string `json:"acceptance"`
	Reason     string `json:"reason"`
}

// chunk is what matters of one event, or of an answer that is not streamed.
type chunk struct {
	Choices []struct {
		Delta   struct{ Content string } `json:"delta"`
		Message struct{ Content string } `json:"message"`
	} `json:"choices"`
	Usage    *usage          `json:"usage"`
	Foregate *extra          `json:"foregate"`
	Error    json.RawMessage `json:"error"`
}

// failed reports whether the event tells of an error.
func (c *chunk) failed() bool { return len(c.Error) > 0 && string(c.Error) != "null" }

// note takes up what an event says beside its text.
func (a *answer) note(c *chunk) {
	if c.Usage != nil {
		a.usage = c.Usage
	}
	if c.Foregate != nil {
		a.extra = c.Foregate
	}
}

// readers are for streams; each is large enough for almost every line.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 8<<10) }}

// readStream reads server-sent events to the end: of an OpenAI stream, every
// event has one line of data. now is asked when the first text has come. What it
// has read is in a, also when it fails.
func (a *answer) readStream(r io.Reader, now func() time.Duration) error {
	lines := readers.Get().(*bufio.Reader)
	lines.Reset(r)
	defer func() {
		lines.Reset(nil)
		readers.Put(lines)
	}()
	done := false
	var long []byte
	for {
		line, err := readLine(lines, &long)
		if errors.Is(err, io.EOF) && done {
			return nil
		}
		if err != nil {
			return err
		}
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimSpace(data)
		switch {
		case bytes.Equal(line, []byte("event: error")):
			return errEvent
		case !ok || len(data) == 0 || done:
			continue
		case string(data) == "[DONE]":
			done = true // the connection can be used again once the end is read
			continue
		}
		if err := a.event(data, now); err != nil {
			return err
		}
	}
}

// event takes up the data of one event.
func (a *answer) event(data []byte, now func() time.Duration) error {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return errBadJSON
	}
	if c.failed() {
		return errEvent
	}
	a.note(&c)
	for i := range c.Choices {
		text := c.Choices[i].Delta.Content
		if text == "" {
			continue
		}
		if a.first == 0 {
			a.first = now()
		}
		a.text.WriteString(text)
	}
	return nil
}

// readLine reads one line without its end; long holds one that the reader's
// buffer is too small for. At the end of the stream it says io.EOF.
func readLine(r *bufio.Reader, long *[]byte) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		*long = append((*long)[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(*long) > maxLine {
				return nil, errLongLine
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

// readJSON reads an answer that comes all at once.
func (a *answer) readJSON(r io.Reader, now func() time.Duration) error {
	body, err := io.ReadAll(io.LimitReader(r, maxJSON))
	if err != nil {
		return err
	}
	var c chunk
	switch {
	case json.Unmarshal(body, &c) != nil || len(c.Choices) == 0:
		return errBadJSON
	case c.failed():
		return errEvent
	}
	a.note(&c)
	if text := c.Choices[0].Message.Content; text != "" {
		a.first = now()
		a.text.WriteString(text)
	}
	return nil
}

// fill writes into out what the answer says of itself. Tokens of a server that is
// no gateway are the target's.
func (a *answer) fill(out *loadtest.Outcome) {
	out.First = a.first
	if u := a.usage; u != nil {
		out.PromptTokens, out.TargetTokens = u.Prompt, u.Completion
	}
	if x := a.extra; x != nil {
		out.Tier, out.Acceptance, out.Reason = x.Tier, x.Acceptance, x.Reason
		out.DraftTokens, out.TargetTokens = x.Accepted, x.Target
	}
}
