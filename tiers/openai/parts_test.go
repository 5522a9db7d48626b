package openai

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParts compares with encoding/json, which allows more: invalid UTF-8, for example.
func FuzzParts(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":{"a":[ ]}}`, ` [1, {"x":null},"\u0041"] `, `{"\u0061":1,"a":2}`, `null`, `{`, `{"a":1}x`, `[1,]`, ``, `"{}"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if members, ok := Members(raw); ok {
			var want map[string]json.RawMessage
			if err := json.Unmarshal(raw, &want); err != nil || !cmp.Equal(want, members) {
				t.Errorf("%q: %v, want %v: %v", raw, members, want, err)
			}
		}
		if elements, ok := Elements(raw); ok {
			want := []json.RawMessage{}
			if err := json.Unmarshal(raw, &want); err != nil || len(want) != len(elements) || len(want) > 0 && !cmp.Equal(want, elements) {
				t.Errorf("%q: %v, want %v: %v", raw, elements, want, err)
			}
		}
	})
}

func TestOnlyObjectsAndArraysHaveParts(t *testing.T) {
	if m, ok := Members([]byte(` {"\u0061": [1], "b":{}} `)); !ok || len(m) != 2 || string(m["a"]) != "[1]" {
		t.Errorf("%v, %v", m, ok)
	}
	if e, ok := Elements([]byte(`[{"a":1} , 2]`)); !ok || len(e) != 2 || string(e[0]) != `{"a":1}` {
		t.Errorf("%v, %v", e, ok)
	}
	for _, bad := range []string{``, `null`, `1`, `"x"`, `{"a"}`, `[1`, `{} {}`, `[] 1`} {
		_, object := Members([]byte(bad))
		_, array := Elements([]byte(bad))
		if object || array {
			t.Errorf("%q is an object or an array", bad)
		}
	}
}
