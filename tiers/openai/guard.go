package openai

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/foregate/foregate/tiers/fields"
)

// field checks the value of a top-level member without a reader, or of a sampling parameter, and returns its
// position. drop means that the request is forwarded without it.
func (w *walker) field(name string, f fields.Field) (drop bool, value Span) {
	start := w.cur.last
	switch {
	case f.Verdict == fields.Stripped:
		w.cur.skip()
	case f.Verdict <= fields.Target:
		w.forwarded(name)
	case name == fields.Kwargs && w.cur.kind() == '{':
		w.kwargs()
	default:
		w.objects(false)
	}
	if w.cur.err != nil {
		return false, Span{}
	}
	value = w.since(start)
	raw := value.Of(w.body)
	if f.Verdict == fields.Forwarded {
		return false, value
	}
	w.unlessAllowed(f, raw)
	return f.Verdict == fields.Stripped || harmless(raw), value
}

// unlessAllowed refuses a field of the table, or records that the route must allow it.
func (w *walker) unlessAllowed(f fields.Field, raw []byte) {
	if f.Verdict <= fields.Stripped || harmless(raw) || f.Name == fields.Kwargs && raw[0] == '{' {
		return
	}
	refusal := func() *RequestError {
		return badField(f.Name, "unsupported_parameter", "%s is not accepted by this gateway.", f.Name)
	}
	if f.Verdict == fields.Forbidden || f.Name == fields.Kwargs {
		w.cur.fail(refusal())
		return
	}
	w.ask(f.Name, refusal)
}

// forwarded checks a top-level member that is forwarded unchanged.
func (w *walker) forwarded(name string) {
	m, known := topModes[name]
	w.schemas = name == "tools" || name == "functions"
	switch {
	case known:
		w.value(m)
	case name == "sampling_params":
		w.sampling()
	default:
		w.outside(name)
	}
	w.schemas = false
}

// sampling checks the sampling parameters of engines' own paths, one object or a list of them: they contain
// fields of a request, which cannot be removed there.
func (w *walker) sampling() {
	if w.cur.kind() == '[' {
		for range w.cur.array() {
			w.sampling()
		}
		return
	}
	for raw := range w.cur.object() {
		name := string(raw)
		f := fields.Lookup(name)
		if f.Verdict == fields.Stripped {
			f.Verdict = fields.Forbidden
		}
		w.field(name, f)
	}
}

// kwargs checks each argument of the chat template.
func (w *walker) kwargs() {
	for raw := range w.cur.object() {
		name := string(raw)
		kind := w.cur.kind()
		if kind == 'f' {
			kind = 't'
		}
		w.outside(name)
		refusal := func() *RequestError { return w.refusal("unsupported_parameter", "is not accepted by this gateway") }
		want, isSet := fields.TemplateKwargs[name]
		switch {
		case w.cur.err != nil:
		case isSet && kind != jsontext.Kind(want):
			w.refuse("invalid_type", "must be %s", kindWord(jsontext.Kind(want)))
		case isSet:
		case fields.KwargForbidden(name):
			w.cur.fail(refusal())
		default:
			w.ask(fields.Kwargs+"."+name, refusal)
		}
	}
}
