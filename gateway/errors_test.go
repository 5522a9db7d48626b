package gateway

import (
	"net/http"
	"testing"

	"github.com/foregate/foregate/tiers/dispatch"
	"github.com/foregate/foregate/tiers/engine"
	"github.com/foregate/foregate/tiers/strategy"
)

func TestAWaitForABackendThatFellSilentIsToldAsATimeout(t *testing.T) {
	silent := &engine.Failure{Kind: engine.Silent}
	spent := problemOf(&dispatch.ExhaustedError{Pool: "p", Tries: 3, Last: silent})
	if spent.status != http.StatusServiceUnavailable || spent.body.Code != "no_backend" || spent.retry == 0 || !spent.retryable {
		t.Errorf("all tries: %d, %+v, retry after %v", spent.status, spent.body, spent.retry)
	}
	for name, err := range map[string]error{
		"one try": silent, "in mid-answer": &strategy.BrokenError{Cause: silent},
	} {
		if p := problemOf(err); p.status != http.StatusGatewayTimeout || p.body.Code != string(engine.Timeout) || p.body.Type != "timeout_error" || !p.retryable {
			t.Errorf("%s: %d, %+v, hope %v", name, p.status, p.body, p.retryable)
		}
	}
}
