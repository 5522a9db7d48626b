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
	stands := func(after time.Duration, state gateway.RiskState, says string) {
		r.tell([]gateway.RiskSummary{{Route: "r", Main: &gateway.RiskView{State: state, Summary: says}}}, at.Add(after))
	}
	r.tell([]gateway.RiskSummary{{Route: "r"}}, at) // nothing is known yet
	stands(time.Second, gateway.RiskWarmup, "first")
	stands(2*time.Second, gateway.RiskWarmup, "again")
	stands(16*time.Second, gateway.RiskWarmup, "after a while")
	stands(17*time.Second, gateway.RiskCertified, "certified")
	stands(31*time.Second, gateway.RiskCertified, "still")
	if want := []string{"first", "after a while", "certified"}; !slices.Equal(said, want) {
		t.Errorf("%q, not %q", said, want)
	}
}
