package risk

import (
	"maps"
	"math"
	"slices"
	"time"
)

// State is the evidence for one traffic class. The zero value is empty: it collects scores until there are
// enough for a grid. It is not safe for concurrent use. Every replica has its own, and all make the same changes in the same
// order, which is that of a log (package tiers/evidence). It is stored as JSON.
type State struct {
	Version          int64     // of the grid; 0: no grid yet
	Alarm            int64     // number of drift alarms
	Grid             Grid      //
	Scores           []float64 // of drafts, before the grid
	MaxDisagreement  float64   // ε for which Op is certified
	ErrorProbability float64
	Op               int     // operating index: 0 accepts nothing
	Epochs           []Epoch // living epochs, the oldest first, at most two
	Drift            Drift
	Infeasible       bool // by the latest evidence no threshold can be certified
	Cold             int  // epochs that began since the last certificate
	Outcomes         int  // audit outcomes since ε and δ were set, imports included, at most maxOutcomes
	Warmup           Warmup
	Traffic          Sketch               // whose audits come most often
	Restarts         map[string]time.Time `json:",omitempty"` // of applications that drifted: when their evidence began anew

	Tickets    map[string]OpenAudit
	EpochCount int64     // all epochs so far
	Used       time.Time // last entry about it
}

// Copy returns a copy that shares nothing with the state that changes, without the open audits.
func (s *State) Copy() State {
	c := *s
	c.Grid, c.Scores, c.Epochs, c.Tickets = slices.Clone(s.Grid), slices.Clone(s.Scores), slices.Clone(s.Epochs), nil
	c.Traffic, c.Restarts = s.Traffic.Clone(), maps.Clone(s.Restarts)
	for i := range c.Epochs {
		c.Epochs[i].Strata.Counts = slices.Clone(c.Epochs[i].Strata.Counts)
	}
	return c
}

// Epoch is evidence that expires as a whole.
type Epoch struct {
	ID     int64
	Audits int // with any score
	Cert   int // largest index certified, whether stricter ones are or not
	Turn   int // number of the epoch since the last certificate, from 1
	Tally
	Strata Strata  // the same by application; without names: all audits are of one
	Served float64 // share of the drafts that Cert served when it was certified, where there are strata
}

// Tally counts audits by index j.
type Tally struct {
	N, K, O [gridSize]int // audits with a score of at least λ_j; of these bad or open; of these open
}

// open counts an audit that begins, for the indices from first to hi.
func (t *Tally) open(first, hi int) {
	for j := first - 1; j < hi; j++ {
		t.N[j]++
		t.K[j]++
		t.O[j]++
	}
}

// close takes the outcome of one that was opened.
func (t *Tally) close(first, hi int, bad bool) {
	for j := first - 1; j < hi; j++ {
		t.O[j]--
		if !bad {
			t.K[j]--
		}
	}
}

// isWhole reports whether counts that were stored can be.
func (t *Tally) isWhole() bool {
	for j := range t.N {
		if t.O[j] < 0 || t.K[j] < t.O[j] || t.N[j] < t.K[j] {
			return false
		}
	}
	return true
}

// refuted reports whether the risk of the strictest threshold is above eps. Open audits count as good.
func (t *Tally) refuted(eps, delta float64) bool {
	return LogUpperE(t.N[0], t.K[0]-t.O[0], eps) >= math.Log(2/delta)
}

// open counts an audit that begins. It stands for weight drafts.
func (e *Epoch) open(b *OpenAudit, weight float64) {
	if e.ages(b.First) {
		e.Audits++
	}
	e.Tally.open(b.First, b.Hi)
	if len(e.Strata.Names) > 0 {
		b.Weight = weight
		e.Strata.of(b.Of).open(b)
	}
}

// close takes the outcome of one that was opened.
func (e *Epoch) close(b *OpenAudit, bad bool) {
	e.Tally.close(b.First, b.Hi, bad)
	if len(e.Strata.Names) > 0 {
		e.Strata.of(b.Of).close(b, bad)
	}
}

// isWhole reports whether an epoch that was stored, of a grid of so many thresholds, is one that can go on.
func (e *Epoch) isWhole(thresholds int) bool {
	return e.Cert >= 0 && e.Cert <= thresholds && e.Tally.isWhole() && e.Strata.isWhole()
}

