package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/foregate/foregate/internal/words"
	"github.com/foregate/foregate/internal/yamlfile"
)

// Bounds of a scenario that hold for more than one field: what one machine can still make and hold.
const (
	maxUsers     = 10_000
	maxPerSecond = 10_000
	maxTokens    = 200_000 // of one piece of text, and of an answer
	maxTurns     = 100
	maxVariants  = 100_000
	maxSeconds   = 86_400    // of a pause
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
	file, root, ok := yamlfile.Open(yamlfile.Options{Name: name, Needs: "duration, arrivals, prompts and target", MaxBytes: maxFile, Forms: forms}, data)
	if !ok {
		return nil, file.Err()
	}
	base := filepath.Base(name)
	s := &Scenario{Name: strings.TrimSuffix(base, filepath.Ext(base))}
	r := &reading{file: file, s: s, base: Case{Name: s.Name, Settings: Settings{}}}
	whole := struct {
		*Scenario `yaml:",inline"`
		*Case     `yaml:",inline" without:"name,only,warmup,oracle,router"`
		Compare   yamlfile.Value `yaml:"compare"`
	}{Scenario: s, Case: &r.base}
	root.Into(&whole)
	r.base.name()
	items(whole.Compare, 32, r.variant)
	if len(s.Cases) == 0 {
		s.Cases = []Case{r.base}
	}
	if len(s.Tenants) == 0 {
		s.Tenants = []Tenant{{ID: "default", Weight: 1, Priority: map[string]float64{"normal": 1}}}
	}
	r.check()
	if err := file.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// reading is a scenario while it is read.
type reading struct {
	file *yamlfile.File
	s    *Scenario
	base Case
}

// variant reads one entry of compare: a case that is laid over the scenario's.
func (r *reading) variant(v yamlfile.Value) {
	c := r.base
	c.Name, c.Settings = "", maps.Clone(r.base.Settings)
	if c.Draft != nil {
		d := *c.Draft
		c.Draft = &d
	}
	v.Into(&c)
	c.name()
	r.s.Cases = append(r.s.Cases, c)
}

// name gives the pools of a case their usual models.
func (c *Case) name() {
	c.Target.Model = cmp.Or(c.Target.Model, "target")
	if c.Draft != nil {
		c.Draft.Model = cmp.Or(c.Draft.Model, "draft")
	}
}

// forms are the forms of texts.
var forms = map[string]yamlfile.Form{
	"word": func(s string) (string, error) {
		if !words.IsName(s, 64, "._:-") {
			return "", errors.New("want 1 … 64 of A-Z a-z 0-9 . _ : -")
		}
		return s, nil
	},
	"line": prose(64), "prose": prose(16 << 10),
}

// prose is a text for people.
func prose(most int) yamlfile.Form {
	return func(s string) (string, error) {
		s = strings.TrimSpace(s)
		if s == "" || len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			return "", fmt.Errorf("want 1 … %d bytes, without control characters", most)
		}
		return s, nil
	}
}

// fail notes a mistake of a field, if the file gives it or what is around it.
func (r *reading) fail(wrong bool, path, format string, args ...any) {
	if wrong && r.file.Sound(path) {
		r.file.Fail(path, format, args...)
	}
}

// check notes what contradicts something else.
func (r *reading) check() {
	s := r.s
	r.tenants()
	for i := range s.Prompts {
		r.prompt(fmt.Sprintf("prompts[%d]", i), &s.Prompts[i])
	}
	a := s.Arrivals
	r.fail(a.Kind == Day && a.PerSecond == 0, "arrivals.day", "want high: the rate per second at its busiest")
	r.fail(a.Kind == Day && a.Lowest > a.PerSecond, "arrivals.day.low", "is above high; want at most %v", a.PerSecond)
	r.fail(s.Ramp != Ramp{} && a.Kind != Poisson && a.Kind != Bursts, "ramp", "is for arrivals of poisson or bursts, not of %s", a.Kind)
	r.fail(s.Ramp != Ramp{} && s.Ramp.Until <= s.Ramp.From, "ramp.until", "is not after from, %s", yamlfile.Short(s.Ramp.From))
	r.warmup("warmup", s.Warmup)
	r.system("", &r.base)
	for i := range s.Cases {
		if r.file.Has("compare") {
			r.system(fmt.Sprintf("compare[%d].", i), &s.Cases[i])
			r.variantsOf(i)
		}
	}
	for i := range s.Faults {
		r.fault(fmt.Sprintf("faults[%d]", i), &s.Faults[i])
	}
	spans(r, "changes", s.Changes, func(c Change) (at, lasts time.Duration) { return c.At, c.For })
	spans(r, "redis_away", s.Outages, func(o Outage) (at, lasts time.Duration) { return o.At, o.For })
}

