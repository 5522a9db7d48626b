package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// flightRows are faults while identical requests share one generation.
func flightRows() []Row {
	crowded := sharing()
	crowded.Sim = leisurely
	one := crowded
	one.Targets = 1
	return []Row{
		{
			ID: "M10", Fault: "1,000 identical requests at once over three replicas; again without Redis", Short: true, Added: -1,
			Promise: "≤ 1 generation per replica, both times; all answered with equal bytes", Recover: backAgain, Setup: crowded, Run: stampede,
		},
		{
			ID: "M11", Fault: "generations are cut with 1,000 identical requests waiting: one leader's once; each after 8 of 20 tokens; each after 4 of 100", Added: -1,
			Promise: "once, and each after 8 of 20: all continued and answered with equal bytes, in ≤ 1 generation more and ≤ 3 per replica; each after 4 of 100: none answered, all get the error after ≤ 2 leaders per replica, ≤ 4 generations each", Tolerated: []string{ErrorEvent, "http_502"},
			Setup: one, Run: leaderFails,
		},
	}
}

const (
	rushTokens   = 20
	rush         = 1000 // identical requests at once
	rushCutAfter = 8    // tokens
	carriedOn    = 4    // generations of one leader at most: the first, and three that carry on
)

// leisurely has simulators give about 17 tokens a second: each goes to 1,000 clients, and machines that start
// three gateways and a thousand clients have other things to do.
func leisurely(o *vllmsim.Options) { o.TimeScale = 0.4 }

// identical is a stream of its own prompt.
func identical(prompt string, tokens int) Request {
	return Request{Tenant: Tenants[0], Priority: "normal", Stream: true, Tokens: tokens, Prompt: prompt}
}

// latest is how long after a moment the last of the requests had its answer.
func latest(all []Outcome, since time.Time) (worst time.Duration) {
	for i := range all {
		worst = max(worst, all[i].At.Add(all[i].Total).Sub(since))
	}
	return worst
}

// rushed is what a stampede asks for, and what is true of it.
type rushed struct {
	request Request
	text    string
}

// stampede sends 1,000 identical requests at once: all is well; there is no Redis.
func stampede(ctx context.Context, w *Testbed) error {
	l := w.NewLoad()
	w.Phase(During)
	var asked [2]rushed
	var errs [2]error
	var truths sync.WaitGroup
	for i := range asked {
		truths.Go(func() {
			a := &asked[i]
			a.request = identical(fmt.Sprintf("Which tide brings all ships in at once, of %d?", i), rushTokens)
			a.text, errs[i] = l.truth(w.Gateways[i], a.request)
		})
	}
	truths.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	w.connect(l)
	w.stampede(ctx, l, "at once", &asked[0], len(w.Gateways))
	s := w.Redis.Servers[0]
	return w.Inject(ctx, 0, func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		w.local(ctx)
		w.stampede(ctx, l, "without Redis", &asked[1], len(w.Gateways))
		return nil
	}, func() error { return s.Start(ctx) })
}

// connect has a thousand clients connect, so that no stampede is one of handshakes.
func (w *Testbed) connect(l *Load) {
	l.KeepAll(l.Burst(w.Gateways, rush, identical("Is everybody here?", 1)))
}

// stampede is one of 1,000, of which all must be answered with so many generations at most.
func (w *Testbed) stampede(ctx context.Context, l *Load, what string, a *rushed, maximum int) {
	before := w.generations()
	all := l.Burst(w.Gateways, rush, a.request)
	l.KeepAll(all)
	w.allSay(what, a.text, all)
	w.Note("%s", words(all))
	w.checkMaxGenerations(ctx, what, w.generations()-before, maximum)
}

// leaderFails has the one backend cut the leader's answer once, then every answer so that the rest is
// short, and then so that no answer comes to its end.
func leaderFails(ctx context.Context, w *Testbed) error {
	l := w.NewLoad()
	w.injections += 3
	w.Phase(During)
	w.connect(l)
	for _, cut := range []struct {
		what    string
		fault   vllmsim.Fault
		prompt  string
		tokens  int
		maximum int // generations
		ends    bool
	}{
		{"once", vllmsim.Fault{CutAfterBytes: 4000, For: 1}, "Which rope breaks first?", rushTokens, len(w.Gateways) + 1, true},
		{"each after 8 of 20 tokens", vllmsim.Fault{ErrorEventAfterTokens: rushCutAfter}, "Which rope breaks each time?", rushTokens, (rushTokens/rushCutAfter + 1) * len(w.Gateways), true},
		{"each after 4 of 100", vllmsim.Fault{ErrorEventAfterTokens: 4}, "Which rope breaks always?", 100, 2 * carriedOn * len(w.Gateways), false},
	} {
		r := identical(cut.prompt, cut.tokens)
		text, err := l.truth(w.Gateways[0], r)
		if err == nil {
			err = w.Targets[0].SetFault(cut.fault)
		}
		if err != nil {
			return err
		}
		before, began := w.generations(), time.Now()
		all := l.Burst(w.Gateways, rush, r)
		l.KeepAll(all)
		w.allSay(cut.what, text, all)
		told := latest(all, began)
		answered := len(slices.DeleteFunc(all, func(o Outcome) bool { return o.Kind != Answered }))
		w.Note("%s: %d of %d answered, %v at most", cut.what, answered, rush, round(told))
		if (answered == rush) != cut.ends || !cut.ends && answered > 0 {
			w.Fail("%s: %d of %d answered", cut.what, answered, rush)
		}
		w.checkMaxGenerations(ctx, cut.what, w.generations()-before, cut.maximum)
		if err := w.Targets[0].SetFault(vllmsim.Fault{}); err != nil {
			return err
		}
	}
	return nil
}
