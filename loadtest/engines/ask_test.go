package engines

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// askJSON asks and reads the JSON of a 200.
func askJSON(ctx context.Context, method, url, body string, answer any) error {
	r, err := ask(ctx, method, url, body)
	if err != nil {
		return err
	}
	if r.status != http.StatusOK {
		return fmt.Errorf("%s %s: %d: %s", method, url, r.status, r.body)
	}
	return json.Unmarshal([]byte(r.body), answer)
}

// maxBody bounds what is read of an answer.
const maxBody = 16 << 20

func readAll(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody))
	return string(text), err
}

// events are the data of a stream's events, in their order, [DONE] left out. done tells whether it was there.
func events(body string) (data []string, done bool) {
	for line := range strings.Lines(body) {
		d, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: ")
		switch {
		case !ok:
		case d == "[DONE]":
			done = true
		default:
			data = append(data, d)
		}
	}
	return data, done
}

// message is what chat completions and completions say, whole or as a chunk.
type message struct {
	Choices []struct {
		Message struct{ Content string }
		Delta   struct{ Content string }
		Text    string
		Finish  string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

// text is the text of the first choice of a chat completion or completion, whole or streamed, and why it ended.
func text(body string) (said, finish string, err error) {
	parts := []string{body}
	if !strings.HasPrefix(strings.TrimSpace(body), "{") {
		parts, _ = events(body)
	}
	for _, part := range parts {
		var m message
		if err := json.Unmarshal([]byte(part), &m); err != nil {
			return said, finish, fmt.Errorf("%w: %q", err, part)
		}
		if len(m.Error) > 0 {
			return said, finish, fmt.Errorf("after %q: %s", said, part)
		}
		if len(m.Choices) > 0 {
			c := m.Choices[0]
			said += c.Message.Content + c.Delta.Content + c.Text
			finish = max(finish, c.Finish)
		}
	}
	return said, finish, nil
}
