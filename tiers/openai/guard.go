package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/foregate/foregate/tiers/fields"
)

// field checks the value of a top-level member without a reader, or of a sampling parameter, and returns its
// position. drop means that the request is forwarded without it.
func (w *walker) field(name string, f fields.Field) (drop bool, value Span, err *RequestError) {
	start := w.cur.last
	switch {
	case f.Verdict == fields.Stripped:
		w.cur.skip()
	case f.Verdict <= fields.Target:
		err = w.forwarded(name)
	case name == fields.Kwargs && w.cur.kind() == '{':
		err = w.kwargs()
	default:
		err = w.objects(false)
	}
	if err != nil || w.cur.err != nil {
		return false, Span{}, err
	}
	value = w.since(start)
	raw := value.Of(w.body)
	if f.Verdict == fields.Forwarded {
		return false, value, nil
	}
	return f.Verdict == fields.Stripped || harmless(raw), value, w.unlessAllowed(f, raw)
}

// unlessAllowed refuses a field of the table, or records that the route must allow it.
func (w *walker) unlessAllowed(f fields.Field, raw []byte) *RequestError {
	if f.Verdict <= fields.Stripped || harmless(raw) || f.Name == fields.Kwargs && raw[0] == '{' {
		return nil
	}
	refusal := func() *RequestError {
		return badField(f.Name, "unsupported_parameter", "%s is not accepted by this gateway.", f.Name)
	}
	if f.Verdict == fields.Forbidden || f.Name == fields.Kwargs {
		return refusal()
	}
	w.ask(f.Name, refusal)
	return nil
}

// forwarded checks a top-level member that is forwarded unchanged.
func (w *walker) forwarded(name string) *RequestError {
	if m, ok := topModes[name]; ok {
		return w.value(m)
	}
	switch name {
	case "tools", "functions":
		w.schemas = true
		defer func() { w.schemas = false }()
	case "sampling_params":
		return w.sampling()
	}
	return w.outside(name)
}

// sampling checks the sampling parameters of engines' own paths, one object or a list of them: they contain
// fields of a request, which cannot be removed there.
func (w *walker) sampling() *RequestError {
	if w.cur.kind() == '[' {
		for range w.cur.array() {
			if err := w.sampling(); err != nil {
				return err
			}
		}
		return nil
	}
	for raw := range w.cur.object() {
		name := string(raw)
		f := fields.Lookup(name)
		if f.Verdict == fields.Stripped {
			f.Verdict = fields.Forbidden
		}
		if _, _, err := w.field(name, f); err != nil {
			return err
		}
	}
	return nil
}

// kwargs checks each argument of the chat template.
func (w *walker) kwargs() *RequestError {
	for raw := range w.cur.object() {
		name := string(raw)
		kind := w.cur.kind()
		if kind == 'f' {
			kind = 't'
		}
		if err := w.outside(name); err != nil || w.cur.err != nil {
			return err
		}
		want, isSet := fields.TemplateKwargs[name]
		switch {
		case isSet && kind != jsontext.Kind(want):
			return w.refuse("invalid_type", "must be %s", kindWord(jsontext.Kind(want)))
		case isSet:
		case fields.KwargForbidden(name):
			return w.refuse("unsupported_parameter", "is not accepted by this gateway")
		default:
			w.ask(fields.Kwargs+"."+name, func() *RequestError { return w.refuse("unsupported_parameter", "is not accepted by this gateway") })
		}
	}
	return nil
}