// tenants checks who the load is of: each is there once, and has something to send.
func (r *reading) tenants() {
	s := r.s
	twice(r, "tenants", "id", s.Tenants, func(t Tenant) string { return t.ID })
	twice(r, "prompts", "name", s.Prompts, func(p Prompt) string { return p.Name })
	r.fail(total(s.Prompts, func(p Prompt) float64 { return p.Weight }) == 0, "prompts", noWeight)
	r.fail(total(s.Tenants, func(t Tenant) float64 { return t.Weight }) == 0, "tenants", noWeight)
	r.fail(!r.known(s.Arrivals.Tenant), "arrivals", "the bursts are of tenant %s, whom tenants do not name", s.Arrivals.Tenant)
	for i, p := range s.Prompts {
		r.fail(!r.known(p.Tenant), fmt.Sprintf("prompts[%d].tenant", i), "is no tenant of this scenario")
	}
	for i, t := range s.Tenants {
		at := fmt.Sprintf("tenants[%d]", i)
		if r.file.Has(at) && t.Priority == nil {
			s.Tenants[i].Priority = map[string]float64{"normal": 1}
		} else if r.file.Has(at) {
			r.fail(total(slices.Collect(maps.Values(t.Priority)), func(w float64) float64 { return w }) == 0, at+".priority", noWeight)
		}
		r.fail(len(s.Prompts) > 0 && slices.Max(s.weights(t.ID)) == 0, "tenants", "%s has no prompt to send: all are of others, or of weight 0", t.ID)
	}
}

const noWeight = "no weight is above 0; want at least one"

func (r *reading) known(tenant string) bool {
	return tenant == "" || slices.ContainsFunc(r.s.Tenants, func(t Tenant) bool { return t.ID == tenant })
}

func total[T any](list []T, of func(T) float64) (sum float64) {
	for _, x := range list {
		sum += of(x)
	}
	return sum
}

// twice notes a name that an entry before has, too.
func twice[T any](r *reading, list, field string, all []T, name func(T) string) {
	for i, x := range all {
		if first := slices.IndexFunc(all, func(o T) bool { return name(o) == name(x) }); first < i && name(x) != "" {
			r.file.Fail(fmt.Sprintf("%s[%d].%s", list, i, field), "is already that of %s[%d]", list, first)
		}
	}
}

// prompt checks one kind of conversation.
func (r *reading) prompt(at string, p *Prompt) {
	for name, sh := range map[string]Shared{".system": p.System, ".context": p.Context} {
		r.fail(sh.PerUser && r.s.Arrivals.Kind != Closed, at+name+".per_user", "needs users; want arrivals.closed, or false")
		r.fail(sh.PerUser && sh.Variants > 0, at+name+".variants", "contradicts per_user; want one of them")
		r.fail(sh.Zipf > 0 && sh.Variants == 0, at+name+".zipf", "needs variants to choose from; want variants of 1 or more")
	}
	if r.file.Has(at + ".catalogue") {
		r.fail(p.Repeat > 0, at+".catalogue", "contradicts repeat; want one of them")
		r.fail(p.System.PerUser || p.Context.PerUser, at+".catalogue", "is the same for all users of a tenant, and contradicts per_user; want one of them")
	}
}

// warmup checks how long nothing is counted.
func (r *reading) warmup(at string, d time.Duration) {
	r.fail(r.s.Duration > 0 && d >= r.s.Duration && d > 0, at, "leaves nothing to measure; want less than the duration, %s", yamlfile.Short(r.s.Duration))
}

