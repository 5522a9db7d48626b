package gateway

import (
	"net/http"
	"testing"

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
