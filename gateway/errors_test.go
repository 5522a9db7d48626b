package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/clientapi"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/pool"
)

func TestAWaitForABackendThatFellSilentIsToldAsATimeout(t *testing.T) {
	silent := &engine.Failure{Kind: engine.Silent}
	spent := problemOf(&dispatch.ExhaustedError{Pool: "p", Tries: 3, Last: silent})
	if spent.status != http.StatusServiceUnavailable || spent.body.Code != "no_backend" || spent.retry == 0 || !spent.retryable {
		t.Errorf("all tries: %d, %+v, retry after %v", spent.status, spent.body, spent.retry)
	}
	for name, err := range map[string]error{
		"one try": silent, "in mid-answer": &tiers.BrokenError{Cause: silent},
	} {
		if p := problemOf(err); p.status != http.StatusGatewayTimeout || p.body.Code != string(engine.Timeout) || p.body.Type != "timeout_error" || !p.retryable {
			t.Errorf("%s: %d, %+v, hope %v", name, p.status, p.body, p.retryable)
		}
	}
}

func TestAPromptThatFitsNoBackendIsTheClients(t *testing.T) {
	for tooLong, want := range map[bool]problem{
		true:  {status: http.StatusBadRequest, body: openai.ErrorBody{Code: "context_length_exceeded", Type: "invalid_request_error"}},
		false: {status: http.StatusServiceUnavailable, body: openai.ErrorBody{Code: "no_backend", Type: "overloaded_error"}},
	} {
		p := problemOf(&pool.NoBackendError{Pool: "p", Total: 2, Full: 1, Down: 1, TooLong: tooLong, Prompt: 5000, Largest: 1600})
		if p.status != want.status || p.body.Code != want.body.Code || p.body.Type != want.body.Type || (p.retry == 0) != tooLong {
			t.Errorf("too long %v: %d, %+v, retry after %v", tooLong, p.status, p.body, p.retry)
		}
	}
	p := problemOf(&pool.NoBackendError{Pool: "p", Total: 2, Full: 2, TooLong: true, Answers: 100})
	if p.status != http.StatusBadRequest || p.body.Code != "invalid_value" || !strings.Contains(p.body.Message, "The 100 answers together") {
		t.Errorf("many answers: %d, %+v", p.status, p.body)
	}
}

func TestAnEnginesRefusalKeepsTheFieldThatItNames(t *testing.T) {
	fault := openai.ParseFault([]byte(`{"error":{"message":"top_p must be in (0, 1]","type":"BadRequestError","param":"top_p","code":400}}`))
	p := problemOf(&engine.Failure{Kind: engine.Rejected, Status: http.StatusBadRequest, Fault: fault})
	if p.status != http.StatusBadRequest || p.body.Param != "top_p" {
		t.Errorf("%d, %+v", p.status, p.body)
	}
}

func TestWhatAnEngineRepeatsOfAPromptIsToldToTheClientAndNotLogged(t *testing.T) {
	const message = "[{'type': 'missing', 'loc': ('body', 'messages'), 'input': {'content': 'my secret'}}]"
	b := startBench(t, (&scripted{write: func(w http.ResponseWriter, _ seen, _ int) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"BadRequestError","code":"odd_messages"}}`, message)
	}}).start(t), nil)
	if r := b.chat(t, "acme", short); r.status != http.StatusBadRequest || !strings.Contains(r.body, "my secret") {
		t.Errorf("%d %s", r.status, r.body)
	}
	var logged []string
	soon(t, "it is logged", func() bool {
		logged = b.log.holding("upstream_rejected: status 400: odd_messages")
		return len(logged) == 1
	})
	if strings.Contains(logged[0], "secret") {
		t.Error(logged[0])
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
		if p.status != http.StatusBadGateway || p.body.Code != "answer_too_large" || !strings.Contains(p.body.Message, "limits.response_bytes") || p.retryable {
			t.Errorf("%v: %d, %+v", err, p.status, p.body)
		}
	}
	if f := (&engine.Failure{Kind: engine.TooLarge}); f.Retryable() || engine.Classify(f) != engine.ClassNeutral {
		t.Error("it says something about the backend")
	}
}
