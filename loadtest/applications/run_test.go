package applications

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/foregate/foregate/gateway/settings"
	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/audit"
	"github.com/foregate/foregate/tiers/evidence"
	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
	"github.com/foregate/foregate/tiers/refit"
	"github.com/foregate/foregate/tiers/risk"
)

// Law says how often the target stands by the drafts of each application, and how well the draft's score tells within one:
// scores are normal, those of good drafts higher, so that the probability that a good one scores higher than a bad one is AUROC.
type Law struct {
	Name      string
	Agreement []float64 // by application
	Gap       float64   // between the means of good and of bad drafts, in deviations
}

// Draft is a draft that may be audited.
type Draft struct {
	Application int
	Features    accept.Features
	Score       float64 // plain, nats
	Good        bool    // the target stands by it
}

// The laws. Designed is the contract; Measured are thirteen tasks of a real pair, SmolLM2-135M and a perturbed copy, label high.
var (
	Designed = Law{"designed", []float64{.97, .92, .75, .40, .10}, gap70}
	Measured = Law{"measured", []float64{.85, .60, .55, .50, .50, .45, .44, .38, .31, .25, .20, .06, 0}, gap70}
)

// gap70 is √2·Φ⁻¹(.70): normal scores that far apart have an AUROC of .70.
const gap70 = 0.7416

// Run is one run.
type Run struct {
	Law
	Seed      uint64
	Requests  int
	PerSecond float64
	Replicas  int
	ShareOf   func(at time.Duration, app int) float64 // weight of an application in the traffic; nil: all are equal
	Agrees    func(at time.Duration, app int) float64 // in place of the law's; nil: the law's
	NameOf    func(at time.Duration, app int) string  // by which an application is known; nil: its number
	Unknown   bool                                    // applications are not told apart
	Recorded  []Draft                                 // drafts of a real pair in place of the law's: all of them in a random order, then in another one
	Settings  settings.Values
}

// Window is what came of some requests.
type Window struct {
	Requests, Served, Bad int
	Audits                int
	ServedOf, BadOf, Of   []int // by application
}

// Share is the share of the requests whose draft was served.
func (w *Window) Share() float64 { return float64(w.Served) / math.Max(float64(w.Requests), 1) }

// Disagreement is the share of the served drafts that the target would not have stood by.
func (w *Window) Disagreement() float64 { return float64(w.Bad) / math.Max(float64(w.Served), 1) }

// join adds the requests of another window.
func (w *Window) join(o *Window) {
	w.Requests, w.Served, w.Bad, w.Audits = w.Requests+o.Requests, w.Served+o.Served, w.Bad+o.Bad, w.Audits+o.Audits
	for a := range o.Of {
		w.Of[a] += o.Of[a]
		w.ServedOf[a] += o.ServedOf[a]
		w.BadOf[a] += o.BadOf[a]
	}
}

// Result is what came of a run, by windows of so many requests.
type Result struct {
	Every   int
	Windows []Window
	Scores  int // that were put in force
	First   int // requests until one was served by a certificate; 0: none was
	Audits  int // until then
	apps    int
}

// Over joins the windows of the requests from one number to before another.
func (r *Result) Over(from, to int) *Window {
	all := newWindow(r.apps)
	for i := from / r.Every; i < min(to/r.Every, len(r.Windows)); i++ {
		all.join(&r.Windows[i])
	}
	return all
}

func newWindow(apps int) *Window {
	return &Window{ServedOf: make([]int, apps), BadOf: make([]int, apps), Of: make([]int, apps)}
}

const (
	route = "org/chat"
	// tickEvery and roundEvery are how often replicas read the log, and how often the score is looked after.
	tickEvery, roundEvery = time.Second, 30 * time.Second
	// every is how many requests a window has.
	every = 100
	// tenant is whose applications they are.
	tenant = "acme"
)

// run is a run that goes on.
type run struct {
	Run
	rng      *rand.Rand
	now      time.Time
	began    time.Time
	stores   []*evidence.Store
	classes  []*audit.Classes
	refits   *refit.Refitter
	cfg      plan.Config
	body     *openai.Request
	ticket   int
	order    []int // of the recorded drafts that come next
	lastTick time.Time
	lastFit  time.Time
}

// Do runs it.
func (r Run) Do() Result {
	s := &run{Run: r, rng: rand.New(rand.NewPCG(r.Seed, 1)), began: time.Unix(1.8e9, 0), cfg: r.Settings.Tiers}
	s.now, s.body = s.began, &openai.Request{Model: route, Temperature: 1, PromptTokens: 200, MaxTokens: 200}
	if s.cfg.Mode = plan.ModeRisk; len(r.Recorded) > 0 {
		s.body.Temperature = 0
	}
	clock := func() time.Time { return s.now }
	log := &evidence.Memory{Now: clock}
	for range max(r.Replicas, 1) {
		s.stores = append(s.stores, evidence.New(evidence.Options{
			Memory: log, Now: clock, Rule: func(string) risk.Rule { return s.cfg.Risk.Rule },
			Stale: func(string) time.Duration { return time.Minute }, Warmup: func(string) time.Duration { return s.cfg.Risk.WarmupDuration },
		}))
		s.classes = append(s.classes, &audit.Classes{})
	}
	s.refits = refit.New(refit.Options{Book: s.stores[0], Rules: func() map[string]risk.Rule {
		return map[string]risk.Rule{route: s.cfg.Risk.Rule}
	}})
	out := Result{Every: every, apps: len(r.Agreement)}
	for i := range r.Requests {
		if i%every == 0 {
			out.Windows = append(out.Windows, *newWindow(len(r.Agreement)))
		}
		s.now = s.began.Add(time.Duration(float64(i) / r.PerSecond * float64(time.Second)))
		s.look()
		w := &out.Windows[len(out.Windows)-1]
		audits := w.Audits
		certified := s.answer(i%len(s.stores), w)
		if out.First == 0 {
			if out.Audits += w.Audits - audits; certified {
				out.First = i + 1
			}
		}
	}
	out.Scores = s.refits.Progress(route).Live.Version
	return out
}

