package openapi

import (
	"regexp"
	"strings"
)

var (
	// literals are values such as `a`, `b`.
	literals = regexp.MustCompile("^`[A-Za-z_-]+`(, `[A-Za-z_-]+`)*$")
	// pattern is one regular expression such as `[a-z]{1,64}`.
	pattern = regexp.MustCompile("^`(\\[[^`]+\\}|\\[[^`]+\\])`$")
)

// valuesSchema returns the schema of a header's values from their description.
func valuesSchema(values string) object {
	switch {
	case values == "a number", values == "whole seconds":
		return whole(0)
	case literals.MatchString(values):
		return text(strings.Split(strings.ReplaceAll(values, "`", ""), ", ")...)
	case pattern.MatchString(values):
		return object{"type": "string", "pattern": "^" + strings.Trim(values, "`") + "$"}
	}
	return text()
}

// each returns a row for each header of a row that describes two.
func (h Header) each() []Header {
	first, last, two := strings.Cut(h.Name, ", -")
	if !two {
		return []Header{h}
	}
	second := h
	h.Name, second.Name = first, first[:strings.LastIndexByte(first, '-')+1]+last
	return []Header{h, second}
}

// flatten returns a row for each header.
func flatten(headers []Header) (all []Header) {
	for _, h := range headers {
		all = append(all, h.each()...)
	}
	return all
}

// isCredential reports whether a header is described by a security scheme, so it is no parameter.
func isCredential(name string) bool {
	if name == "Authorization" {
		return true
	}
	for _, scheme := range publicSecurity {
		if scheme.(object)["name"] == name {
			return true
		}
	}
	return false
}

// headerParameters are request headers as components. The keys of clients are no parameters but security schemes.
func headerParameters(headers []Header) object {
	out := object{}
	for _, h := range flatten(headers) {
		if !isCredential(h.Name) {
			out[h.Name] = parameter{name: h.Name, in: "header", meaning: h.Meaning, schema: valuesSchema(h.Values)}.object()
		}
	}
	return out
}

// headerComponents are response headers as components.
func headerComponents(headers []Header) object {
	out := object{}
	for _, h := range flatten(headers) {
		out[h.Name] = object{"description": h.Meaning, "schema": valuesSchema(h.Values)}
	}
	return out
}
