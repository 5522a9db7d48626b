package loadtest

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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
)

// tracesFolder names the environment variable that says where traces are, when
// they are not beside the scenario.
const tracesFolder = "LOADTEST_TRACES"

// Load reads a scenario file. A trace's relative path is to the file's folder;
// LOADTEST_TRACES names another folder to look for traces in.
func Load(path string) (*Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("loadtest: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("loadtest: %s: %w", path, err)
	}
	return parseAt(path, data)
}

// locate says where a trace is to be opened.
func locate(path, beside, folder string) string {
	switch {
	case folder != "":
		return filepath.Join(folder, filepath.Base(path))
	case filepath.IsAbs(path):
		return path
	}
	return filepath.Join(beside, path)
}

// Parse reads a scenario; name is the file's, for messages. Its error has a line
// for every mistake: the file and line, the field, and what is allowed there.
// A trace's path stays as it is written.
func Parse(name string, data []byte) (*Scenario, error) {
	sh := &sheet{file: name}
	root, ok := sh.open(data)
	if !ok {
		return nil, sh.err()
	}
	base := filepath.Base(name)
	r := &reading{s: &Scenario{
		Name: strings.TrimSuffix(base, filepath.Ext(base)),
		Kind: Live, Seed: 1, Deadline: 10 * time.Minute, TimeScale: 1,
	}}
	r.scenario(root.fields())
	if err := sh.err(); err != nil {
		return nil, err
	}
	return r.s, nil
}

// reading is a scenario while it is read.
type reading struct {
	s    *Scenario
	base Case
}

func (r *reading) scenario(b *block) {
	s := r.s
	b.at("about").prose(&s.About, 16<<10)
	b.at("kind").choice(&s.Kind, Live, Virtual)
	b.at("seed").seed(&s.Seed)
	duration := b.need("duration", "for how long conversations begin, such as 10m")
	duration.span(&s.Duration, time.Second)
	warmup := b.at("warmup")
	warmup.span(&s.Warmup, 0)
	if warmup.given() && s.Duration > 0 && s.Warmup >= s.Duration {
		warmup.fail("leaves nothing to measure; want less than the duration, %s", tidy(s.Duration))
	}
	b.at("deadline").span(&s.Deadline, time.Second)
	b.at("time_scale").number(&s.TimeScale, 0.1, 1000)
	b.at("audits").whole(&s.Audits, 0, maxAudits)

	r.base = Case{Name: s.Name, Replicas: 1, Load: 1, Settings: map[string]string{}}
	replicas, load := b.at("replicas"), b.at("load") // known fields, in the order of the manual
	arrivals := b.need("arrivals", "closed, rate, poisson, bursts or trace")
	r.arrivals(arrivals.fields())
	r.prompts(b)
	tenants := b.at("tenants")
	r.tenants(tenants)
	r.belongs(arrivals, b.at("prompts"), tenants)

	replicas.whole(&r.base.Replicas, 1, maxReplicas)
	r.load(load, &r.base)
	r.draft(b.at("draft"), &r.base)
	r.target(b.need("target", "the pool that answers, such as {profile: h100-70b-tp4}"), &r.base)
	b.at("settings").settings(r.base.Settings)
	faults := b.at("faults")
	compare := b.at("compare")
	compare.items(32, r.variant)
	if len(s.Cases) == 0 {
		s.Cases = []Case{r.base}
	}
	faults.items(256, r.fault)
	b.done()
}

// belongs notes what is said to be of a tenant that does not exist, and a tenant for
// whom there is nothing to say.
func (r *reading) belongs(arrivals, prompts, tenants spot) {
	s := r.s
	known := func(id string) bool {
		return id == "" || slices.ContainsFunc(s.Tenants, func(t Tenant) bool { return t.ID == id })
	}
	if arrivals.given() && !known(s.Arrivals.Tenant) {
		arrivals.fail("the bursts are of tenant %s, whom tenants do not name", s.Arrivals.Tenant)
	}
	for _, p := range s.Prompts {
		if prompts.given() && !known(p.Tenant) {
			prompts.fail("%s is of tenant %s, whom tenants do not name", p.Name, p.Tenant)
		}
	}
	for _, t := range s.Tenants {
		if tenants.given() && len(s.Prompts) > 0 && slices.Max(s.weights(t.ID)) == 0 {
			tenants.fail("%s has no prompt to send: all are of others, or of weight 0", t.ID)
		}
	}
}

// variant reads one entry of compare.
func (r *reading) variant(_ int, p spot) {
	b := p.fields()
	c := r.base
	c.Settings = maps.Clone(r.base.Settings)
	if c.Draft != nil {
		d := *c.Draft
		c.Draft = &d
	}
	name := b.need("name", "a few words")
	name.oneLine(&c.Name, 64)
	for i, other := range r.s.Cases {
		if name.given() && other.Name == c.Name {
			name.fail("is already that of compare[%d]", i)
			break
		}
	}
	b.at("replicas").whole(&c.Replicas, 1, maxReplicas)
	r.load(b.at("load"), &c)
	only := b.at("only")
	only.id(&c.Only)
	if c.Only != "" && !slices.ContainsFunc(r.s.Tenants, func(t Tenant) bool { return t.ID == c.Only }) {
		only.fail("is no tenant of this scenario")
	}
	r.draft(b.at("draft"), &c)
	r.target(b.at("target"), &c)
	oracle := b.at("oracle")
	oracle.number(&c.Oracle, 0.001, 0.999)
	if oracle.given() && (c.Draft == nil || r.s.Audits == 0 || r.s.Arrivals.Kind == Closed) {
		oracle.fail("needs a draft pool, audits of 1 or more, and arrivals that are not closed")
	}
	b.at("settings").settings(c.Settings)
	b.done()
	r.s.Cases = append(r.s.Cases, c)
}

// load reads how many times the arrivals a case has.
func (r *reading) load(p spot, c *Case) {
	if !p.given() {
		return
	}
	p.number(&c.Load, 0.001, 1000)
	a := r.s.Arrivals
	if x := c.Load * a.PerSecond; x > maxPerSecond {
		p.fail("makes %.0f conversations per second; want at most %d", x, maxPerSecond)
	}
	if x := math.Round(c.Load * float64(max(a.Users, a.Burst))); x > maxUsers {
		p.fail("makes %.0f of %d users or of a burst; want at most %d", x, max(a.Users, a.Burst), maxUsers)
	}
}
