package responses

import (
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// State is what is kept between the requests of the client's tenant. It is for one request.
type State interface {
	// Past returns the items of the conversation up to a response, from which the request goes on: the first item first, and those of
	// the last answer last. id may be anything that a client writes. The error is the client's, and names the field.
	Past(id, field string) ([]json.RawMessage, error)
	// Item returns an item of a response's answer by its id. The caller copies it each time.
	Item(response, id, field string) (json.RawMessage, error)
	// Name is the id of the answer, without a prefix, to a request.
	Name(request string) string
	// Keep stores the answer, and reports whether it is stored. It may wait.
	Keep(t Turn) bool
}

// Turn is a request and its answer.
type Turn struct {
	Input  []json.RawMessage // the items that the request added
	Output json.RawMessage   // the items of the answer: an array
	Whole  []byte            // the answer
}

// readState reads whether the answer is to be kept, and what it goes on from.
func (t *translator) readState() {
	if t.state == nil {
		return
	}
	t.store = t.In.Flag("store") || !t.In.Has("store")
	const field = "previous_response_id"
	if t.previous = t.In.Text(field); t.previous == "" {
		return
	}
	items, err := t.state.Past(t.previous, field)
	if err != nil {
		t.In.Fail(err)
	}
	for _, raw := range items {
		if t.In.Err() == nil {
			t.item(t.In.Read(raw, field))
		}
	}
}

// referred returns the item that a reference names: one of an answer that is kept. Its id has that of the response in it.
func (t *translator) referred(o clientapi.Object) json.RawMessage {
	id, field := o.Required("id"), o.Member("id")
	if o.Err() != nil {
		return nil
	}
	_, name, _ := strings.Cut(id, "_")
	raw, err := t.state.Item(name[:max(0, strings.LastIndexByte(name, '_'))], id, field)
	if err != nil {
		o.Fail(err)
	}
	return raw
}

// keep has the answer stored, if it is to be, and appends it as it then is: its member store says whether it is.
func (e *encoder) keep(dst []byte, status string) []byte {
	if !e.store {
		return e.response(dst, status)
	}
	at := len(dst)
	dst = e.response(dst, status)
	output := append(append([]byte{'['}, e.output...), ']')
	if e.store = e.state.Keep(Turn{Input: e.added, Output: output, Whole: dst[at:]}); e.store {
		return dst
	}
	return e.response(dst[:at], status)
}
