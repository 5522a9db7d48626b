package contentlog

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
)

func TestContentIsExportedAsValues(t *testing.T) {
	all := []message{text("user", "<hi>"), {Role: "assistant", Parts: []part{callPart("c", "f", `{"n":1,"big":18446744073709551616,"half":0.5,"huge":1e999,"none":null,"list":[true]}`)}}}
	got := values(encode(all))
	want := attribute.SliceValue(
		attribute.MapValue(attribute.Slice("parts", attribute.MapValue(attribute.String("content", "<hi>"), attribute.String("type", "text"))), attribute.String("role", "user")),
		attribute.MapValue(attribute.Slice("parts", attribute.MapValue(
			attribute.Map("arguments",
				attribute.Float64("big", 18446744073709551616), attribute.Float64("half", 0.5), attribute.String("huge", "1e999"),
				attribute.Slice("list", attribute.BoolValue(true)), attribute.Int("n", 1), attribute.KeyValue{Key: "none"}),
			attribute.String("id", "c"), attribute.String("name", "f"), attribute.String("type", "tool_call"))), attribute.String("role", "assistant")),
	)
	if got != want {
		t.Errorf("%s, want %s", got.String(), want.String())
	}
}

func TestArgumentsThatNestTooDeepAreExportedAsText(t *testing.T) {
	const depth = 5000
	deep := strings.Repeat("[", depth) + strings.Repeat("]", depth)
	v := values(encode([]message{{Role: "assistant", Parts: []part{callPart("c", "f", deep)}}}))
	levels := 1
	for ; v.Type() != attribute.STRING; levels++ {
		if v.Type() == attribute.SLICE {
			v = v.AsSlice()[0]
			continue
		}
		for _, kv := range v.AsMap() {
			if kv.Key == "parts" || kv.Key == "arguments" {
				v = kv.Value
				break
			}
		}
	}
	if levels != maxNesting || len(v.AsString()) < 2*(depth-maxNesting) {
		t.Errorf("%d levels, then %d bytes", levels, len(v.AsString()))
	}
}
