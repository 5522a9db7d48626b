package contentlog

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// maxNesting bounds the depth of exported values. What is deeper, such as arguments that a model made up, is JSON in a string:
// the SDK drops it from a depth of 64 on, and collectors refuse a whole message that nests too deep.
const maxNesting = 32

// structured returns a record with values where the queue has JSON: the conventions want that of events. It is made when the
// record is sent, because values take many times the memory.
func structured(r *sdk.Record) sdk.Record {
	all := make([]attribute.KeyValue, 0, r.AttributesLen())
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		switch kv.Key {
		case semconv.GenAISystemInstructionsKey, semconv.GenAIInputMessagesKey, semconv.GenAIOutputMessagesKey:
			kv.Value = values([]byte(kv.Value.AsString()))
		}
		all = append(all, kv)
		return true
	})
	out := r.Clone()
	out.SetAttributes(all...)
	return out
}

// values reads JSON of this package as an attribute's value.
func values(text []byte) attribute.Value {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return attribute.StringValue(string(text)) // not reached: encode wrote it
	}
	return valueOf(v, 1)
}

// valueOf is a JSON value, at a depth, as an attribute's.
func valueOf(v any, depth int) attribute.Value {
	switch v := v.(type) {
	case string:
		return attribute.StringValue(v)
	case bool:
		return attribute.BoolValue(v)
	case json.Number:
		return numberOf(v)
	case []any, map[string]any:
		if depth == maxNesting {
			return attribute.StringValue(string(encode(v)))
		}
		return compositeOf(v, depth+1)
	}
	return attribute.Value{} // null
}

// compositeOf is an array or an object with elements at a depth.
func compositeOf(v any, depth int) attribute.Value {
	if list, ok := v.([]any); ok {
		out := make([]attribute.Value, len(list))
		for i := range list {
			out[i] = valueOf(list[i], depth)
		}
		return attribute.SliceValue(out...)
	}
	members, _ := v.(map[string]any)
	out := make([]attribute.KeyValue, 0, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		out = append(out, attribute.KeyValue{Key: attribute.Key(name), Value: valueOf(members[name], depth)})
	}
	return attribute.MapValue(out...)
}

// numberOf is a number: an integer if it is one of 64 bits, and text if no float can hold it.
func numberOf(n json.Number) attribute.Value {
	if i, err := n.Int64(); err == nil {
		return attribute.Int64Value(i)
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return attribute.StringValue(n.String())
	}
	return attribute.Float64Value(f)
}
