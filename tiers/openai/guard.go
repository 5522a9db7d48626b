package openai

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/foregate/foregate/tiers/fields"
)

// asked is something that is refused unless the request's route allows it. The route is known only when the
// whole request was read.
type asked struct {
	name string // as allow_fields lists it
	err  *RequestError
}

// maxAsked bounds what one request may ask for: more than all fields and types of parts together.
const maxAsked = 128

// ask notes what the route must allow; the first of each name is kept. Only for that one the refusal is worded:
// a request may ask a hundred thousand times.
func (w *walker) ask(name string, refusal func() *RequestError) {
	if len(w.asked) == maxAsked || slices.ContainsFunc(w.asked, func(a asked) bool { return a.name == name }) {
		return
	}
	if err := refusal(); err != nil {
		w.asked = append(w.asked, asked{name, err})
	}
}

// allowed returns the error of the first thing asked for that the route of the model does not allow.
func (w *walker) allowed(model string) *RequestError {
	if len(w.asked) == 0 {
		return nil
	}
	var allow []string
	if w.lim.Allow != nil {
		allow = w.lim.Allow(model)
	}
	for _, a := range w.asked {
		if !slices.Contains(allow, a.name) {
			return a.err
		}
	}
	if len(w.asked) == maxAsked {
		return badField("", "too_many_fields", "The request asks for more than %d things that are not accepted everywhere.", maxAsked)
	}
	return nil
}

// field judges the value of a top-level member that no reader reads, or of one of the sampling parameters, and
// returns where it stands. drop tells that the request is to be sent on without it.
func (w *walker) field(name string, f fields.Field) (drop bool, value Span, err *RequestError) {
	start := int(w.cur.dec.InputOffset())
	switch {
	case f.Verdict == fields.Stripped:
		w.cur.skip()
	case f.Verdict == fields.Forwarded:
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

// since is where the value stands that was read since the offset of its member's name.
func (w *walker) since(offset int) Span {
	end := int(w.cur.dec.InputOffset())
	return Span{end - len(bytes.TrimLeft(w.body[offset:end], ": \t\r\n")), end}
}

// unlessAllowed refuses a field of the table, or notes that the route must allow it.
func (w *walker) unlessAllowed(f fields.Field, raw []byte) *RequestError {
	if f.Verdict == fields.Stripped || harmless(raw) || f.Name == fields.Kwargs && raw[0] == '{' {
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

// forwarded judges a top-level member that is sent on as it is.
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

// sampling judges the sampling parameters of engines' own paths, one object or a list of them: they have
// the fields of a request inside, which cannot be removed there.
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
		f := fields.Of(name)
		if f.Verdict == fields.Stripped {
			f.Verdict = fields.Forbidden
		}
		if _, _, err := w.field(name, f); err != nil {
			return err
		}
	}
	return nil
}

// kwargs judges the arguments of the chat template, each by itself.
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
		want, given := fields.TemplateKwargs[name]
		switch {
		case given && kind != jsontext.Kind(want):
			return w.refuse("invalid_type", "must be %s", kindWord(jsontext.Kind(want)))
		case given:
		case fields.KwargForbidden(name):
			return w.refuse("unsupported_parameter", "is not accepted by this gateway")
		default:
			w.ask(fields.Kwargs+"."+name, func() *RequestError { return w.refuse("unsupported_parameter", "is not accepted by this gateway") })
		}
	}
	return nil
}