// look does what replicas do in the background.
func (r *run) look() {
	if r.now.Sub(r.lastTick) >= tickEvery {
		r.lastTick = r.now
		for _, st := range r.stores {
			_ = st.Tick(context.Background()) // the log is in memory
		}
	}
	if r.now.Sub(r.lastFit) >= roundEvery {
		r.lastFit = r.now
		r.refits.Round(context.Background())
		r.cfg.Accept.ScoreMap = r.refits.Score(route)
	}
}

// draw draws a request's application, and its draft.
func (r *run) draw() (d Draft) {
	if n := len(r.Recorded); n > 0 {
		if len(r.order) == 0 {
			r.order = r.rng.Perm(n)
		}
		d, r.order = r.Recorded[r.order[0]], r.order[1:]
		return d
	}
	at, sum := r.now.Sub(r.began), 0.0
	weights := make([]float64, len(r.Agreement))
	for a := range weights {
		if weights[a] = 1; r.ShareOf != nil {
			weights[a] = r.ShareOf(at, a)
		}
		sum += weights[a]
	}
	app := 0
	for x := r.rng.Float64() * sum; app < len(weights)-1 && x >= weights[app]; app++ {
		x -= weights[app]
	}
	p := r.Agreement[app]
	if r.Agrees != nil {
		p = r.Agrees(at, app)
	}
	d.Application, d.Good = app, r.rng.Float64() < p
	if d.Good {
		d.Score = r.Gap
	}
	d.Score += r.rng.NormFloat64()
	d.Features[accept.FeatureMean] = d.Score
	return d
}

// name returns the name by which an application is known now.
func (r *run) name(app int) string {
	switch {
	case r.Unknown:
		return ""
	case r.NameOf != nil:
		return tenant + "/" + r.NameOf(r.now.Sub(r.began), app)
	}
	return tenant + "/" + strconv.Itoa(app)
}

// answer answers one request at a replica. It reports whether a draft was served by a certificate.
func (r *run) answer(replica int, w *Window) (certified bool) {
	of := r.draw()
	app, name := of.Application, r.name(of.Application)
	st, classes := r.stores[replica], r.classes[replica]
	key := plan.EvidenceKeyOf(r.cfg, plan.Facts{Request: r.body, HasDraft: true})
	by := audit.MixKey{Application: name}
	v := plan.Views{Own: classes.Limit(key, st.View(key), by, st.State), PerMinute: 60 * r.PerSecond, Now: r.now}.UnderLoad(&r.cfg.Risk, 0)
	d := plan.Decide(&plan.Inputs{
		Plan: plan.Plan{Tier: plan.Draft, Judged: true, Mode: plan.ModeRisk}, Config: &r.cfg, Request: r.body,
		Key: key, Application: name, Views: &v, All: r.refits.Collects(route), Draw: r.rng.Float64(),
	})
	if !d.IsKeptFromDraft() {
		classes.CountInMix(key, by)
	}
	score := of.Score
	if m := d.Accept.ScoreMap; m != nil {
		score = float64(m.Score(of.Features))
	}
	served := d.Tier == plan.Draft && d.Judged && score >= float64(d.Accept.Threshold)
	w.Requests++
	w.Of[app]++
	if served {
		w.Served++
		w.ServedOf[app]++
		if !of.Good {
			w.Bad++
			w.BadOf[app]++
		}
	}
	if v.IsFirstTime(&r.cfg.Risk) {
		made := 0
		if d.Judged || d.Audit.Shadow {
			made = 1
		}
		st.Drafted(key, made, btoi(served && d.IsWarmup()))
	}
	r.audit(st, &d, judged{of, score, name}, w)
	return served && !d.IsWarmup()
}

// judged is a draft with the score by which it was judged, and the name of its application.
type judged struct {
	Draft
	score float64
	name  string
}

// audit opens and ends the audits of a draft.
func (r *run) audit(st *evidence.Store, d *plan.Decision, of judged, w *Window) {
	own := d.Audit.Own
	if !own.Audited || !d.Judged && !d.Audit.Shadow {
		return
	}
	ctx, asked := context.Background(), 0
	book := func(open func(ticket string) (risk.OpenResult, error)) {
		r.ticket++
		ticket := strconv.Itoa(r.ticket)
		if fate, err := open(ticket); err == nil && fate == risk.Opened {
			asked = 1                                    // once for both
			_ = st.Close(ctx, own.Key, ticket, !of.Good) // the log is in memory
		}
	}
	if own.Version == 0 || of.score >= own.Floor {
		book(func(ticket string) (risk.OpenResult, error) {
			return st.Open(ctx, risk.Audit{
				Decision: own.Of(of.score), Ticket: ticket, Score: of.score, Features: of.Features[:], Tokens: r.body.MaxTokens, Application: of.name,
			})
		})
	}
	if d.IsWarmup() && of.score >= d.Audit.Cautious {
		book(func(ticket string) (risk.OpenResult, error) { return st.OpenWarmup(ctx, own.Key, ticket) })
	}
	w.Audits += asked
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