// Closed returns the audits of index j with an outcome, and how many were bad.
func (e *Epoch) Closed(j int) (n, bad int) {
	if j < 1 || j > gridSize {
		return 0, 0
	}
	return e.N[j-1] - e.O[j-1], e.K[j-1] - e.O[j-1]
}

// OpenAudit is an audit without an outcome.
type OpenAudit struct {
	Epochs    []int64 `json:",omitempty"` // that count it
	First, Hi int     // the indices that it counts for
	Served    bool
	Of        string  `json:",omitempty"` // its application
	Weight    float64 `json:",omitempty"` // drafts that it stands for, where applications are told apart
	Warmup    bool    // of a draft served by the warm-up: it is in no epoch
	Born      int64   // unix seconds
}

const (
	// maxOpen bounds the open audits of one state.
	maxOpen = 1024
	// openFor is the age in seconds after which an open audit is lost; it stays bad.
	openFor = 900
)

// OpenResult is the result of [State.Open].
type OpenResult string

// The results.
const (
	Opened     OpenResult = "booked"
	Learned    OpenResult = "learned" // its score helps to place the grid; the target is not asked
	Stale      OpenResult = "stale"   // it was decided by an older grid, or before an alarm
	OutOfRange OpenResult = "outside" // its score is below the audited range
	Full       OpenResult = "full"    // too many audits are open
)

// View returns what requests need. A certificate for another ε or δ does not count; the next audit that is opened
// certifies anew.
func (s *State) View(r Rule) View {
	v := View{Version: s.Version, Alarm: s.Alarm, Warmup: s.Warmup, Cautious: s.cautious(), CautiousHi: s.cautiousIndex()}
	if s.MaxDisagreement == r.MaxDisagreement && s.ErrorProbability == r.ErrorProbability {
		v.Op, v.Infeasible = s.Op, s.Infeasible && s.Op == 0
	}
	v.Hi = min(lookTo(v.Op), len(s.Grid))
	v.Threshold, v.Floor = s.Grid.At(v.Op), s.Grid.At(v.Hi)
	if v.Share, v.Mixed = AcceptanceShare(v.Op), s.isMixed(); v.Mixed && v.Serves() {
		v.Share = s.servedOfMix()
	}
	v.Sure = s.Grid.At(v.Op - doubtfulSteps)
	v.Warned = s.Drift.Level(r.DriftRunLength) >= warnLevel
	return v
}

// StaleView is [State.View] of a state that is too old for its certificates to count.
func (s *State) StaleView(r Rule) View {
	old := *s
	old.Op = 0
	return old.View(r)
}

// cautious returns the score that the best third of the drafts reach; Unreachable if too few scores are known.
func (s *State) cautious() float64 {
	switch {
	case s.Version != 0:
		return s.Grid.At(s.cautiousIndex())
	case len(s.Scores) < warmupScores:
		return Unreachable
	}
	sorted := slices.Sorted(slices.Values(s.Scores))
	return sorted[len(sorted)-len(sorted)/3]
}

// cautiousIndex returns the index of that score; 0 before there is a grid.
func (s *State) cautiousIndex() int {
	switch {
	case s.Version == 0:
		return 0
	case len(s.Grid) < gridSize:
		return 1 // equal scores were merged: only the strictest threshold is sure to accept no more
	}
	return warmupIndex
}

// doubtfulSteps is the number of certified thresholds, from the loosest, whose drafts are doubtful. They hold a tenth of all
// drafts: those with the highest risk among the ones that are served.
const doubtfulSteps = 2

