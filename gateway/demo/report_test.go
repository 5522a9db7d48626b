package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway"
)

func TestTheDemonstrationTellsAChangeOfThePromiseAtOnceAndTheRestNowAndThen(t *testing.T) {
	var said []string
	r := guaranteeReport{say: func(line string) { said = append(said, line[len("          guarantee of r: "):]) }}
	at := time.Unix(1000, 0)
	stands := func(after time.Duration, state gateway.RiskState, seconds float64) {
		r.tell([]gateway.RiskSummary{{Route: "r", Main: &gateway.RiskView{State: state, AuditsToCertify: new(10.), SecondsToCertify: &seconds}}}, at.Add(after))
	}
	r.tell([]gateway.RiskSummary{{Route: "r"}}, at) // nothing is known yet
	stands(time.Second, gateway.RiskWarmup, 3)
	stands(2*time.Second, gateway.RiskWarmup, 2)
	stands(16*time.Second, gateway.RiskWarmup, 1)
	stands(17*time.Second, gateway.RiskCertified, 0)
	stands(31*time.Second, gateway.RiskCertified, 0)
	if want := []string{
		"warmup, first certificate: in 3.0s (10 audits)", "warmup, first certificate: in 1.0s (10 audits)", "certified, accepts 0% of the drafts, wrong rate below 0%",
	}; !slices.Equal(said, want) {
		t.Errorf("%q, not %q", said, want)
	}
}
