package clientapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
)

// Object is a JSON object of a request by its exact member names; encoding/json's structs would ignore case. A member that is
// null counts as absent: clients write out what an answer could have had.
type Object struct {
	At      string // its name in the request; "" is the body
	members map[string]json.RawMessage
}

// ReadObject reads a part of a body that [openai.Peek] has read: it is valid JSON in UTF-8, without a name that comes twice.
// The object holds parts of the body, not copies.
func ReadObject(raw json.RawMessage, at string) (Object, error) {
	members, ok := openai.Members(raw)
	o := Object{at, members}
	switch {
	case ok:
		return o, nil
	case at == "":
		return o, BadType("", "The body is not a JSON object.")
	}
	return o, BadType(at, "is not an object.")
}

// Member is the name of a member in the request.
func (o Object) Member(name string) string {
	if o.At == "" {
		return name
	}
	return o.At + "." + name
}

// Has reports whether a member is there and is not null.
func (o Object) Has(name string) bool {
	return len(o.members[name]) > 0 && string(o.members[name]) != "null"
}

// Raw is the JSON of a member.
func (o Object) Raw(name string) json.RawMessage { return o.members[name] }

// Only leaves an object with another member than these to engines, of which one may know it.
func (o Object) Only(known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if o.Has(name) && !slices.Contains(known, name) {
			return o.EngineOnly(name, ReasonUnknown)
		}
	}
	return nil
}

// EngineOnly is the error of a member that only an engine's own implementation can serve.
func (o Object) EngineOnly(name string, why Reason) error {
	if name = fmt.Sprintf("%.64s", name); name == "" {
		name = `""` // JSON allows it as a name
	}
	return &EngineOnlyError{o.Member(name), why}
}

// Text reads a string; a member that is not there is "".
func (o Object) Text(name string) (string, error) {
	var s string
	if o.Has(name) && json.Unmarshal(o.members[name], &s) != nil {
		return "", BadType(o.Member(name), "is not a string.")
	}
	return s, nil
}

// Required reads a string that must be there and not be empty.
func (o Object) Required(name string) (string, error) {
	s, err := o.Text(name)
	if err == nil && s == "" {
		return "", Missing(o.Member(name))
	}
	return s, err
}

// Flag reads a boolean; a member that is not there is false.
func (o Object) Flag(name string) (bool, error) {
	var b bool
	if o.Has(name) && json.Unmarshal(o.members[name], &b) != nil {
		return false, BadType(o.Member(name), "is not a boolean.")
	}
	return b, nil
}

// Object reads an object; one that is not there has no members.
func (o Object) Object(name string) (Object, error) {
	if !o.Has(name) {
		return Object{At: o.Member(name)}, nil
	}
	return ReadObject(o.members[name], o.Member(name))
}

// List reads an array; one that is not there is empty.
func (o Object) List(name string) ([]json.RawMessage, error) {
	if !o.Has(name) {
		return nil, nil
	}
	l, ok := openai.Elements(o.members[name])
	if !ok {
		return nil, BadType(o.Member(name), "is not an array.")
	}
	return l, nil
}

// IsObject reports whether a member is an object.
func (o Object) IsObject(name string) bool {
	return len(o.members[name]) > 0 && o.members[name][0] == '{'
}

// Element is the name of an element of an array.
func Element(at string, i int) string { return fmt.Sprintf("%s[%d]", at, i) }

// AppendCompact appends JSON that is valid, without white space; its bytes are else unchanged.
func AppendCompact(dst []byte, raw json.RawMessage) []byte {
	b := bytes.NewBuffer(dst)
	_ = json.Compact(b, raw)
	return b.Bytes()
}

// BadType refuses the field at, which has a value of another type; why is the rest of the sentence.
func BadType(at, why string) error { return refusal(at, "invalid_type", why) }

// BadValue refuses the value of the field at; why is the rest of the sentence.
func BadValue(at, why string) error { return refusal(at, "invalid_value", why) }

// Missing refuses a request without the field at.
func Missing(at string) error { return refusal(at, "missing_required_parameter", "is required.") }

func refusal(at, code, why string) error {
	message := why
	if at != "" {
		message = at + " " + why
	}
	return &openai.RequestError{Status: http.StatusBadRequest, Message: message, Param: at, Code: code}
}
