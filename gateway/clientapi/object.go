package clientapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"

	"github.com/foregate/foregate/tiers/openai"
)

// Object is a JSON object of a request by its exact member names; encoding/json's structs would ignore case. A member that is
// null counts as absent: clients write out what an answer could have had. The first error of a request stays, for all of its
// objects: whoever reads it looks at [Object.Err] at the end, and where it goes on and on.
type Object struct {
	At      string // its name in the request; "" is the body
	members map[string]json.RawMessage
	failed  *error
}

// ReadObject reads a body that [openai.Peek] has read: it is valid JSON in UTF-8, without a name that comes twice.
// The object holds parts of the body, not copies.
func ReadObject(body json.RawMessage) Object { return Object{failed: new(error)}.Read(body, "") }

// Read reads another object of the same request, at a place of its own.
func (o Object) Read(raw json.RawMessage, at string) Object {
	members, ok := openai.Members(raw)
	switch {
	case ok:
	case at == "":
		o.Fail(BadType("", "The body is not a JSON object."))
	default:
		o.Fail(BadType(at, "is not an object."))
	}
	return Object{at, members, o.failed}
}

// Err is the first error of the request.
func (o Object) Err() error { return *o.failed }

// Fail records an error; the first one stays.
func (o Object) Fail(err error) {
	if *o.failed == nil {
		*o.failed = err
	}
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

// Members are some of its members, as they are.
func (o Object) Members(names ...string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	for _, name := range names {
		if o.Has(name) {
			m[name] = o.Raw(name)
		}
	}
	return m
}

// Only leaves an object with another member than these to engines, of which one may know it.
func (o Object) Only(known ...string) {
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		if o.Has(name) && !slices.Contains(known, name) {
			o.EngineOnly(name, ReasonUnknown)
		}
	}
}

// EngineOnly fails for a member that only an engine's own implementation can serve.
func (o Object) EngineOnly(name string, why Reason) {
	if name = fmt.Sprintf("%.64s", name); name == "" {
		name = `""` // JSON allows it as a name
	}
	o.Fail(&EngineOnlyError{o.Member(name), why})
}

// BadType refuses a member that has a value of another type; why is the rest of the sentence.
func (o Object) BadType(name, why string) { o.Fail(BadType(o.Member(name), why)) }

// BadValue refuses the value of a member; why is the rest of the sentence.
func (o Object) BadValue(name, why string) { o.Fail(BadValue(o.Member(name), why)) }

// Need refuses an object without a member.
func (o Object) Need(name string) {
	if !o.Has(name) {
		o.Fail(refusal(o.Member(name), "missing_required_parameter", "is required."))
	}
}

// NeedObject refuses an object without a member that is an object.
func (o Object) NeedObject(name string) {
	if !o.IsObject(name) {
		o.BadType(name, "is required, and is an object.")
	}
}

// Value reads a member that may be absent or null into what v points to; what names its type.
func (o Object) Value(name string, v any, what string) {
	if o.Has(name) && json.Unmarshal(o.members[name], v) != nil {
		o.BadType(name, "is not "+what+".")
	}
}

// Text reads a string; a member that is not there is "".
func (o Object) Text(name string) (s string) {
	o.Value(name, &s, "a string")
	return s
}

// Required reads a string that must be there and not be empty.
func (o Object) Required(name string) string {
	s := o.Text(name)
	if s == "" {
		o.Fail(refusal(o.Member(name), "missing_required_parameter", "is required."))
	}
	return s
}

// Flag reads a boolean; a member that is not there is false.
func (o Object) Flag(name string) (b bool) {
	o.Value(name, &b, "a boolean")
	return b
}

// Object reads an object; one that is not there has no members.
func (o Object) Object(name string) Object {
	if !o.Has(name) {
		return Object{o.Member(name), nil, o.failed}
	}
	return o.Read(o.members[name], o.Member(name))
}

// List reads an array; one that is not there is empty.
func (o Object) List(name string) []json.RawMessage {
	if !o.Has(name) {
		return nil
	}
	l, ok := openai.Elements(o.members[name])
	if !ok {
		o.BadType(name, "is not an array.")
	}
	return l
}

// Objects yields the elements of an array of objects, until the request has failed.
func (o Object) Objects(name string) iter.Seq2[int, Object] {
	return func(yield func(int, Object) bool) {
		for i, raw := range o.List(name) {
			element := o.Read(raw, Element(o.Member(name), i))
			if o.Err() != nil || !yield(i, element) {
				return
			}
		}
	}
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

func refusal(at, code, why string) error {
	message := why
	if at != "" {
		message = at + " " + why
	}
	return &openai.RequestError{Status: http.StatusBadRequest, Message: message, Param: at, Code: code}
}
