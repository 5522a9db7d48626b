package risk

import (
	"math"
	"slices"
	"time"
)

// State is what audits have shown of one kind of request and lot. The zero value knows nothing:
// it collects scores until there is a grid. It is not safe for concurrent use. Replicas that share
// a Redis keep it there, in scripts that do the same (package tiers/evidence).
type State struct {
	Version          int64     // of the grid; 0: there is none yet
	Alarm            int64     // of the evidence
	Grid             Grid      //
	Scores           []float64 // of drafts, until there is a grid
	MaxWrongRate     float64   // that Op was certified for
	ErrorProbability float64
	Op               int     // operating index: 0 accepts nothing
	Epochs           []Epoch // that live, the oldest first, two at most
	Drift            Drift
	Infeasible       bool // nothing can be certified, as it seemed when last there was evidence
	Cold             int  // epochs that were opened since something was certified last
	Outcomes         int  // of audits, and of those imported, since Eps and Delta are what they are, up to maxOutcomes
	Finding          Infeasibility
	Warmup           Warmup

	tickets    map[string]openAudit
	epochCount int64 // epochs so far
}

// Epoch is evidence that is forgotten as a whole.
type Epoch struct {
	ID      int64
	Audits  int           // in it, of any score
	Cert    int           // largest index certified
	Turn    int           // the how manieth it is since something was certified; 1 is the first
	N, K, O [gridSize]int // audits with a score of at least λ_j; of them bad or not closed; of them not closed
}

// Closed are the audits of index j that have an outcome, and how many were bad.
func (e *Epoch) Closed(j int) (n, bad int) {
	if j < 1 || j > gridSize {
		return 0, 0
	}
	return e.N[j-1] - e.O[j-1], e.K[j-1] - e.O[j-1]
}

// openAudit is an audit under way.
type openAudit struct {
	epochs    []int64
	first, hi int
	served    bool
	warmup    bool  // of a draft that the warm-up served: it is in no epoch
	born      int64 // unix seconds
}

const (
	// maxOpen bounds the audits under way in one state.
	maxOpen = 1024
	// openFor is after how many seconds one that was not closed is lost: it stays bad.
	openFor = 900
)

// OpenResult is what became of an audit that was to be booked.
type OpenResult string

// The fates.
const (
	Opened     OpenResult = "booked"
	Learned    OpenResult = "learned" // its score helps to place the grid; no target is asked
	Stale      OpenResult = "stale"   // decided by a grid or before an alarm that is over
	OutOfRange OpenResult = "outside" // its score is below the region
	Full       OpenResult = "full"    // too many are under way
)

// View is what requests go by. What was certified for another ε or δ is not served by: the next
// audit that is opened certifies anew.
func (s *State) View(r Rule) View {
	v := View{Version: s.Version, Alarm: s.Alarm, Warmup: s.Warmup, Cautious: s.cautious()}
	if s.MaxWrongRate == r.MaxWrongRate && s.ErrorProbability == r.ErrorProbability {
		v.Op, v.Infeasible = s.Op, s.Infeasible && s.Op == 0
	}
	v.Hi = min(v.Op+lookAhead, len(s.Grid))
	v.Threshold, v.Floor = s.Grid.At(v.Op), s.Grid.At(v.Hi)
	v.Band = s.Grid.At(bandIndex)
	v.Warned = s.Drift.Level(r.DriftRunLength) >= warnLevel
	return v
}

// cautious is the score that the best third of the drafts reach, as far as scores tell; never while they do not.
func (s *State) cautious() float64 {
	switch {
	case s.Version != 0 && len(s.Grid) < gridSize:
		return s.Grid.At(1) // equal scores were merged: only the strictest is known to accept no more
	case s.Version != 0:
		return s.Grid.At(warmupIndex)
	case len(s.Scores) < warmupScores:
		return never
	}
	sorted := slices.Sorted(slices.Values(s.Scores))
	return sorted[len(sorted)-len(sorted)/3]
}

// bandIndex is the threshold down to which a draft is doubtful instead of bad: it accepts 80 %.
const bandIndex = 17 - gridFrom