// Open stores an audit as bad until its outcome is known. If its score is the last one needed for the grid, now becomes the
// grid's version.
func (s *State) Open(r Rule, a *Audit, now time.Time) OpenResult {
	d, score, ticket := &a.Decision, a.Score, a.Ticket
	s.begin(r)
	first := s.Grid.First(score)
	switch {
	case d.Version != s.Version || d.Alarm != s.Alarm:
		return Stale
	case s.Version == 0:
		s.Traffic.Add(a.Application)
		s.learn(score, now)
		return Learned
	case first > d.Hi && d.Floor > -Unreachable: // a full-range audit below every threshold counts in the log: it was a draft
		return OutOfRange
	case !s.reserve(ticket, now):
		return Full
	}
	s.Traffic.Add(a.Application)
	b := OpenAudit{First: first, Hi: min(d.Hi, len(s.Grid)), Served: score >= d.Threshold, Of: a.Application, Born: now.Unix()}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		b.Epochs = append(b.Epochs, e.ID)
		e.open(&b, 1/d.Chance)
	}
	s.Tickets[ticket] = b
	s.rotate(r)
	return Opened
}

// reserve makes room for an open audit. It reports false if too many are open, or this one is.
func (s *State) reserve(ticket string, now time.Time) bool {
	if len(s.Tickets) >= maxOpen/2 { // those of lost audits go
		maps.DeleteFunc(s.Tickets, func(_ string, b OpenAudit) bool { return now.Unix()-b.Born > openFor })
	}
	if s.Tickets == nil {
		s.Tickets = make(map[string]OpenAudit)
	}
	_, isOpen := s.Tickets[ticket]
	return !isOpen && len(s.Tickets) < maxOpen
}

// OpenWarmup stores the audit of a draft that the warm-up served, or would have served if it were [Warmup.HasOutcomes],
// as bad until its outcome is known. [State.Close] ends it.
func (s *State) OpenWarmup(r Rule, ticket string, now time.Time) OpenResult {
	s.begin(r)
	if !s.reserve(ticket, now) {
		return Full
	}
	if s.Warmup.Open >= maxWarmupOpen {
		s.Warmup.end(WarmupDisagreement)
		return Full
	}
	s.Warmup.drafted(0, 0, now)
	s.Warmup.Audits++
	s.Warmup.Bad++
	s.Warmup.Open++
	s.Tickets[ticket] = OpenAudit{Warmup: true, Born: now.Unix()}
	return Opened
}

// Drafted counts drafts that were made during the warm-up, and those that were served. The first call starts the
// warm-up.
func (s *State) Drafted(r Rule, drafts, served int, now time.Time) {
	s.begin(r)
	s.Warmup.drafted(drafts, served, now)
}

// learn adds a score for the grid.
func (s *State) learn(score float64, now time.Time) {
	if s.Scores = append(s.Scores, score); len(s.Scores) < GridScores {
		return
	}
	s.Grid, s.Scores = GridOf(s.Scores), nil
	s.Version = now.UnixMicro()
	s.renew()
}

// Close stores the outcome of an audit. It reports whether the audit was open; one that was closed or lost, or that is
// from before an alarm, changes nothing.
func (s *State) Close(r Rule, ticket string, bad bool) bool {
	s.begin(r)
	b, ok := s.Tickets[ticket]
	if !ok {
		return false
	}
	delete(s.Tickets, ticket)
	if b.Warmup {
		s.Warmup.close(r.MaxDisagreement, r.ErrorProbability, bad)
		return true
	}
	s.Outcomes = min(s.Outcomes+1, maxOutcomes)
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if !slices.Contains(b.Epochs, e.ID) {
			continue
		}
		e.close(&b, bad)
	}
	if !s.drifted(r, &b, bad) && b.Served {
		if s.Drift.Add(bad, r.MaxDisagreement); s.Drift.Level(r.DriftRunLength) >= 1 {
			s.resetAfterDrift()
			return true
		}
	}
	if !s.isMixed() || s.Outcomes%mixedEvery == 0 {
		s.certify(r)
	}
	s.checkInfeasible(r)
	return true
}

// begin makes sure that there is an epoch and that certificates are for the rule.
func (s *State) begin(r Rule) {
	if s.Version != 0 && len(s.Epochs) == 0 {
		s.renew()
	}
	if s.MaxDisagreement == r.MaxDisagreement && s.ErrorProbability == r.ErrorProbability {
		return
	}
	// The counts hold for any ε and δ; certificates and the drift watch hold for these only.
	s.MaxDisagreement, s.ErrorProbability, s.Drift, s.Infeasible, s.Outcomes = r.MaxDisagreement, r.ErrorProbability, Drift{}, false, 0
	for i := range s.Epochs {
		s.Epochs[i].Cert, s.Epochs[i].Served = 0, 0
	}
	s.certify(r)
}