// system checks what a case has of its own, or the scenario; its fields are at a path.
func (r *reading) system(at string, c *Case) {
	a := r.s.Arrivals
	if x := c.Load * a.PerSecond; r.file.Has(at + "load") {
		r.fail(x > maxPerSecond, at+"load", "makes %.0f conversations per second; want at most %d", x, maxPerSecond)
		n := max(a.Users, a.Burst)
		r.fail(math.Round(c.Load*float64(n)) > maxUsers, at+"load", "makes %.0f of %d users or of a burst; want at most %d", c.Load*float64(n), n, maxUsers)
	}
	for name, p := range map[string]*Pool{"draft": c.Draft, "target": &c.Target} {
		r.fail(p != nil && p.Profile == "" && r.file.Has(at+name), at+name+".profile", "missing; want a profile of the simulator, such as a10g-8b")
	}
}

// variantsOf checks what only an entry of compare has.
func (r *reading) variantsOf(i int) {
	at, c := fmt.Sprintf("compare[%d].", i), &r.s.Cases[i]
	if i == 0 {
		twice(r, "compare", "name", r.s.Cases, func(c Case) string { return c.Name })
	}
	r.warmup(at+"warmup", c.Warmup)
	r.fail(!r.known(c.Only), at+"only", "is no tenant of this scenario")
	r.fail(c.Oracle > 0 && (c.Draft == nil || r.s.Audits == 0 || r.s.Arrivals.Kind == Closed), at+"oracle", "needs a draft pool, audits of 1 or more, and arrivals that are not closed")
	r.fail(c.Router > 0 && (c.Draft == nil || c.Oracle > 0), at+"router", "needs a draft pool, and no oracle")
}

// fault checks what goes wrong against every case. A drift is of a draft pool as a whole; cases without one have no use for it.
func (r *reading) fault(at string, f *Fault) {
	r.begins(at, f.At)
	r.fail(f.Die == (f.Drift != nil), at, "want exactly one of die: true and drift")
	if f.Pool == "" || !r.file.Has(at+".backend") {
		return
	}
	if f.Drift != nil {
		r.fail(f.Pool != "draft" || f.Backend >= 0, at+".pool", "a drift is of the draft pool and of all its backends; want pool: draft, backend: all")
		r.fail(!slices.ContainsFunc(r.s.Cases, func(c Case) bool { return c.Draft != nil }), at+".pool", "there is no draft pool in any case")
		return
	}
	for _, c := range r.s.Cases {
		n := c.Target.Count
		if f.Pool == "draft" {
			if n = 0; c.Draft != nil {
				n = c.Draft.Count
			}
		}
		r.fail(n == 0, at+".pool", "there is no %s pool in case %q; want a pool that every case has", f.Pool, c.Name)
		r.fail(n > 0 && f.Backend >= n, at+".backend", "the %s pool has %d backends in case %q; want 0 … %d, or all", f.Pool, n, c.Name, n-1)
	}
}

// begins checks when something begins.
func (r *reading) begins(at string, begin time.Duration) {
	r.fail(r.s.Duration > 0 && begin >= r.s.Duration, at+".at", "is after the last arrival; want less than the duration, %s", yamlfile.Short(r.s.Duration))
}

// spans checks what comes one after the other.
func spans[T any](r *reading, list string, all []T, of func(T) (at, lasts time.Duration)) {
	for i, x := range all {
		path := fmt.Sprintf("%s[%d]", list, i)
		begin, _ := of(x)
		r.begins(path, begin)
		if i > 0 {
			at, lasts := of(all[i-1])
			r.fail(lasts == 0 || begin < at+lasts, path+".at", "is before the end of %s[%d]", list, i-1)
		}
	}
}

