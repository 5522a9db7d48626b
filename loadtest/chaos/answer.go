package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// answer reads one answer and holds it to what the API promises.
type answer struct {
	first func()          // called at the first byte
	heard func(chunk int) // called after each piece of text; nil is not

	said     strings.Builder // the text, maxAnswer bytes of it
	spoke    time.Time       // when the last piece came
	silence  time.Duration   // the longest between two
	chunks   int             // that had text
	finishes int
	dones    int
	tokens   int    // that the usage tells
	failed   string // what an error event said
	begun    bool
}

// piece is a chunk of a stream, or an answer that is not streamed.
type piece struct {
	Choices []struct {
		Delta   struct{ Content string } `json:"delta"`
		Message struct{ Content string } `json:"message"`
		Finish  *string                  `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// begin notes the first byte.
func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		a.first()
	}
}

// whole reads an answer that is not streamed.
func (a *answer) whole(r io.Reader) (kind, detail string) {
	body, err := io.ReadAll(io.LimitReader(r, maxAnswer))
	a.begin()
	var p piece
	switch {
	case err != nil:
		return trouble(err, CutSilent), err.Error()
	case json.Unmarshal(body, &p) != nil:
		return Garbled, string(body[:min(len(body), 200)])
	case len(p.Error) > 0:
		return ErrorEvent, string(p.Error)
	case len(p.Choices) != 1:
		return Twice, fmt.Sprintf("%d choices", len(p.Choices))
	case p.Choices[0].Finish == nil || p.Choices[0].Message.Content == "":
		return Unfinished, string(body[:min(len(body), 200)])
	}
	a.say(p.Choices[0].Message.Content)
	a.tokens = p.Usage.Completion
	return Answered, ""
}

// say takes up a piece of the text.
func (a *answer) say(text string) {
	if text == "" {
		return
	}
	now := time.Now()
	if a.chunks++; a.chunks > 1 {
		a.silence = max(a.silence, now.Sub(a.spoke))
	}
	a.spoke = now
	if a.said.Len()+len(text) <= maxAnswer {
		a.said.WriteString(text)
	}
	if a.heard != nil {
		a.heard(a.chunks)
	}
}

// stream reads server-sent events to the connection's end, past [DONE] and errors.
func (a *answer) stream(r io.Reader) (kind, detail string) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxAnswer)
	for lines.Scan() {
		a.begin()
		line := lines.Text()
		if strings.HasPrefix(line, "event: error") && a.failed == "" {
			a.failed = line
		}
		data, ok := strings.CutPrefix(line, "data:")
		if !ok {
			continue
		}
		if kind, detail := a.event(strings.TrimSpace(data)); kind != "" {
			return kind, detail
		}
	}
	return a.verdict(lines.Err())
}

// event takes up one event's data; a kind ends the reading.
func (a *answer) event(data string) (kind, detail string) {
	if data == "[DONE]" {
		a.dones++
		return "", ""
	}
	var p piece
	if json.Unmarshal([]byte(data), &p) != nil {
		return Garbled, data
	}
	if len(p.Error) > 0 && string(p.Error) != "null" {
		a.failed = string(p.Error)
	}
	a.tokens = max(a.tokens, p.Usage.Completion)
	for _, c := range p.Choices {
		a.say(c.Delta.Content)
		if c.Finish != nil {
			a.finishes++
		}
	}
	return "", ""
}

// verdict names a stream that has ended.
func (a *answer) verdict(err error) (kind, detail string) {
	switch {
	case a.failed != "" && a.dones > 0:
		return DoneLies, a.failed
	case a.failed != "":
		return ErrorEvent, a.failed
	case err != nil:
		return trouble(err, CutSilent), err.Error()
	case a.dones == 0:
		return CutSilent, "the stream ended without [DONE]"
	case a.dones > 1 || a.finishes > 1:
		return Twice, fmt.Sprintf("%d [DONE], %d finish reasons", a.dones, a.finishes)
	case a.finishes == 0 || a.chunks == 0:
		return Unfinished, fmt.Sprintf("%d finish reasons", a.finishes)
	}
	return Answered, ""
}
