package risk

import (
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
)

// traffic is one stationary population, or two of which the second comes at a change, and by which
// rules its drafts are served and audited.
type traffic struct {
	rule     Rule
	requests int
	first    population // nil: stepped around index wall of the grid that the run places
	second   population // from the middle on; nil: the first stays
	wall     int
	calm     float64 // of the stepped population
	boost    float64 // 0 is 1
	fault    fault
	rival    func(n, k int, r Rule) bool // certifies in place of the e-value; nil: nothing is replaced
	explore  bool                        // the share audited falls to 2 % while nothing seems feasible
	warm     *warming                    // nil: no warm-up
	pace     int                         // requests a second; 0 is perSecond
}

// fault is what happens to audits and replicas.
type fault struct {
	skip     float64 // share of the bad drafts that are not audited, because of what is in them: their clients leave
	lose     float64 // share of the bad audits whose outcome is never known
	late     int     // audits that begin until the outcome of a bad one is known; a good one is at once
	slow     int     // requests that come until the outcome of a bad one is known; of a good one a tenth
	naive    bool    // audits are booked when their outcome is known, not when they begin
	replicas int     // that look at the state every perSecond requests; 0: requests see every change at once
	death    int     // requests after which a replica dies on average, and its open audits with it
	failover int     // requests between two failovers that lose the last few opens and closes
}

// perSecond is how many requests come in a second.
const perSecond = 20

// result is what came of a run.
type result struct {
	violated            bool // a threshold with a risk above ε was in force at some time
	wrongTime           int  // requests while one was
	wrongEpochs         int  // epochs that certified one
	accepted, bad       [4]float64
	length              int // requests
	audits, toFirst     int // all; until the first certificate, 0: never
	firstAt             int // request of the first certificate
	epochs              int64
	alarms, falseAlarms int // before the change; of them at a risk of ε or less
	alarmAt             int // request of the first alarm from the change on, counted from there; -1: none
	above               int // last request at a risk above ε after the change, counted from there; 0: none
	excess              float64
	top                 float64 // highest ln M of the watch before the change, at a risk of ε or less
	hopeless            bool    // at the end
	warmed                      // what the warm-up served
}

// run is one replay.
type run struct {
	traffic
	rng    *rand.Rand
	state  *State
	now    population
	eyes   []eye
	due    []due
	saved  *State // what Redis goes back to
	saveAt int    // audits until it is saved; then until the failover
	begun  int    // audits
	judged int64  // the last epoch that certified wrongly
	result
}

// eye is one replica: what it knows, and what that means.
type eye struct {
	view          View
	rate          float64
	accepted, bad float64 // shares of its drafts
}

// due is an audit under way.
type due struct {
	at, replica int // request from which on its outcome is known
	after       int // audits that must have begun by then
	ticket      string
	decision    Decision
	score       float64
	bad         bool
	warm        bool // the warm-up served it
}

// replay runs traffic once.
func (tr traffic) replay(seed, number uint64) result {
	r := run{traffic: tr, rng: rand.New(rand.NewPCG(seed, number)), state: new(State), now: tr.first, saveAt: -1}
	r.eyes = make([]eye, max(tr.fault.replicas, 1))
	r.length, r.alarmAt = tr.requests, -1
	if r.now == nil {
		r.now = stepped{wall: 0, before: 0} // scores alone matter until the grid is placed
	}
	for i := range r.eyes {
		r.look(&r.eyes[i])
	}
	for at := range tr.requests {
		if tr.second != nil && at == tr.requests/2 {
			r.now = tr.second
			r.lookAll()
		}
		r.request(at)
	}
	r.epochs, r.hopeless, r.ended = r.state.EpochCount, r.state.Infeasible, r.state.Warmup.Ended
	return r.result
}

// request is one request: it is counted as what the threshold in force does on average.
func (r *run) request(at int) {
	r.happen(at)
	who := 0
	if r.fault.replicas > 0 {
		if who = r.rng.IntN(len(r.eyes)); at%r.perSecond() == 0 {
			r.look(&r.eyes[at/r.perSecond()%len(r.eyes)])
		}
	}
	e := &r.eyes[who]
	if r.warms(e, at) {
		r.warmUp(due{at: at, replica: who, ticket: strconv.Itoa(at)})
		return
	}
	r.tally(e, at)
	random := r.rng.Float64()
	if random >= e.rate {
		return
	}
	d := e.view.Decide(Key{}, Sampling{Rate: e.rate}, random)
	score, bad := r.now.draw(r.rng)
	if score < d.Floor {
		return
	}
	r.audit(due{at: at, replica: who, ticket: strconv.Itoa(at), decision: d, score: score, bad: bad})
}

// tally adds up what the threshold of a replica does.
func (r *run) tally(e *eye, at int) {
	q := at * 4 / r.requests
	r.accepted[q] += e.accepted
	r.bad[q] += e.bad
	if e.bad <= r.rule.MaxDisagreement*e.accepted*(1+1e-9) {
		return
	}
	if r.second == nil || at < r.requests/2 {
		r.violated = true
		r.wrongTime++
		return
	}
	r.above = at - r.requests/2
	r.excess += e.bad - r.rule.MaxDisagreement*e.accepted
}

// audit begins one, and ends it if nothing keeps it.
func (r *run) audit(a due) {
	if r.fault.skip > 0 && a.bad && r.rng.Float64() < r.fault.skip {
		return
	}
	r.begun++
	lost := a.bad && r.rng.Float64() < r.fault.lose
	if lost && r.fault.naive || !r.fault.naive && !r.open(a) && !a.warm || lost {
		return
	}
	late := r.fault.slow / 10
	if a.bad {
		late, a.after = r.fault.slow, r.begun+r.fault.late
	}
	if a.at += late; late > 0 || a.after > r.begun {
		r.due = append(r.due, a)
		return
	}
	r.settle(a)
}

