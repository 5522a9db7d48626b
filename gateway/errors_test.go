package gateway

import (
	"net/http"
	"testing"

	"github.com/foregate/foregate/tiers/engine"

	"github.com/foregate/foregate/tiers"
)

func TestAWaitForABackendThatFellSilentIsToldAsATimeout(t *testing.T) {
	silent := &engine.Failure{Kind: engine.Silent}
	for name, err := range map[string]error{
		"one try": silent, "all tries": &tiers.ExhaustedError{Pool: "p", Tries: 3, Last: silent}, "in mid-answer": &tiers.BrokenError{Cause: silent},
	} {
		if p := problemOf(err); p.status != http.StatusGatewayTimeout || p.body.Code != string(engine.Timeout) || p.body.Type != "timeout_error" || !p.hope {
			t.Errorf("%s: %d, %+v, hope %v", name, p.status, p.body, p.hope)
		}
	}
}
