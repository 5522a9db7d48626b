package messages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers/openai"
)

// object is a JSON object by its exact member names; encoding/json's structs would ignore case.
type object map[string]json.RawMessage

// refuse names the field that is wrong, and says what is wrong with it.
func refuse(at, why string) error {
	message := why
	if at != "" {
		message = at + " " + why
	}
	return &openai.RequestError{Status: http.StatusBadRequest, Message: message, Param: at, Code: "invalid_value"}
}

// readObject reads a part of a body that [openai.Peek] has read: it is valid JSON, without a name that comes twice. at is the
// object's own name; "" is the body.
func readObject(raw json.RawMessage, at string) (object, error) {
	var o object
	if json.Unmarshal(raw, &o) == nil && o != nil {
		return o, nil
	}
	if at == "" {
		return nil, refuse("", "The body is not a JSON object.")
	}
	return nil, refuse(at, "is not an object.")
}

// under is the name of a member of the object at.
func under(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// has reports whether a member is there and is not null.
func (o object) has(name string) bool { return len(o[name]) > 0 && string(o[name]) != "null" }

// only leaves an object with another member than these to engines, of which one may know it.
func (o object) only(at string, members ...string) error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(members, name) {
			return engineOnly(under(at, clientapi.FieldName(name)))
		}
	}
	return nil
}

// text reads a string; a member that is not there is "".
func (o object) text(at, name string) (string, error) {
	if !o.has(name) {
		return "", nil
	}
	var s string
	if json.Unmarshal(o[name], &s) != nil {
		return "", refuse(under(at, name), "is not a string.")
	}
	return s, nil
}

// required reads a string that must be there and not be empty.
func (o object) required(at, name string) (string, error) {
	s, err := o.text(at, name)
	if err == nil && s == "" {
		return "", refuse(under(at, name), "is required.")
	}
	return s, err
}

// flag reads a boolean; a member that is not there is false.
func (o object) flag(at, name string) (bool, error) {
	var b bool
	if o.has(name) && json.Unmarshal(o[name], &b) != nil {
		return false, refuse(under(at, name), "is not a boolean.")
	}
	return b, nil
}

// list reads an array.
func (o object) list(at, name string) ([]json.RawMessage, error) {
	var l []json.RawMessage
	if o.has(name) && json.Unmarshal(o[name], &l) != nil {
		return nil, refuse(under(at, name), "is not an array.")
	}
	return l, nil
}

// element is the name of an element of an array.
func element(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }

// compacted appends JSON without white space; its bytes are else unchanged.
func compacted(dst []byte, raw json.RawMessage) []byte {
	b := bytes.NewBuffer(dst)
	_ = json.Compact(b, raw) // raw is valid: it is a part of a body that is
	return b.Bytes()
}