// settle is when the outcome is known: then it is closed, or booked in the naive way.
func (r *run) settle(a due) {
	if !r.fault.naive || r.open(a) {
		r.end(a)
	}
}

func (r *run) open(a due) bool {
	before := r.state.Version
	fate := r.state.Open(r.rule, &Audit{Decision: a.decision, Score: a.score, Ticket: a.ticket}, r.clock(a.at))
	if r.state.Version != before && r.first == nil {
		r.now = steppedAt(r.state.Grid, r.wall, r.calm, 1.01*r.rule.MaxDisagreement)
	}
	if fate == Opened {
		r.audits++
	}
	r.changed()
	return fate == Opened
}

func (r *run) end(a due) {
	alarm, risky := r.state.Alarm, r.eyes[a.replica].bad > r.rule.MaxDisagreement*r.eyes[a.replica].accepted
	r.state.Close(r.rule, a.ticket, a.bad)
	if a.warm {
		r.state.Close(r.rule, a.ticket+"w", a.bad)
	}
	if r.rival != nil {
		r.state.certifyBy(r.rule, r.rival)
	}
	r.judge()
	if r.state.Alarm != alarm {
		r.alarmed(a.at, risky)
	}
	if r.toFirst == 0 && r.state.Op > 0 {
		r.toFirst, r.firstAt = r.audits, a.at
	}
	if !risky && (r.second == nil || a.at < r.requests/2) {
		for _, m := range r.state.Drift {
			r.top = max(r.top, m)
		}
	}
	r.changed()
}

// judge counts the epochs that have certified what they should not.
func (r *run) judge() {
	for i := range r.state.Epochs {
		e := &r.state.Epochs[i]
		if e.ID <= r.judged || e.Cert == 0 || r.second != nil {
			continue
		}
		if a, bad := r.now.tail(r.state.Grid.At(e.Cert)); bad > r.rule.MaxDisagreement*a*(1+1e-9) {
			r.wrongEpochs, r.judged = r.wrongEpochs+1, e.ID
		}
	}
}

func (r *run) alarmed(at int, risky bool) {
	switch {
	case r.second != nil && at >= r.requests/2:
		if r.alarmAt < 0 {
			r.alarmAt = at - r.requests/2
		}
	case risky:
		r.alarms++
	default:
		r.alarms++
		r.falseAlarms++
	}
}

// changed lets requests see it, where they see every change.
func (r *run) changed() {
	r.failing()
	if r.fault.replicas == 0 {
		r.lookAll()
	}
}

func (r *run) lookAll() {
	for i := range r.eyes {
		r.look(&r.eyes[i])
	}
}

// look takes the state's view.
func (r *run) look(e *eye) {
	v := r.state.View(r.rule)
	if v.Version != e.view.Version || v.Op != e.view.Op || v.Version == 0 || r.second != nil {
		e.accepted, e.bad = 0, 0
		if v.Op > 0 {
			e.accepted, e.bad = r.now.tail(v.Threshold)
		}
	}
	e.view = v
	rates := Rates{Audit: .05, ColdStart: .5, ColdStartPerMinute: 1e9, Boost: max(r.boost, 1), Explore: .5}
	if r.explore {
		rates.Explore = .02
	}
	e.rate = rates.AuditRate(v, perSecond*60)
}

// happen is what comes with time: outcomes, deaths, failovers.
func (r *run) happen(at int) {
	if f := r.fault; f.death > 0 && r.rng.IntN(f.death) == 0 {
		dead := r.rng.IntN(len(r.eyes))
		r.due = slices.DeleteFunc(r.due, func(a due) bool { return a.replica == dead })
	}
	if f := r.fault; f.failover > 0 && at%f.failover == f.failover-1 && r.saveAt < 0 {
		r.saved, r.saveAt = copyOf(r.state), 1+r.rng.IntN(12)
	}
	if at%8 != 0 || len(r.due) == 0 { // to look more often shows nothing more
		return
	}
	var ready []due
	r.due = slices.DeleteFunc(r.due, func(a due) bool {
		is := a.at <= at && a.after <= r.begun
		if is {
			ready = append(ready, a)
		}
		return is
	})
	for _, a := range ready {
		r.settle(a)
	}
}

// failing counts the opens and closes that a failover will lose, and lets it happen.
func (r *run) failing() {
	if r.saveAt < 0 {
		return
	}
	if r.saveAt--; r.saveAt < 0 {
		r.state = r.saved
	}
}

// copyOf is what a snapshot of a state holds.
func copyOf(s *State) *State {
	c := *s
	c.Grid, c.Scores, c.Epochs = slices.Clone(s.Grid), slices.Clone(s.Scores), slices.Clone(s.Epochs)
	c.Tickets = maps.Clone(s.Tickets)
	return &c
}

// certifyBy certifies as [State.certify] does, by another test of the same counts.
func (s *State) certifyBy(r Rule, test func(n, k int, r Rule) bool) {
	for i := range s.Epochs {
		e := &s.Epochs[i]
		for j := len(s.Grid); j > e.Cert; j-- {
			if test(e.N[j-1], e.K[j-1], r) {
				e.Cert = j
			}
		}
	}
	s.operate()
}

// replays runs traffic many times, each with numbers of its own that follow from the seed.
func (tr traffic) replays(seed uint64, runs int) []result {
	all := make([]result, runs)
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < runs; i += workers {
				all[i] = tr.replay(seed, uint64(i))
			}
		})
	}
	wg.Wait()
	return all
}
