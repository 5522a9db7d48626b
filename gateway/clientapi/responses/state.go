package responses

import (
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// State is what is kept between the requests of the client's tenant. It is for one request.
type State interface {
	// Past returns the items of the conversation up to a response, the input of which this request goes on from or refers to: the
	// first item first, and those of its answer last. id is without a prefix, and may be anything that a client writes. The error is
	// the client's, and names the field.
	Past(id, field string) ([]json.RawMessage, error)
	// GoOn says that the answer goes on from a response that Past has returned.
	GoOn(id string)
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

// Prefix begins the ids of responses.
const Prefix = "resp_"

// state reads whether the answer is to be kept, and what it goes on from.
func (t *translator) state() error {
	if t.kept == nil {
		return nil
	}
	stored, err := t.in.Flag("store")
	if err != nil {
		return err
	}
	t.store = stored || !t.in.Has("store")
	const field = "previous_response_id"
	t.previous, err = t.in.Text(field)
	if err != nil || t.previous == "" {
		return err
	}
	id := strings.TrimPrefix(t.previous, Prefix)
	items, err := t.kept.Past(id, field)
	if err != nil {
		return err
	}
	t.kept.GoOn(id)
	for _, raw := range items {
		o, err := clientapi.ReadObject(raw, "previous_response_id")
		if err != nil {
			return err
		}
		if err := t.item(o); err != nil {
			return err
		}
	}
	return nil
}

// referred returns the item that a reference names: one of an answer that is kept. Its id has that of the response in it.
func (t *translator) referred(o clientapi.Object) (json.RawMessage, error) {
	id, err := o.Required("id")
	if err != nil {
		return nil, err
	}
	field := o.Member("id")
	_, name, _ := strings.Cut(id, "_")
	response := name[:max(0, strings.LastIndexByte(name, '_'))]
	items, err := t.kept.Past(response, field)
	if err != nil {
		return nil, err
	}
	for i := len(items) - 1; i >= 0; i-- {
		if item, err := clientapi.ReadObject(items[i], field); err == nil {
			if own, err := item.Text("id"); err == nil && own == id {
				return items[i], nil
			}
		}
	}
	return nil, clientapi.BadValue(field, "is the id of no item of its response.")
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