// renew starts again with one empty epoch.
func (s *State) renew() {
	s.Epochs = s.Epochs[:0]
	s.epoch()
	s.Op = 0
}

// epoch opens the next epoch.
func (s *State) epoch() {
	s.EpochCount++
	s.Cold = min(s.Cold+1, maxTurn)
	s.Epochs = append(s.Epochs, Epoch{ID: s.EpochCount, Turn: s.Cold, Strata: strataOf(s.Traffic.largest())})
}

// maxTurn bounds Turn.
const maxTurn = 1_000_000

// level returns the error probability of an epoch. Two epochs live at a time, so each has half of δ. Each epoch without
// a certificate is one more chance to err, so the i-th in a row has δ/(2i²), and the first is the one that lives when the
// last certificate expires: all together have π²/6·δ/2 = 0.83 δ at most.
func (e *Epoch) level(delta float64) float64 {
	turn := float64(max(e.Turn, 1))
	return delta / (2 * turn * turn)
}

// resetAfterDrift drops all evidence except the grid.
func (s *State) resetAfterDrift() {
	s.Alarm++
	s.Drift, s.Infeasible, s.Cold, s.Outcomes = Drift{}, false, 0, 0
	clear(s.Tickets)
	s.renew()
}

// rotate ends expired epochs and opens the next one.
func (s *State) rotate(r Rule) {
	s.Epochs = slices.DeleteFunc(s.Epochs, func(e Epoch) bool { return e.Audits >= r.LeaseAudits })
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1].Audits >= r.LeaseAudits/2 && n < 2 {
		s.epoch()
	}
	s.operate()
}

// certify finds the loosest threshold that the evidence of each epoch certifies.
func (s *State) certify(r Rule) {
	for i := range s.Epochs {
		e := &s.Epochs[i]
		need := e.evidenceNeeded(r.ErrorProbability)
		if len(e.Strata.Names) > 0 {
			e.certify(r, need)
			continue
		}
		for j := len(s.Grid); j > e.Cert; j-- {
			n, k := e.N[j-1], e.K[j-1]
			if float64(k) < r.MaxDisagreement*float64(n) && LogE(n, k, r.MaxDisagreement) >= need { // of a larger share all bets lose
				e.Cert = j
				break
			}
		}
	}
	s.operate()
}

// evidenceNeeded returns ln of the e-value that certifies a threshold. Each of the thresholds has an equal part of the
// epoch's level, so that any of them may be certified without the others, and ε may be chosen by looking at the evidence.
func (e *Epoch) evidenceNeeded(delta float64) float64 { return math.Log(gridSize / e.level(delta)) }

// operate sets the operating index to the largest one that a living epoch has certified. The epochs that are younger than
// those with a certificate are the first ones of the next time without.
func (s *State) operate() {
	s.Op = 0
	for i := range s.Epochs {
		s.Op = max(s.Op, s.Epochs[i].Cert)
	}
	if s.Op > 0 {
		s.Infeasible, s.Cold = false, 0
		for i := range s.Epochs {
			e := &s.Epochs[i]
			if e.Cert > 0 {
				s.Cold = 0
				continue
			}
			s.Cold++
			e.Turn = s.Cold
		}
		s.Warmup.end(WarmupCertified)
	}
}

const (
	// minOutcomes is the least number of outcomes since ε and δ were set before infeasibility is declared. Counts hold
	// for any ε, so without it two audits would do after a change of ε.
	minOutcomes = 30
	// maxOutcomes is where the count of outcomes stops.
	maxOutcomes = 1_000_000
)

// checkInfeasible starts new evidence if even the strictest threshold does not keep to ε. Open audits count as good
// here, as they count as bad for certificates: otherwise the first three outcomes, if bad, would do.
func (s *State) checkInfeasible(r Rule) {
	if s.Op > 0 || s.Outcomes < minOutcomes {
		return
	}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if e.isHopeless(r) {
			s.Infeasible = true
			s.Warmup.end(WarmupInfeasible)
			s.renew()
			return
		}
	}
}
