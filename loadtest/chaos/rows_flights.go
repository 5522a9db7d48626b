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
			ID: "R18a", Fault: "SIGKILL of the replica that leads a streamed answer, at its chunk boundaries; identical requests wait on the others", Short: true, Added: -1,
			Promise: "all of these answered completely ≤ 2 s + a generation; no partial answer served; ≤ 2 generations",
			Setup:   sharing(), Run: crashPoints,
		},
		{
			ID: "R18b", Fault: "Redis killed between lease and store, with followers on three replicas", Added: -1, Recover: backAgain,
			Promise: "all answered completely; ≤ 1 generation per replica; shared and cached again ≤ 2 s", Setup: sharing(), Run: killedUnderWay,
		},
		{
			ID: "R18c", Fault: "lease and chunks of an answer in progress: evicted, or of another type", Added: -1,
			Promise: "all answered completely ≤ 2 s + a generation; ≤ 1 generation per replica", Setup: sharing(), Run: leaseTampered,
		},
		{
			ID: "M10", Fault: "1,000 identical requests at once over three replicas; again, and the leader's replica killed; again without Redis", Short: true, Added: -1,
			Promise: "1 generation; ≤ 2; ≤ 3; all answered with equal bytes", Recover: backAgain, Setup: crowded, Run: stampede,
		},
		{
			ID: "M11", Fault: "generations are cut with 1,000 identical requests waiting: the leader's once; each after 8 of 20 tokens; each after 4 of 100", Added: -1,
			Promise: "once, and each after 8 of 20: all continued and answered with equal bytes, in ≤ 2 and ≤ 3 generations; each after 4 of 100: none answered, all get the error after ≤ 2 leaders per replica, ≤ 4 generations each", Tolerated: []string{ErrorEvent, "http_502"},
			Setup: one, Run: leaderFails,
		},
	}
}

const (
	crashTokens  = 24 // of an answer that is cut at each of its chunks
	rushTokens   = 20
	rush         = 1000 // identical requests at once
	followers    = 6    // on each replica, of an answer under way
	wayThrough   = 5    // chunks after which something happens to an answer under way
	rushKilledAt = 8    // chunks
	carriedOn    = 4    // generations of one leader at most: the first, and three that carry on
)

// leisurely has simulators give about 17 tokens a second: each goes to 1,000 clients, and machines that start
// three gateways and a thousand clients have other things to do.
func leisurely(o *vllmsim.Options) { o.TimeScale = 0.4 }

// identical is a stream of its own prompt.
func identical(prompt string, tokens int) Request {
	return Request{Tenant: Tenants[0], Priority: "normal", Stream: true, Tokens: tokens, Prompt: prompt}
}

// underWay is an answer that one gateway leads, and identical requests at gateways that wait.
type underWay struct {
	request Request
	leader  *Gateway
	at      int    // after how many chunks of the leader's answer strike is called; 0 is before the first
	strike  func() // called once, at the end at the latest
	waiting []*Gateway
	each    int // identical requests at each of those
}

// meet sends the leader's request, has the others follow, and strikes. struck is when that was over.
func (w *Testbed) meet(ctx context.Context, l *Load, u *underWay) (led Outcome, followed []Outcome, struck time.Time, err error) {
	var once sync.Once
	strike := func() {
		once.Do(func() {
			u.strike()
			struck = time.Now()
		})
	}
	before := w.generations()
	first := u.request
	first.OnText = func(chunk int) {
		if chunk == u.at {
			strike()
		}
	}
	var all sync.WaitGroup
	all.Go(func() {
		led = l.Send(u.leader, first)
		if u.at > 0 {
			strike() // an answer of fewer chunks: at its end
		}
	})
	if err = w.waitForGeneration(ctx, before); err == nil {
		all.Go(func() { followed = l.Burst(u.waiting, u.each*len(u.waiting), u.request) })
	}
	if u.at == 0 {
		strike()
	}
	all.Wait()
	return led, followed, struck, err
}

// latest is how long after a moment the last of the requests had its answer.
func latest(all []Outcome, since time.Time) (worst time.Duration) {
	for i := range all {
		worst = max(worst, all[i].At.Add(all[i].Total).Sub(since))
	}
	return worst
}

// others are all gateways but one.
func (w *Testbed) others(g *Gateway) []*Gateway {
	return slices.DeleteFunc(slices.Clone(w.Gateways), func(o *Gateway) bool { return o == g })
}

