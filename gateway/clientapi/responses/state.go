package responses

import (
	"encoding/json"
	"strings"

	"github.com/foregate/foregate/gateway/clientapi"
)

// State is what is kept between the requests of the client's tenant. It is for one request.
type State interface {
	// Past returns the items of the conversation up to a response, from which the request goes on: the first item first, and those of
	// its answer last. id is without a prefix, and may be anything that a client writes. The error is the client's, and names the field.
	Past(id, field string) ([]json.RawMessage, error)
	// Answer returns the items of a response's answer alone.
	Answer(id, field string) ([]json.RawMessage, error)
	// Conversation is Past of a conversation that has a name.
	Conversation(id, field string) ([]json.RawMessage, error)
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

// ConversationPrefix begins the ids of conversations.
const ConversationPrefix = "conv_"

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
	field, items, err := t.past()
	if err != nil {
		return err
	}
	for _, raw := range items {
		o, err := clientapi.ReadObject(raw, field)
		if err != nil {
			return err
		}
		if err := t.item(o); err != nil {
			return err
		}
	}
	return nil
}

// past returns the items that the request goes on from, and the field that names them.
func (t *translator) past() (field string, items []json.RawMessage, err error) {
	const previous, conversation = "previous_response_id", "conversation"
	if t.previous, err = t.in.Text(previous); err != nil {
		return "", nil, err
	}
	if t.in.Has(conversation) {
		if t.conversation, err = t.named(conversation); err != nil {
			return "", nil, err
		}
	}
	switch {
	case t.previous != "" && t.conversation != "":
		return "", nil, clientapi.BadValue(conversation, "and previous_response_id exclude each other.")
	case t.conversation != "":
		items, err = t.kept.Conversation(strings.TrimPrefix(t.conversation, ConversationPrefix), conversation)
		return conversation, items, err
	case t.previous == "":
		return "", nil, nil
	}
	id := strings.TrimPrefix(t.previous, Prefix)
	items, err = t.kept.Past(id, previous)
	return previous, items, err
}

// named is the id in a field that is an id, or an object with one.
func (t *translator) named(field string) (string, error) {
	if !t.in.IsObject(field) {
		return t.in.Required(field)
	}
	o, err := t.in.Object(field)
	if err == nil {
		err = o.Only("id")
	}
	if err != nil {
		return "", err
	}
	return o.Required("id")
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
	items, err := t.kept.Answer(response, field)
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
