package virtual

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/application"
	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/loadtest"
	"github.com/foregate/foregate/loadtest/quality"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// era is a time in which the draft is one model.
type era struct {
	from  time.Duration
	drift loadtest.Drift
}

// erasOf are the times of a draft pool, in order: the first begins with the run. Of drifts under
// way at once the later one of the scenario counts.
func erasOf(s *loadtest.Scenario, draft *loadtest.Pool) []era {
	at := []time.Duration{0}
	for _, f := range s.Faults {
		if f.Drift != nil {
			at = append(at, f.At)
			if f.For > 0 && f.At+f.For < s.Duration {
				at = append(at, f.At+f.For)
			}
		}
	}
	slices.Sort(at)
	var out []era
	for _, from := range slices.Compact(at) {
		e := era{from, loadtest.Drift{Divergence: draft.Divergence, Blind: draft.Blind}}
		for _, f := range s.Faults {
			if f.Drift != nil && f.At <= from && (f.For == 0 || from < f.At+f.For) {
				e.drift = *f.Drift
			}
		}
		out = append(out, e)
	}
	return out
}

// planDrifts lets the draft pool become another model when its time comes.
func (l *lab) planDrifts() {
	draft := l.pools["draft"]
	if draft == nil {
		return
	}
	l.eras = erasOf(l.scenario, draft.Def)
	for i, e := range l.eras[1:] {
		l.clock.At(e.from, func() {
			l.era = i + 1
			draft.Model = vllmsim.NewDraft(l.seed, e.drift.Divergence, e.drift.Blind)
		})
	}
}

// graded is a draft that was judged to its end, for free.
type graded struct {
	score    float64
	good     bool
	features accept.Features
	of       string // its application
}

// draftSample is what the drafts of a run are like, of each kind of request in each era: its scenario's
// audits of conversations that are spread evenly over it, the same ones in every era.
type draftSample struct {
	kinds map[string][][]graded // by bucket, then by era, the highest score first
	share map[string]float64    // of the requests
}

// sampleDrafts has the requests of some conversations drafted by the draft of each era. The real run is not
// touched: between the turns of a conversation the target answers.
func (l *lab) sampleDrafts() *draftSample {
	var judges []*quality.Judge
	for _, e := range l.eras {
		c, d := *l.spec, *l.spec.Draft
		d.Divergence, d.Blind = e.drift.Divergence, e.drift.Blind
		c.Draft = &d
		judges = append(judges, quality.NewJudge(l.seed, &c))
	}
	all := &draftSample{kinds: map[string][][]graded{}, share: map[string]float64{}}
	fresh := l.freshConversations()
	maximum, taken := min(l.scenario.Audits, len(fresh)), 0.0
	for k := range maximum {
		i := fresh[k*len(fresh)/maximum]
		if l.work.Silent(i) {
			continue
		}
		for s := l.work.Session(i); ; {
			q := s.Request()
			prompt := l.prompts.render(q.Messages)
			if bucket, ok := l.bucketOf(q); ok {
				of := l.applicationOf(q)
				all.add(bucket, judges, func(j *quality.Judge) graded {
					judged, good := j.Track(q, prompt, l.values.Tiers.Accept)
					return graded{float64(judged.Score()), good, judged.Features(), of}
				})
				taken++
			}
			if s.IsLast() {
				break
			}
			s.Answered(decode(l.judge.Answer(q, prompt)))
		}
	}
	all.sort(taken)
	return all
}

// freshConversations are those that the cache cannot answer because an earlier one had the same words; without
// the cache all of them.
func (l *lab) freshConversations() []int {
	var fresh []int
	seen := map[int]bool{}
	for n := 0; ; n++ {
		if _, ok := l.work.Start(n); !ok {
			return fresh
		}
		if words := l.work.Words(n); !l.values.Cache.Enabled || !seen[words] {
			seen[words] = true
			fresh = append(fresh, n)
		}
	}
}

// bucketOf is the kind of a request; ok is false if its draft is not judged.
func (l *lab) bucketOf(q *loadtest.Request) (bucket string, ok bool) {
	f := l.facts(bodyOf(q))
	if !plan.Make(l.values.Tiers, f).Judged {
		return "", false
	}
	return plan.EvidenceKeyOf(l.values.Tiers, f).TrafficClass, true
}

