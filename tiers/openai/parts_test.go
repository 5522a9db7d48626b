package openai

import (
	"testing"
)

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
