package contentlog

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/pipeline"
	"github.com/foregate/foregate/tiers/openai"
)

// eventName is the conventions' event with the details of a generation.
const eventName = "gen_ai.client.inference.operation.details"

// maxAnswer bounds an answer that is collected, in bytes. Of a longer one the beginning of its plain text is exported.
const maxAnswer = 4 * maxContent

// entry implements [gateway.ContentEntry].
type entry struct {
	log      *Log
	request  *openai.Request // nil after Take
	kind     openai.Kind
	model    string
	observed *observer            // of the last attempt; nil: there was none
	facts    []attribute.KeyValue // of the request; nil: it was not read
	cut      bool                 // some content is missing
}

// Observe implements [gateway.ContentEntry].
func (e *entry) Observe() pipeline.Observer {
	if !e.log.o.Output {
		return nil
	}
	e.observed = &observer{whole: openai.NewAssembler(e.kind, maxAnswer)}
	return e.observed
}

// Take implements [gateway.ContentEntry].
func (e *entry) Take() {
	r := e.request
	e.request = nil
	if v := r.Raw("temperature"); len(v) > 0 && string(v) != "null" {
		e.facts = append(e.facts, semconv.GenAIRequestTemperature(r.Temperature))
	}
	if n := r.Limit(); n > 0 {
		e.facts = append(e.facts, semconv.GenAIRequestMaxTokens(n))
	}
	if !e.log.o.Input {
		return
	}
	system, rest := input(r)
	if len(system) > 0 {
		kept := shortened(message{Parts: system}, maxContent)
		e.cut = e.cut || len(encode(kept)) < len(encode(message{Parts: system}))
		e.add(semconv.GenAISystemInstructionsKey, string(encode(kept.Parts)))
	}
	text, cut := bounded(rest, maxContent)
	e.cut = e.cut || cut
	e.add(semconv.GenAIInputMessagesKey, text)
}

// add adds an attribute of text.
func (e *entry) add(key attribute.Key, text string) {
	e.facts = append(e.facts, key.String(text))
}

// addKnown adds an attribute of text, unless it is empty.
func (e *entry) addKnown(key attribute.Key, text string) {
	if text != "" {
		e.add(key, text)
	}
}

// End implements [gateway.ContentEntry].
func (e *entry) End(o *gateway.ContentOutcome) {
	if e.log.o.Output {
		e.addAnswer(o)
	}
	e.addFacts(o)
	var r log.Record
	r.SetEventName(eventName)
	r.SetTimestamp(o.Began.Add(o.Duration))
	r.SetSeverity(log.SeverityInfo)
	r.AddAttributes(e.facts...)
	ctx := context.Background()
	if t := o.Trace; t != nil {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: t.ID, SpanID: t.Span, TraceFlags: trace.TraceFlags(t.Flags)}))
	}
	e.log.emit(ctx, r)
}

// addAnswer adds the answer: the stored one, or the one that was observed.
func (e *entry) addAnswer(o *gateway.ContentOutcome) {
	var messages []message
	switch {
	case o.Entry != nil:
		if w, err := openai.ParseWhole(o.Entry.Answer); err == nil {
			messages = output(w)
		}
	case e.observed != nil:
		var cut bool
		messages, cut = e.observed.messages()
		e.cut = e.cut || cut
	}
	if len(messages) == 0 {
		return
	}
	text, cut := bounded(messages, maxContent)
	e.cut = e.cut || cut
	e.add(semconv.GenAIOutputMessagesKey, text)
}

// addFacts adds what is known without the content.
func (e *entry) addFacts(o *gateway.ContentOutcome) {
	operation := semconv.GenAIOperationNameChat
	if e.kind == openai.Completion {
		operation = semconv.GenAIOperationNameTextCompletion
	}
	e.add(operation.Key, operation.Value.AsString())
	e.add(semconv.GenAIRequestModelKey, e.model)
	e.add("foregate.request_id", o.ID)
	e.add("foregate.tenant", o.Tenant)
	e.addKnown(semconv.ErrorTypeKey, o.Problem)
	e.addKnown(semconv.GenAIResponseModelKey, o.Model)
	e.addKnown("foregate.target_pool", o.TargetPool)
	e.addKnown("foregate.diverted_from", o.DivertedFrom)
	if o.Tier != "" {
		e.add("foregate.tier", o.Tier)
		e.facts = append(e.facts, semconv.GenAIUsageInputTokens(o.PromptTokens), semconv.GenAIUsageOutputTokens(o.AnswerTokens))
	}
	if o.Finish != "" {
		e.facts = append(e.facts, semconv.GenAIResponseFinishReasons(finishOf(o.Finish)))
	}
	switch {
	case o.Entry != nil:
		e.add("foregate.acceptance", o.Entry.Acceptance)
	case o.Receipt != nil:
		e.add("foregate.acceptance", o.Receipt.Acceptance())
	}
	if e.cut {
		e.facts = append(e.facts, attribute.Bool("foregate.truncated", true))
	}
}