// applicationOf is the application of a request, as the gateway tells them apart.
func (l *lab) applicationOf(q *loadtest.Request) string {
	secret := ""
	if l.values.Cache.IsolatePrefixes {
		secret = q.Tenant
	}
	return application.Of(bodyOf(q), q.Tenant, "", secret)
}

// add adds one request's drafts, one of each era.
func (d *draftSample) add(bucket string, judges []*quality.Judge, audit func(*quality.Judge) graded) {
	if d.kinds[bucket] == nil {
		d.kinds[bucket] = make([][]graded, len(judges))
	}
	for e, judge := range judges {
		d.kinds[bucket][e] = append(d.kinds[bucket][e], audit(judge))
	}
	d.share[bucket]++
}

// sort ends the sample of so many requests.
func (d *draftSample) sort(taken float64) {
	for bucket, of := range d.kinds {
		d.share[bucket] /= taken
		for _, list := range of {
			slices.SortStableFunc(list, func(a, b graded) int { return cmp.Compare(b.score, a.score) })
		}
	}
}

// scoredBy is the sample with the scores of a map.
func (d *draftSample) scoredBy(m *accept.ScoreMap) *draftSample {
	out := &draftSample{kinds: make(map[string][][]graded, len(d.kinds)), share: map[string]float64{}}
	for bucket, of := range d.kinds {
		for _, list := range of {
			scored := slices.Clone(list)
			for i := range scored {
				scored[i].score = float64(m.For(scored[i].of).Score(scored[i].features))
			}
			out.kinds[bucket] = append(out.kinds[bucket], scored)
		}
	}
	out.sort(1)
	return out
}

// risk is the share of wrong ones of the drafts that a threshold accepts, 0 where it accepts none.
func (d *draftSample) risk(bucket string, era int, threshold float64) float64 {
	n, bad := 0, 0
	for _, g := range d.kinds[bucket][era] {
		if g.score < threshold {
			break
		}
		if n++; !g.good {
			bad++
		}
	}
	if n == 0 {
		return 0
	}
	return float64(bad) / float64(n)
}

// accepts is the share of drafts that a threshold accepts.
func (d *draftSample) accepts(bucket string, era int, threshold float64) float64 {
	list := d.kinds[bucket][era]
	n, _ := slices.BinarySearchFunc(list, threshold, func(g graded, t float64) int {
		if g.score >= t {
			return -1
		}
		return 1
	})
	return float64(n) / float64(max(len(list), 1))
}

// loosest is the lowest threshold whose risk is at most eps, and the share of drafts that it
// accepts; above every score where there is none.
func (d *draftSample) loosest(bucket string, era int, eps float64) (threshold, accepts float64) {
	list, bad, best := d.kinds[bucket][era], 0, 0
	for i, g := range list {
		if !g.good {
			bad++
		}
		last := i+1 == len(list) || list[i+1].score < g.score // equal scores are accepted together
		if last && float64(bad) <= eps*float64(i+1) {
			best = i + 1
		}
	}
	if best == 0 {
		return math.Inf(1), 0
	}
	return list[best-1].score, float64(best) / float64(len(list))
}

// buckets are the kinds of request, in order.
func (d *draftSample) buckets() []string {
	var out []string
	for b := range d.kinds {
		out = append(out, b)
	}
	slices.Sort(out)
	return out
}

// base is the share of wrong ones of all drafts of an era, and the chance that a good one has a
// higher score than a wrong one of its kind, both as often as kinds come.
func (d *draftSample) base(era int) (wrong, auroc float64) {
	for _, bucket := range d.buckets() { // in order, so that sums are the same to the digit
		of := d.kinds[bucket]
		bad, won := 0, 0.0
		for i, g := range of[era] {
			if g.good {
				continue
			}
			// Better ones are those before it; equal scores are too rare to matter.
			won += float64(i - bad)
			bad++
		}
		if pairs := float64(bad) * float64(len(of[era])-bad); pairs > 0 {
			auroc += d.share[bucket] * won / pairs
		}
		wrong += d.share[bucket] * float64(bad) / float64(max(len(of[era]), 1))
	}
	return wrong, auroc
}
