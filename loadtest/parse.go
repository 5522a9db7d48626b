package loadtest

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/yamlfile"
)

// Bounds of a scenario: what one machine can still make and hold.
const (
	maxReplicas  = 16
	maxBackends  = 64
	maxUsers     = 10_000
	maxPerSecond = 10_000
	maxTokens    = 200_000 // of one piece of text, and of an answer
	maxTurns     = 100
	maxVariants  = 100_000
	maxRepeat    = 0.95 // so that what a repeat goes back to is near
	maxDuration  = 24 * time.Hour
	maxSeconds   = 86_400 // of a pause
	maxAudits    = 10_000
	maxFile      = 256 << 10 // bytes of a scenario file
)

// Load reads a scenario file.
func Load(path string) (*Scenario, error) {
	data, err := yamlfile.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a scenario; name is the file's, for messages. Its error has a line
// for every mistake: the file and line, the field, and what is allowed there.
func Parse(name string, data []byte) (*Scenario, error) {
	file, root, ok := yamlfile.Open(yamlfile.Options{Name: name, Needs: "duration, arrivals, prompts and target", MaxBytes: maxFile}, data)
	if !ok {
		return nil, file.Err()
	}
	base := filepath.Base(name)
	r := &reading{s: &Scenario{
		Name: strings.TrimSuffix(base, filepath.Ext(base)),
		Kind: Live, Seed: 1, Deadline: 10 * time.Minute, TimeScale: 1,
	}}
	r.scenario(root.Fields())
	if err := file.Err(); err != nil {
		return nil, err
	}
	return r.s, nil
}

// reading is a scenario while it is read.
type reading struct {
	s    *Scenario
	base Case
}

func (r *reading) scenario(b *yamlfile.Fields) {
	s := r.s
	readProse(b.At("about"), &s.About, 16<<10)
	b.At("kind").Choice(&s.Kind, Live, Virtual)
	readSeed(b.At("seed"), &s.Seed)
	duration := b.Need("duration", "for how long conversations begin, such as 10m")
	duration.Duration(&s.Duration, time.Second, maxDuration)
	r.warmup(b.At("warmup"), &s.Warmup)
	b.At("deadline").Duration(&s.Deadline, time.Second, maxDuration)
	b.At("time_scale").Number(&s.TimeScale, 0.1, 1000)
	b.At("audits").Whole(&s.Audits, 0, maxAudits)
	b.At("totals").Bool(&s.Totals)

	r.base = Case{Name: s.Name, Replicas: 1, Load: 1, Settings: map[string]string{}}
	replicas, load := b.At("replicas"), b.At("load") // known fields, in the order of the manual
	arrivals := b.Need("arrivals", "closed, rate, poisson, bursts or day")
	r.arrivals(arrivals.Fields())
	r.ramp(b.At("ramp"))
	r.prompts(b)
	tenants := b.At("tenants")
	r.tenants(tenants)
	r.belongs(arrivals, b.At("prompts"), tenants)

	replicas.Whole(&r.base.Replicas, 1, maxReplicas)
	r.load(load, &r.base)
	r.draft(b.At("draft"), &r.base)
	r.target(b.Need("target", "the pool that answers, such as {profile: h100-70b-tp4}"), &r.base)
	readSettings(b.At("settings"), r.base.Settings)
	faults := b.At("faults")
	compare := b.At("compare")
	readItems(compare, 32, r.variant)
	if len(s.Cases) == 0 {
		s.Cases = []Case{r.base}
	}
	readItems(faults, 256, r.fault)
	readItems(b.At("changes"), 64, r.change)
	readItems(b.At("redis_away"), 64, r.outage)
	b.Done()
}

// belongs notes what is said to be of a tenant that does not exist, and a tenant for
// whom there is nothing to say.
func (r *reading) belongs(arrivals, prompts, tenants yamlfile.Value) {
	s := r.s
	known := func(id string) bool {
		return id == "" || slices.ContainsFunc(s.Tenants, func(t Tenant) bool { return t.ID == id })
	}
	if arrivals.IsSet() && !known(s.Arrivals.Tenant) {
		arrivals.Fail("the bursts are of tenant %s, whom tenants do not name", s.Arrivals.Tenant)
	}
	for _, p := range s.Prompts {
		if prompts.IsSet() && !known(p.Tenant) {
			prompts.Fail("%s is of tenant %s, whom tenants do not name", p.Name, p.Tenant)
		}
	}
	for _, t := range s.Tenants {
		if tenants.IsSet() && len(s.Prompts) > 0 && slices.Max(s.weights(t.ID)) == 0 {
			tenants.Fail("%s has no prompt to send: all are of others, or of weight 0", t.ID)
		}
	}
}

// variant reads one entry of compare.
func (r *reading) variant(p yamlfile.Value) {
	b := p.Fields()
	c := r.base
	c.Settings = maps.Clone(r.base.Settings)
	if c.Draft != nil {
		d := *c.Draft
		c.Draft = &d
	}
	name := b.Need("name", "a few words")
	readLine(name, &c.Name, 64)
	readOwn(name, "compare", r.s.Cases, func(o Case) bool { return name.IsSet() && o.Name == c.Name })
	b.At("replicas").Whole(&c.Replicas, 1, maxReplicas)
	r.load(b.At("load"), &c)
	r.warmup(b.At("warmup"), &c.Warmup)
	only := b.At("only")
	readID(only, &c.Only)
	if c.Only != "" && !slices.ContainsFunc(r.s.Tenants, func(t Tenant) bool { return t.ID == c.Only }) {
		only.Fail("is no tenant of this scenario")
	}
	r.draft(b.At("draft"), &c)
	r.target(b.At("target"), &c)
	oracle := b.At("oracle")
	oracle.Number(&c.Oracle, 0.001, 0.999)
	if oracle.IsSet() && (c.Draft == nil || r.s.Audits == 0 || r.s.Arrivals.Kind == Closed) {
		oracle.Fail("needs a draft pool, audits of 1 or more, and arrivals that are not closed")
	}
	router := b.At("router")
	router.Number(&c.Router, 0.001, 0.999)
	if router.IsSet() && (c.Draft == nil || c.Oracle > 0) {
		router.Fail("needs a draft pool, and no oracle")
	}
	readSettings(b.At("settings"), c.Settings)
	b.Done()
	r.s.Cases = append(r.s.Cases, c)
}

// warmup reads how long nothing is counted.
func (r *reading) warmup(p yamlfile.Value, to *time.Duration) {
	p.Duration(to, 0, maxDuration)
	if p.IsSet() && r.s.Duration > 0 && *to >= r.s.Duration {
		p.Fail("leaves nothing to measure; want less than the duration, %s", yamlfile.Short(r.s.Duration))
	}
}

// ramp reads when the load rises.
func (r *reading) ramp(p yamlfile.Value) {
	if !p.IsSet() {
		return
	}
	if a := r.s.Arrivals.Kind; a != "" && a != Poisson && a != Bursts {
		p.Fail("is for arrivals of poisson or bursts, not of %s", a)
	}
	b, ramp := p.Fields(), &r.s.Ramp
	b.At("from").Duration(&ramp.From, 0, maxDuration)
	until := b.Need("until", "a duration from the start")
	until.Duration(&ramp.Until, 0, maxDuration)
	if until.IsSet() && ramp.Until <= ramp.From {
		until.Fail("is not after from, %s", yamlfile.Short(ramp.From))
	}
	b.Done()
}

// load reads how many times the arrivals a case has.
func (r *reading) load(p yamlfile.Value, c *Case) {
	if !p.IsSet() {
		return
	}
	p.Number(&c.Load, 0.001, 1000)
	a := r.s.Arrivals
	if x := c.Load * a.PerSecond; x > maxPerSecond {
		p.Fail("makes %.0f conversations per second; want at most %d", x, maxPerSecond)
	}
	if x := math.Round(c.Load * float64(max(a.Users, a.Burst))); x > maxUsers {
		p.Fail("makes %.0f of %d users or of a burst; want at most %d", x, max(a.Users, a.Burst), maxUsers)
	}
}
