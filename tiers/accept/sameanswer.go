package accept

import (
	"bytes"
	"encoding/json"
)

// SameAnswer reports whether two answers do, but for white space, and but for the order of
// members and the spelling of values where both are JSON.
func SameAnswer(a, b []byte) bool {
	fieldsA, fieldsB := bytes.Fields(a), bytes.Fields(b)
	if len(fieldsA) == 0 || len(fieldsB) == 0 {
		return len(fieldsA) == len(fieldsB)
	}
	if bytes.Equal(bytes.Join(fieldsA, []byte(" ")), bytes.Join(fieldsB, []byte(" "))) {
		return true
	}
	plainA, okA := plainJSON(a)
	plainB, okB := plainJSON(b)
	return okA && okB && bytes.Equal(plainA, plainB)
}

// plainJSON is a JSON text with its members sorted and no white space.
func plainJSON(text []byte) ([]byte, bool) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil || dec.More() {
		return nil, false
	}
	out, err := json.Marshal(v)
	return out, err == nil
}
