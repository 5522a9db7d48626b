package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
)

func TestAnEnginesRefusalKeepsTheFieldThatItNames(t *testing.T) {
	fault := openai.ParseFault([]byte(`{"error":{"message":"top_p must be in (0, 1]","type":"BadRequestError","param":"top_p","code":400}}`))
	p := problemOf(&engine.Failure{Kind: engine.Rejected, Status: http.StatusBadRequest, Fault: fault})
	if p.status != http.StatusBadRequest || p.body.Param != "top_p" {
		t.Errorf("%d, %+v", p.status, p.body)
	}
}

func TestAnEnginesCodeSurvives(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"m","type":"invalid_request_error","code":"content_filter"}}`:    "content_filter",
		`{"error":{"message":"m","type":"BadRequestError","code":"invalid_image"}}`:           "invalid_image",
		`{"error":{"message":"m","code":"anything.of-its_own"}}`:                              "anything.of-its_own",
		`{"error":{"message":"This model's maximum context length is 4 tokens.","code":400}}`: "context_length_exceeded",
		`{"error":{"message":"m","type":"exceed_context_size_error","code":400}}`:             "context_length_exceeded",
		`{"error":{"message":"m","type":"BadRequestError","code":400}}`:                       "upstream_rejected",
	} {
		p := problemOf(&engine.Failure{Kind: engine.Rejected, Status: http.StatusBadRequest, Fault: openai.ParseFault([]byte(body))})
		if p.status != http.StatusBadRequest || p.body.Code != want {
			t.Errorf("%s: %d, %+v, want %s", body, p.status, p.body, want)
		}
	}
}

func TestAnAnswerAboveTheLimitIsNotGeneratedOnceMore(t *testing.T) {
	for _, err := range []error{
		&engine.Failure{Kind: engine.TooLarge}, &tiers.BrokenError{Cause: &engine.Failure{Kind: engine.TooLarge}}, badAnswer(clientapi.NewBound(1).Keep(2)),
	} {
		p := problemOf(err)
		if p.status != http.StatusBadGateway || p.body.Code != "answer_too_large" || !strings.Contains(p.body.Message, "limits.response_bytes") || p.retryable || !wouldFailAgain(err) {
			t.Errorf("%v: %d, %+v", err, p.status, p.body)
		}
	}
	if f := (&engine.Failure{Kind: engine.TooLarge}); f.Retryable() || engine.Classify(f) != engine.ClassNeutral {
		t.Error("it says something about the backend")
	}
}