// Open books an audit as bad before anybody knows its outcome. ticket names it; now becomes the
// grid's version where this score is the last that it waits for. A score that is not finite is
// outside of every region.
func (s *State) Open(r Rule, d Decision, score float64, ticket string, now time.Time) OpenResult {
	s.begin(r)
	first := s.Grid.First(score)
	switch {
	case math.IsNaN(score) || math.IsInf(score, 0):
		return OutOfRange
	case d.Version != s.Version || d.Alarm != s.Alarm:
		return Stale
	case s.Version == 0:
		s.learn(score, now)
		return Learned
	case first > d.Hi:
		return OutOfRange
	}
	s.forget(now)
	if _, ok := s.tickets[ticket]; ok || len(s.tickets) >= maxOpen {
		return Full
	}
	b := openAudit{first: first, hi: min(d.Hi, len(s.Grid)), served: score >= d.Threshold, born: now.Unix()}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		e.Audits++
		b.epochs = append(b.epochs, e.ID)
		for j := first - 1; j < b.hi; j++ {
			e.N[j]++
			e.K[j]++
			e.O[j]++
		}
	}
	s.addTicket(ticket, b)
	s.rotate(r)
	return Opened
}

// OpenWarmup books the audit of a draft that the warm-up served, or would have served if it were [Warmup.HasOutcomes], as bad
// until its outcome is known. [State.Close] ends it.
func (s *State) OpenWarmup(r Rule, ticket string, now time.Time) OpenResult {
	s.begin(r)
	s.forget(now)
	if _, ok := s.tickets[ticket]; ok || len(s.tickets) >= maxOpen {
		return Full
	}
	if s.Warmup.Open >= maxWarmupOpen {
		s.Warmup.end(WarmupWrong)
		return Full
	}
	s.Warmup.drafted(0, 0, now)
	s.Warmup.Audits++
	s.Warmup.Bad++
	s.Warmup.Open++
	s.addTicket(ticket, openAudit{warmup: true, born: now.Unix()})
	return Opened
}

// Drafted notes requests in the time of the warm-up: how many drafts were made for them, and how many of these were the answer. The
// first begins it.
func (s *State) Drafted(r Rule, drafts, served int, now time.Time) {
	s.begin(r)
	s.Warmup.drafted(drafts, served, now)
}

// addTicket notes an audit under way.
func (s *State) addTicket(ticket string, b openAudit) {
	if s.tickets == nil {
		s.tickets = make(map[string]openAudit)
	}
	s.tickets[ticket] = b
}

// learn takes a score for the grid.
func (s *State) learn(score float64, now time.Time) {
	if s.Scores = append(s.Scores, score); len(s.Scores) < GridScores {
		return
	}
	s.Grid, s.Scores = GridOf(s.Scores), nil
	s.Version = now.UnixMicro()
	s.renew()
}

// forget drops the tickets of audits that were lost.
func (s *State) forget(now time.Time) {
	if len(s.tickets) < maxOpen/2 {
		return
	}
	for id, b := range s.tickets {
		if now.Unix()-b.born > openFor {
			delete(s.tickets, id)
		}
	}
}

// Close ends an audit. It reports whether it was one that is under way: what was closed before,
// what was lost or what is of a time before an alarm changes nothing.
func (s *State) Close(r Rule, ticket string, bad bool) bool {
	s.begin(r)
	b, ok := s.tickets[ticket]
	if !ok {
		return false
	}
	delete(s.tickets, ticket)
	if b.warmup {
		s.Warmup.close(r.MaxWrongRate, r.ErrorProbability, bad)
		return true
	}
	s.Outcomes = min(s.Outcomes+1, maxOutcomes)
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if !slices.Contains(b.epochs, e.ID) {
			continue
		}
		for j := b.first - 1; j < b.hi; j++ {
			e.O[j]--
			if !bad {
				e.K[j]--
			}
		}
	}
	if b.served {
		if s.Drift.Add(bad, r.MaxWrongRate); s.Drift.Level(r.DriftRunLength) >= 1 {
			s.resetAfterDrift()
			return true
		}
	}
	s.certify(r)
	s.checkInfeasible(r)
	return true
}

// begin sees to it that there is an epoch, and that certificates are for the rule.
func (s *State) begin(r Rule) {
	if s.Version != 0 && len(s.Epochs) == 0 {
		s.renew()
	}
	if s.MaxWrongRate == r.MaxWrongRate && s.ErrorProbability == r.ErrorProbability {
		return
	}
	// Counts are of any ε and δ; what was certified, and the watch for drift, are of these.
	s.MaxWrongRate, s.ErrorProbability, s.Drift, s.Infeasible, s.Outcomes = r.MaxWrongRate, r.ErrorProbability, Drift{}, false, 0
	for i := range s.Epochs {
		s.Epochs[i].Cert = 0
	}
	s.certify(r)
}