// crashPoints kills the leader's replica before the first chunk, after each, and after the last.
func crashPoints(ctx context.Context, w *Testbed) error {
	points := []int{0, wayThrough, crashTokens + 1}
	if !w.Short() {
		points = nil
		for n := range crashTokens + 2 {
			points = append(points, n)
		}
	}
	l := w.NewLoad()
	w.Phase(During)
	var maximum int
	var worst time.Duration
	for i, at := range points {
		made, took, err := w.crash(ctx, l, w.Gateways[i%len(w.Gateways)], at)
		if err != nil {
			return fmt.Errorf("crash after chunk %d: %w", at, err)
		}
		maximum, worst = max(maximum, made), max(worst, took)
	}
	w.Note("%d points; all answered %v after the crash at most", len(points), round(worst))
	w.checkMaxGenerations(ctx, "at most", maximum, 2)
	return w.Settled(ctx, patience)
}

// crash kills a leader after so many chunks, and starts it again.
func (w *Testbed) crash(ctx context.Context, l *Load, leader *Gateway, at int) (made int, took time.Duration, err error) {
	r := identical(fmt.Sprintf("Which ships left the harbour after the bell rang %d times?", at), crashTokens)
	survivors := w.others(leader)
	text, generation, err := l.truth(survivors[0], r)
	if err != nil {
		return 0, 0, err
	}
	before := w.generations()
	_, followed, struck, err := w.meet(ctx, l, &underWay{request: r, leader: leader, at: at, strike: leader.Kill, waiting: survivors, each: followers})
	if err != nil {
		return 0, 0, err
	}
	l.KeepAll(followed)
	w.allSay(fmt.Sprintf("killed after chunk %d", at), text, followed)
	took = latest(followed, struck)
	if bound := w.TimerLag.Bound(replacedIn + generation); took > bound {
		w.Fail("killed after chunk %d: the last was answered %v later, promised 2s and a generation of %v", at, round(took), round(generation))
	}
	made = w.generations() - before
	if err := leader.Start(ctx); err != nil {
		return 0, 0, err
	}
	again := l.Burst(w.Gateways, len(w.Gateways), r) // one that has just begun may answer by itself
	l.KeepAll(again)
	w.allSay(fmt.Sprintf("asked again, after the crash after chunk %d", at), text, again)
	return made, took, nil
}

// killedUnderWay kills Redis while an answer is under way that others follow.
func killedUnderWay(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	l := w.NewLoad()
	r := identical("Which lamps burn on the quay at night?", crashTokens)
	text, _, err := l.truth(w.Gateways[0], r)
	if err != nil {
		return err
	}
	err = w.Inject(ctx, 0, func() error {
		before := w.generations()
		led, followed, struck, err := w.meet(ctx, l, &underWay{
			request: r, leader: w.Gateways[0], at: wayThrough, waiting: w.Gateways, each: followers,
			strike: func() { _ = s.Kill() }, // it always can
		})
		if err != nil {
			return err
		}
		followed = append(followed, led)
		l.KeepAll(followed)
		w.allSay("Redis killed under way", text, followed)
		w.Note("%s; answered %v after the kill at most", words(followed), round(latest(followed, struck)))
		w.checkMaxGenerations(ctx, "under way", w.generations()-before, len(w.Gateways))
		w.local(ctx)
		alone := l.Burst(w.Gateways, 2*len(w.Gateways), r)
		l.KeepAll(alone)
		w.allSay("without Redis", text, alone)
		return nil
	}, func() error { return s.Start(ctx) })
	if err != nil {
		return err
	}
	took := w.Until(ctx, backAgain, "answers are kept again", func() bool {
		o := l.Send(w.Gateways[0], r)
		l.Keep(o)
		w.allSay("Redis is back", text, []Outcome{o})
		return o.cached() == wordHit
	})
	w.Note("kept again %v after sharing", round(took))
	return nil
}

