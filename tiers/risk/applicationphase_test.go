package risk

import (
	"strconv"
	"testing"
	"time"
)

// auditedApart is a state with the audits of two applications: the target stands by all of one and by none of the other.
func auditedApart(audits int) *State {
	s, at := &State{}, time.Unix(1_000, 0)
	for i := range GridScores + audits {
		name, bad := "acme/sums", false
		if i%2 == 0 {
			name, bad = "acme/poems", true
		}
		ticket := strconv.Itoa(i)
		a := Audit{Decision: s.View(forever).Decide(Key{}, Sampling{Rate: 1, FullRange: 1}, 0), Score: -float64(i*7%100) / 100, Ticket: ticket, Application: name}
		if s.Open(forever, &a, at) == Opened {
			s.Close(forever, ticket, bad)
		}
	}
	return s
}

func TestEachApplicationHasAPhaseOfItsOwn(t *testing.T) {
	now := time.Unix(2_000, 0)
	of := func(s *State, name string) ApplicationState {
		return (&KeyState{Key{"m", "all"}, *s, forever}).forApplications(now, 0).of(name, now, 0)
	}
	if got := of(auditedApart(0), "acme/sums"); got.Phase != PhaseUncertified || got.ToCertify == nil || got.Bound < 1 {
		t.Errorf("without an audit: %+v", got)
	}
	few, more := of(auditedApart(20), "acme/sums"), of(auditedApart(60), "acme/sums")
	if few.Phase != PhaseUncertified || *more.ToCertify > *few.ToCertify-15 || more.Bound >= few.Bound {
		t.Errorf("after 10 audits %+v, after 30 %+v", few, more)
	}
	s := auditedApart(1200)
	if got := of(s, "acme/sums"); got.Phase != PhaseCertified || got.ToCertify != nil || got.Bound > forever.MaxDisagreement || got.Drifted != nil {
		t.Errorf("that agrees: %+v", got)
	}
	if got := of(s, "acme/poems"); got.Phase != PhaseInfeasible || got.ToCertify != nil || got.Bound < .9 {
		t.Errorf("that does not: %+v", got)
	}
	s.Used = now.Add(-time.Hour)
	s.restart("acme/sums")
	if got := of(s, "acme/sums"); got.Phase == PhaseCertified || got.Drifted == nil || !got.Drifted.Equal(s.Used) {
		t.Errorf("after its drift: %+v", got)
	}
}

func TestWhatIsRefutedAndHowMuchOfItAgreesIsKnownOfEachApplication(t *testing.T) {
	s := auditedApart(300)
	views := func(name string) View {
		l := (&KeyState{State: *s, Rule: forever}).Limit(nil)
		return l.Of(s.View(forever), name)
	}
	for i := range s.Epochs { // nothing is certified
		s.Epochs[i].Cert = 0
	}
	s.Op = 0
	if v := views("acme/poems"); !v.Refuted || v.Refused < .95 || v.Op != 0 {
		t.Errorf("that does not agree: %+v", v)
	}
	if v := views("acme/sums"); v.Refuted || v.Refused > 0 {
		t.Errorf("that agrees: %+v", v)
	}
}