// renew begins anew with one empty epoch.
func (s *State) renew() {
	s.Epochs = s.Epochs[:0]
	s.epoch()
	s.Op = 0
}

// epoch opens the next one.
func (s *State) epoch() {
	s.epochCount++
	s.Cold = min(s.Cold+1, maxTurn)
	s.Epochs = append(s.Epochs, Epoch{ID: s.epochCount, Turn: s.Cold})
}

// maxTurn bounds Turn.
const maxTurn = 1_000_000

// level is the probability with which an epoch may err. Two live, so each has half of δ. Where one
// after the other ends without a certificate, each is one more chance to err: the i-th has δ/(2i²),
// so that all of them together have π²/6·δ/2 = 0.83 δ, however many there are.
func (e *Epoch) level(delta float64) float64 {
	turn := float64(max(e.Turn, 1))
	return delta / (2 * turn * turn)
}

// resetAfterDrift forgets all that is known but the grid.
func (s *State) resetAfterDrift() {
	s.Alarm++
	s.Drift, s.Infeasible, s.Cold, s.Outcomes = Drift{}, false, 0, 0
	clear(s.tickets)
	s.renew()
}

// rotate ends epochs that are over, and opens the next.
func (s *State) rotate(r Rule) {
	s.Epochs = slices.DeleteFunc(s.Epochs, func(e Epoch) bool { return e.Audits >= r.LeaseAudits })
	if n := len(s.Epochs); n == 0 || s.Epochs[n-1].Audits >= r.LeaseAudits/2 && n < 2 {
		s.epoch()
	}
	s.operate()
}

// certify goes through the grid from the strictest threshold on, as far as the evidence goes and
// no farther than it was looked.
func (s *State) certify(r Rule) {
	for again := true; again; {
		for i := range s.Epochs {
			e := &s.Epochs[i]
			need := math.Log(1 / e.level(r.ErrorProbability))
			for e.Cert < len(s.Grid) && e.Cert < s.Op+lookAhead && LogE(e.N[e.Cert], e.K[e.Cert], r.MaxWrongRate) >= need {
				e.Cert++
			}
		}
		was := s.Op
		s.operate()
		again = s.Op > was
	}
}

// operate sets the operating index to the largest that a living epoch has certified.
func (s *State) operate() {
	s.Op = 0
	for i := range s.Epochs {
		s.Op = max(s.Op, s.Epochs[i].Cert)
	}
	if s.Op > 0 {
		s.Infeasible, s.Cold = false, 0
		s.Warmup.end(WarmupCertified)
	}
}

const (
	// minOutcomes is how many audits must have an outcome since ε and δ are what they are before anything is found
	// infeasible. Counts are of any ε, so without it two audits would do after a change of ε.
	minOutcomes = 30
	// maxOutcomes is how far they are counted.
	maxOutcomes = 1_000_000
)

// Infeasibility is what the audits of the strictest threshold said each time that it was found infeasible, since something was
// certified last. [State.Advise] is made of it.
type Infeasibility struct {
	Audits int // with an outcome; 0: nothing was found yet
	Bad    int // of these
}

// checkInfeasible begins anew where the evidence says that not even the strictest threshold keeps to ε.
// Audits that were not closed count as good here, as they count as bad where something is to be
// certified: else the first outcomes to come, three bad ones, would do.
func (s *State) checkInfeasible(r Rule) {
	if s.Op > 0 || s.Outcomes < minOutcomes {
		return
	}
	for i := range s.Epochs {
		e := &s.Epochs[i]
		if LogUpperE(e.N[0], e.K[0]-e.O[0], r.MaxWrongRate) >= math.Log(2/r.ErrorProbability) {
			n, bad := e.Closed(1)
			if !s.Infeasible {
				s.Finding = Infeasibility{}
			}
			s.Infeasible, s.Finding.Audits, s.Finding.Bad = true, s.Finding.Audits+n, s.Finding.Bad+bad
			s.Warmup.end(WarmupInfeasible)
			s.renew()
			return
		}
	}
}
