package openai

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Ephemeral are the fields that do not change the content of an answer.
var Ephemeral = []string{"stream", "stream_options", "user"}

// digestContext separates digests from other hashes, and from digests of another canonical form.
const digestContext = "foregate 2026-11 request in canonical form, 4\n"

// Digest is a SHA-256 hash of the request's canonical form ([Request.Canonical]). Equal digests mean requests that
// no engine can distinguish. It fails only if the body was changed after the scan.
func (r *Request) Digest() (sum [32]byte, err error) {
	form, err := r.Canonical(append(make([]byte, 0, len(digestContext)+len(r.Body)), digestContext...))
	if err == nil {
		sum = sha256.Sum256(form)
	}
	return sum, err
}

// byName are the members in which engines read objects by name, so that an order has no meaning. In others it is kept: templates
// print the parameters of a tool and documents in their order, and a constrained answer has the order of its schema.
var byName = []string{"messages", "tool_choice", "logit_bias"}

// Canonical appends everything in the request that decides the answer: all members of the body except those
// of [Ephemeral] and those that are not forwarded, sorted by name, as JSON without white space and needless escapes.
// Equal bytes mean requests that no engine can distinguish. The order within a member stays as it is, but for those of
// [byName]; so do numbers. It fails only if the body was changed after the scan.
func (r *Request) Canonical(dst []byte) ([]byte, error) {
	order := make([]*member, 0, 16)
	for i := range r.members {
		if m := &r.members[i]; !m.drop && !slices.Contains(Ephemeral, m.name) {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b *member) int { return strings.Compare(a.name, b.name) })
	before := dst
	dst = append(dst, '{')
	for i, m := range order {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		dst = append(AppendQuote(dst, m.name), ':')
		if dst, err = jsontext.AppendFormat(dst, m.value.Of(r.Body), lenient, jsontext.ReorderRawObjects(slices.Contains(byName, m.name))); err != nil { // the scan has refused duplicate names
			return before, fmt.Errorf("the request's body is not what was scanned: %w", err)
		}
	}
	return append(dst, '}'), nil
}