// ReadYAML reads when conversations begin.
func (a *Arrivals) ReadYAML(v yamlfile.Value, _ reflect.StructTag) {
	b := v.Fields()
	kind, ok := one(b, Closed, Rate, Poisson, Bursts, Day)
	b.Done()
	if a.Kind = kind; !ok {
		return
	}
	switch p := b.At(kind); kind {
	case Rate, Poisson:
		p.Leaf(&a.PerSecond, `min:"0.001" max:"10000"`)
	case Closed:
		p.Into(&struct {
			Users *int    `yaml:"users" need:"want how many take turns" min:"1" max:"10000"`
			Think *Spread `yaml:"think" min:"0" max:"86400"`
		}{&a.Users, &a.Think})
	case Bursts:
		p.Into(&struct {
			PerSecond *float64 `yaml:"per_second" min:"0" max:"10000"`
			*Batch    `yaml:",inline"`
		}{&a.PerSecond, &a.Batch})
	case Day:
		p.Into(&struct {
			Low    *float64       `yaml:"low" need:"want the rate per second at its quietest" min:"0" max:"10000"`
			High   *float64       `yaml:"high" min:"0" max:"10000"`
			Length *time.Duration `yaml:"length" default:"24h" min:"1s" max:"24h"`
			Bursts *Batch         `yaml:"bursts"`
		}{&a.Lowest, &a.PerSecond, &a.Length, &a.Batch})
	}
}

// one returns which of the names is given, when exactly one must be.
func one(b *yamlfile.Fields, names ...string) (name string, ok bool) {
	for _, n := range names {
		v := b.At(n)
		switch {
		case !v.IsSet():
		case ok:
			v.Fail("contradicts %s; want exactly one of %s", name, strings.Join(names, ", "))
		default:
			name, ok = n, true
		}
	}
	if !ok && b.Opened() {
		b.Fail("says nothing; want exactly one of %s", strings.Join(names, ", "))
	}
	return name, ok
}

// ReadYAML reads the weights that are given.
func (w *Weights) ReadYAML(v yamlfile.Value, _ reflect.StructTag) {
	b := v.Fields()
	*w = Weights{}
	for _, name := range []string{"high", "normal", "low"} {
		if x := 0.0; b.At(name).IsSet() {
			b.At(name).Leaf(&x, `min:"0" max:"1000000"`)
			(*w)[name] = x
		}
	}
	b.Done()
}

// ReadYAML reads a number, or the fields of a [Spread], all within the bounds of its tag.
func (s *Spread) ReadYAML(v yamlfile.Value, tag reflect.StructTag) {
	if v.IsScalar() {
		v.Leaf(&s.Fixed, tag)
		return
	}
	b := v.Fields()
	for name, to := range map[string]*float64{"min": &s.Min, "max": &s.Max, "p50": &s.P50, "p95": &s.P95} {
		b.At(name).Leaf(to, tag)
	}
	b.Done()
	given := func(name string) bool { return b.At(name).IsSet() }
	switch {
	case !b.Opened():
	case given("p50") != given("p95"):
		v.Fail("a lognormal needs both p50 and p95")
	case !given("p50") && (!given("min") || !given("max")):
		v.Fail("want a number, {min, max} or {p50, p95}")
	case given("max") && s.Max < s.Min, given("p50") && (s.P50 <= 0 || s.P95 < s.P50 || s.Min > s.P50 || given("max") && s.Max < s.P50):
		v.Fail("want min ≤ max, and of a lognormal min ≤ p50 ≤ p95, p50 ≤ max and p50 above 0")
	}
}

// ReadYAML lays text over the settings, each value as it is written.
func (s *Settings) ReadYAML(v yamlfile.Value, _ reflect.StructTag) {
	if *s == nil {
		*s = Settings{}
	}
	b := v.Fields()
	for _, name := range b.Names() {
		text, ok := b.At(name).Scalar("a value", yamlfile.KindText, yamlfile.KindNumber, yamlfile.KindTruth)
		if ok && len(text) > 4096 {
			b.At(name).Fail("want at most 4096 bytes")
		} else if ok {
			(*s)[name] = text
		}
	}
}

// items reads the members of a list of 1 … most.
func items(v yamlfile.Value, most int, each func(item yamlfile.Value)) {
	all := v.Items()
	if n := len(all); v.IsList() && (n == 0 || n > most) {
		v.Fail("has %d entries; want 1 … %d", n, most)
		return
	}
	for _, item := range all {
		each(item)
	}
}