// leaseTampered takes the lease and the chunks of answers under way away, or puts something else there.
func leaseTampered(ctx context.Context, w *Testbed) error {
	s := w.Redis.Servers[0]
	l := w.NewLoad()
	w.Phase(During)
	for name, replace := range map[string]func(key string) error{
		"evicted":         func(key string) error { return s.Client.Del(ctx, key).Err() },
		"of another type": func(key string) error { return s.Client.Eval(ctx, mistype, []string{key}).Err() },
	} {
		r := identical("Which boats are "+name+"?", crashTokens)
		text, generation, err := l.truth(w.Gateways[0], r)
		if err != nil {
			return err
		}
		before, hit := w.generations(), 0
		led, followed, struck, err := w.meet(ctx, l, &underWay{
			request: r, leader: w.Gateways[0], at: wayThrough, waiting: w.Gateways, each: followers,
			strike: func() {
				err := eachKey(ctx, s.Client, leadKeys+"*", func(key string) {
					if replace(key) == nil {
						hit++
					}
				})
				if err != nil || hit == 0 {
					w.Fail("%s: %d keys of requests under way: %v", name, hit, err)
				}
			},
		})
		if err != nil {
			return err
		}
		followed = append(followed, led)
		l.KeepAll(followed)
		w.allSay(name, text, followed)
		if took, bound := latest(followed, struck), w.TimerLag.Bound(replacedIn+generation); took > bound {
			w.Fail("%s: answered %v later", name, round(took))
		}
		w.checkMaxGenerations(ctx, name, w.generations()-before, len(w.Gateways))
	}
	return nil
}

// mistype makes a set of whatever a key holds.
const mistype = `redis.call('DEL', KEYS[1]); return redis.call('SADD', KEYS[1], 'x')`

// rushed is what a stampede asks for, and what is true of it.
type rushed struct {
	request    Request
	text       string
	generation time.Duration
}

// stampede sends 1,000 identical requests at once: all is well; the leader's replica is killed; there is no Redis.
func stampede(ctx context.Context, w *Testbed) error {
	l := w.NewLoad()
	w.Phase(During)
	var asked [3]rushed
	var errs [3]error
	var truths sync.WaitGroup
	for i := range asked {
		truths.Go(func() {
			a := &asked[i]
			a.request = identical(fmt.Sprintf("Which tide brings all ships in at once, of %d?", i), rushTokens)
			a.text, a.generation, errs[i] = l.truth(w.Gateways[i], a.request)
		})
	}
	truths.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	w.connect(l)
	w.stampede(ctx, l, "at once", &asked[0], 1)
	if err := w.stampedeKilled(ctx, l, &asked[1]); err != nil {
		return err
	}
	w.connect(l) // to the one that was started again, too
	s := w.Redis.Servers[0]
	return w.Inject(ctx, 0, func() error {
		if err := s.Kill(); err != nil {
			return err
		}
		w.local(ctx)
		w.stampede(ctx, l, "without Redis", &asked[2], len(w.Gateways))
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

// stampedeKilled kills the leader's replica in the middle of an answer that 1,000 wait for.
func (w *Testbed) stampedeKilled(ctx context.Context, l *Load, a *rushed) error {
	const what = "the leader's replica killed"
	leader := w.Gateways[0]
	before := w.generations()
	_, all, struck, err := w.meet(ctx, l, &underWay{
		request: a.request, leader: leader, at: rushKilledAt, strike: leader.Kill, waiting: w.Gateways, each: rush / len(w.Gateways),
	})
	if err != nil {
		return err
	}
	survived := slices.DeleteFunc(all, func(o Outcome) bool { return o.Gateway == leader.Number })
	l.KeepAll(survived)
	w.allSay(what, a.text, survived)
	took := latest(survived, struck)
	w.Note("%d on the others, %v after the kill at most", len(survived), round(took))
	if took > w.TimerLag.Bound(replacedIn+a.generation) {
		w.Fail("%s: answered %v later, promised 2s and a generation of %v", what, round(took), round(a.generation))
	}
	w.checkMaxGenerations(ctx, what, w.generations()-before, 2)
	if err := leader.Start(ctx); err != nil {
		return err
	}
	return w.Settled(ctx, patience)
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
		{"once", vllmsim.Fault{CutAfterBytes: 4000, For: 1}, "Which rope breaks first?", rushTokens, 2, true},
		{"each after 8 of 20 tokens", vllmsim.Fault{ErrorEventAfterTokens: rushKilledAt}, "Which rope breaks each time?", rushTokens, rushTokens/rushKilledAt + 1, true},
		{"each after 4 of 100", vllmsim.Fault{ErrorEventAfterTokens: 4}, "Which rope breaks always?", 100, 2 * carriedOn * len(w.Gateways), false},
	} {
		r := identical(cut.prompt, cut.tokens)
		text, _, err := l.truth(w.Gateways[0], r)
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
