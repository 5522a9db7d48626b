package answer

import "encoding/json"

// API is the API whose answer is read.
type API string

// The APIs beside chat completions, which are "".
const (
	Responses API = "responses" // OpenAI's
	Messages  API = "messages"  // Anthropic's
)

// apiEvent is what matters of one event of these APIs, or of an answer in one piece, which has the members of
// a response or of a message itself.
type apiEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"` // of a response: text; of a message: an object
	Response *response       `json:"response"`
	Error    json.RawMessage `json:"error"`
	Gateway  *Gateway        `json:"foregate"`
	Usage    *apiUsage       `json:"usage"`
	response
	Content []struct{ Text string } `json:"content"`
	Stop    *string                 `json:"stop_reason"`
}

// response is what matters of a Responses object.
type response struct {
	Status  string    `json:"status"`
	Gateway *Gateway  `json:"foregate"`
	Usage   *apiUsage `json:"usage"`
	Output  []struct {
		Content []struct{ Text string } `json:"content"`
	} `json:"output"`
}

// apiUsage is the usage of both APIs.
type apiUsage struct {
	Prompt     int `json:"input_tokens"`
	Completion int `json:"output_tokens"`
}

// apiEvent takes up an event of one of these APIs. The event that ends an answer counts as [DONE].
func (a *Answer) apiEvent(data []byte) error {
	var e apiEvent
	if json.Unmarshal(data, &e) != nil {
		return a.bad(data)
	}
	a.noteAPI(&e)
	switch e.Type {
	case "response.output_text.delta":
		var text string
		if json.Unmarshal(e.Delta, &text) != nil {
			return a.bad(data)
		}
		a.say(text)
	case "response.completed", "response.incomplete", "response.failed":
		a.Dones++
		if e.Response != nil {
			a.noteResponse(e.Response)
		}
	case "content_block_delta", "message_delta":
		var d struct {
			Text string  `json:"text"`
			Stop *string `json:"stop_reason"`
		}
		if json.Unmarshal(e.Delta, &d) != nil {
			return a.bad(data)
		}
		a.say(d.Text)
		a.finish(d.Stop)
	case "message_stop":
		a.Dones++
	}
	return nil
}

// apiWhole takes up an answer in one piece.
func (a *Answer) apiWhole(body []byte) error {
	var e apiEvent
	if json.Unmarshal(body, &e) != nil {
		return a.bad(body)
	}
	a.noteAPI(&e)
	a.noteResponse(&e.response)
	a.finish(e.Stop)
	if e.failed() {
		return nil
	}
	a.Choices = 1
	for i := range e.Content {
		a.say(e.Content[i].Text)
	}
	for i := range e.Output {
		for j := range e.Output[i].Content {
			a.say(e.Output[i].Content[j].Text)
		}
	}
	return nil
}

// noteAPI takes up what an event says beside its text.
func (a *Answer) noteAPI(e *apiEvent) {
	if e.failed() {
		a.Failed = string(e.Error)
	}
	if e.Gateway != nil {
		a.Gateway = e.Gateway
	}
	if e.Usage != nil {
		a.Usage = &Usage{e.Usage.Prompt, e.Usage.Completion}
	}
}

// failed tells whether it is an error.
func (e *apiEvent) failed() bool { return len(e.Error) > 0 && string(e.Error) != "null" }

// noteResponse takes up the end of a Responses object.
func (a *Answer) noteResponse(r *response) {
	if r.Status == "completed" || r.Status == "incomplete" {
		a.Finishes++
	}
	if r.Gateway != nil {
		a.Gateway = r.Gateway
	}
	if r.Usage != nil {
		a.Usage = &Usage{r.Usage.Prompt, r.Usage.Completion}
	}
}

// finish takes up a reason to stop.
func (a *Answer) finish(reason *string) {
	if reason != nil {
		a.Finishes++
	}
}
