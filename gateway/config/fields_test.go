package config

import (
	"reflect"
	"testing"
)

// TestEveryFormIsKnown holds the tags together with the table of forms.
func TestEveryFormIsKnown(t *testing.T) {
	used := map[string]bool{}
	var note func(reflect.Type)
	note = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Map, reflect.Slice, reflect.Pointer:
			note(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				if f := of.Field(i); f.Tag.Get("yaml") != "" {
					used[f.Tag.Get("form")] = true
					note(f.Type)
				}
			}
		}
	}
	note(reflect.TypeFor[File]())
	for name := range used {
		if name != "" && forms[name] == nil {
			t.Errorf("there is no form %q", name)
		}
	}
	for name := range forms {
		if !used[name] {
			t.Errorf("no field has the form %q", name)
		}
	}
}
