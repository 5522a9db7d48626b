package answer

import (
	"strings"
	"testing"
)

const (
	responsesStream = `event: response.created
data: {"response":{"status":"in_progress","usage":null,"output":[]},"sequence_number":0,"type":"response.created"}

event: response.output_text.delta
data: {"delta":"the sea","type":"response.output_text.delta"}

event: response.output_text.delta
data: {"delta":" is","type":"response.output_text.delta"}

event: response.output_text.done
data: {"text":"the sea is","type":"response.output_text.done"}

event: response.incomplete
data: {"response":{"status":"incomplete","error":null,"foregate":{"tier":"target"},"usage":{"input_tokens":23,"output_tokens":3},"output":[{"content":[{"text":"the sea is"}]}]},"type":"response.incomplete"}

`
	messagesStream = `event: message_start
data: {"type":"message_start","message":{"stop_reason":null,"usage":{"input_tokens":0,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"the sea"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" is"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":23,"output_tokens":3},"foregate":{"tier":"target"}}

event: message_stop
data: {"type":"message_stop"}

`
	responsesWhole = `{"error":null,"foregate":{"tier":"target"},"object":"response","output":[{"content":[{"text":"the sea is","type":"output_text"}]}],"status":"incomplete","text":{"format":{"type":"text"}},"usage":{"input_tokens":23,"output_tokens":3}}`
	messagesWhole  = `{"type":"message","content":[{"type":"text","text":"the sea is"}],"stop_reason":"max_tokens","usage":{"input_tokens":23,"output_tokens":3},"foregate":{"tier":"target"}}`
)

func TestAnswersOfTheOtherAPIsAreReadAsThoseOfChats(t *testing.T) {
	for name, c := range map[string]struct {
		api    API
		text   string
		stream bool
	}{
		"a stream of responses": {Responses, responsesStream, true}, "a stream of messages": {Messages, messagesStream, true},
		"a response": {Responses, responsesWhole, false}, "a message": {Messages, messagesWhole, false},
	} {
		a := Answer{API: c.api}
		read, pieces, dones := a.Whole, 1, 0
		if c.stream {
			read, pieces, dones = a.Stream, 2, 1
		}
		if err := read(strings.NewReader(c.text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Text.String() != "the sea is" || a.Pieces != pieces || a.Finishes != 1 || a.Dones != dones || a.Failed != "" {
			t.Errorf("%s: %q in %d pieces, %d finish reasons, %d ends, error %q", name, a.Text.String(), a.Pieces, a.Finishes, a.Dones, a.Failed)
		}
		if a.Usage == nil || *a.Usage != (Usage{23, 3}) || a.Gateway == nil || a.Gateway.Tier != "target" || !c.stream && a.Choices != 1 {
			t.Errorf("%s: usage %v, gateway %v, %d choices", name, a.Usage, a.Gateway, a.Choices)
		}
	}
}

func TestErrorsOfTheOtherAPIsAreErrors(t *testing.T) {
	for api, text := range map[API]string{
		Responses: `{"type":"error","code":"backend_lost","error":{"message":"gone","code":"backend_lost"}}`,
		Messages:  `{"type":"error","error":{"type":"api_error","message":"gone","code":"backend_lost"}}`,
	} {
		a := Answer{API: api}
		if err := a.Stream(strings.NewReader("event: error\ndata: " + text + "\n\n")); err != nil || !strings.Contains(a.Failed, "backend_lost") || a.Dones > 0 {
			t.Errorf("%s, a stream: %q, %d ends, %v", api, a.Failed, a.Dones, err)
		}
		a = Answer{API: api}
		if err := a.Whole(strings.NewReader(text)); err != nil || !strings.Contains(a.Failed, "backend_lost") || a.Choices > 0 {
			t.Errorf("%s: %q, %d choices, %v", api, a.Failed, a.Choices, err)
		}
	}
}
