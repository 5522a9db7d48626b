package loadtest

import "time"

// Scenario is a whole measurement. [Parse] makes it; every field is filled and
// checked then. Tags of fields are explained at yamlfile.Value.Into.
type Scenario struct {
	Name  string // of the file, without .yaml
	About string `yaml:"about" form:"prose"` // what it shows, and where its numbers come from

	Kind      string        `yaml:"kind" default:"live" choice:"live,virtual"`                                             // of run unless the command says: Live (default) or Virtual, for long ones
	Seed      uint64        `yaml:"seed" default:"1"`                                                                      // default 1
	Duration  time.Duration `yaml:"duration" need:"want for how long conversations begin, such as 10m" min:"1s" max:"24h"` // arrivals end then; what is under way is finished
	Warmup    time.Duration `yaml:"warmup" min:"0s" max:"24h"`                                                             // what arrives before is sent, but not counted
	Ramp      Ramp          `yaml:"ramp"`                                                                                  // of cases with a load above 1; default none
	Deadline  time.Duration `yaml:"deadline" default:"10m" min:"1s" max:"24h"`                                             // a client's patience with one request; default 10 min
	TimeScale float64       `yaml:"time_scale" default:"1" min:"0.1" max:"1000"`                                           // live runs: how many times faster than the profiles; default 1
	Totals    bool          `yaml:"totals"`                                                                                // rows have the columns of all answers and all of the rent
	Audits    int           `yaml:"audits" min:"0" max:"10000"`                                                            // virtual runs: drafts of each case that are judged to their end, for free, and of each time between drifts; default 0

	Arrivals Arrivals `yaml:"arrivals" need:"want closed, rate, poisson, bursts or day"`
	Prompts  []Prompt `yaml:"prompts" need:"want a list of kinds of conversations" max:"64"` // the mix, by weight
	Tenants  []Tenant `yaml:"tenants" max:"1000"`                                            // the mix, by weight; default one of normal priority
	Given    []Given  `json:",omitempty"`                                                    // requests of a trace, in the order of their times, instead of those that are drawn; Prompts has one kind, whose form they have
	Cases    []Case   // what is compared, at least one; each becomes a row
	Faults   []Fault  `yaml:"faults" max:"256"`
	Changes  []Change `yaml:"changes" max:"64"`    // virtual runs: settings that are set live
	Outages  []Outage `yaml:"redis_away" max:"64"` // virtual runs: of Redis

	Enough func(Outcome) bool `json:"-"` // virtual runs: is told each outcome, and reports whether the run may end; nil is never
}

// Change sets settings in the middle of a run, as an operator does. Then they are what they were.
type Change struct {
	At       time.Duration `yaml:"at" need:"want a duration from the start" min:"0s" max:"24h"`
	For      time.Duration `yaml:"for" min:"0s" max:"24h"` // 0: until the end
	Settings Settings      `yaml:"settings" need:"want names and values, as in settings of the scenario"`
}

// Outage is a time in which no replica reaches Redis.
type Outage struct {
	At  time.Duration `yaml:"at" need:"want a duration from the start" min:"0s" max:"24h"`
	For time.Duration `yaml:"for" need:"want a duration" min:"1ns" max:"24h"`
}

// Ramp is when a load above 1 rises: it is 1 before From, and rises evenly until Until. The zero value is none.
type Ramp struct {
	From  time.Duration `yaml:"from" min:"0s" max:"24h"`
	Until time.Duration `yaml:"until" need:"want a duration from the start" min:"1ns" max:"24h"`
}

// Case is one row's system under test: the scenario's, with the case's own
// changes laid over it.
type Case struct {
	Name   string        `yaml:"name" need:"want a few words" form:"line"`
	Only   string        `yaml:"only" form:"word"`               // the tenant who alone sends; "" is all
	Warmup time.Duration `yaml:"warmup" min:"0s" max:"24h"`      // instead of the scenario's; 0 is the scenario's
	Oracle float64       `yaml:"oracle" min:"0.001" max:"0.999"` // virtual runs: its thresholds are those that free audits find to keep the wrong share below this; 0 is none
	Router float64       `yaml:"router" min:"0.001" max:"0.999"` // virtual runs: clients demand the draft for this share of the requests, by chance, and the target for the others; 0 is none

	Replicas int      `yaml:"replicas" default:"1" min:"1" max:"16"`                                     // of the gateway; default 1
	Load     float64  `yaml:"load" default:"1" min:"0.001" max:"1000"`                                   // times the scenario's arrivals; default 1
	Draft    *Pool    `yaml:"draft"`                                                                     // nil: the route has no draft pool
	Target   Pool     `yaml:"target" need:"want the pool that answers, such as {profile: h100-70b-tp4}"` //
	Settings Settings `yaml:"settings"`                                                                  // live settings of the gateway, as an operator would set them
}

// Settings are live settings by name, each value as it is written.
type Settings map[string]string

// In returns the scenario as the case has it.
func (c *Case) In(s *Scenario) *Scenario {
	own := *s
	if c.Warmup > 0 {
		own.Warmup = c.Warmup
	}
	return &own
}

// Pool is a set of like backends.
type Pool struct {
	Model      string  `yaml:"model" form:"word"`                  // default "draft" or "target"
	Profile    string  `yaml:"profile" form:"word"`                // speeds and sizes of the simulator; unknown ones are the run's to refuse
	Count      int     `yaml:"count" default:"1" min:"1" max:"64"` // backends; default 1
	USDPerHour float64 `yaml:"usd_per_hour" min:"0" max:"100000"`  // of one backend

	Divergence float64 `yaml:"divergence" min:"0" max:"1"` // of the language from the target's
	Blind      float64 `yaml:"blind" min:"0" max:"1"`      // how little its confidence says of its errors

	Blocks           int           `yaml:"blocks" min:"0" max:"1048576"`                 // instead of the profile's; 0 is the profile's
	MaxSeqs          int           `yaml:"max_seqs" min:"0" max:"65536"`                 // as above
	MaxBatchedTokens int           `yaml:"max_batched_tokens" min:"0" max:"1048576"`     // as above
	Policy           string        `yaml:"policy" default:"fcfs" choice:"fcfs,priority"` // scheduling; default fcfs
	OOM              bool          `yaml:"oom"`                                          // an overfull cache kills the engine
	Restart          time.Duration `yaml:"restart" default:"1m" min:"1s" max:"24h"`      // until it is back; default 60 s
}

// The kinds of [Arrivals].
const (
	Closed  = "closed"  // Users, each sending its next request after the answer and a pause
	Rate    = "rate"    // PerSecond, evenly spaced
	Poisson = "poisson" // PerSecond on average, independent
	Bursts  = "bursts"  // Poisson, and Burst more at once every Every
	Day     = "day"     // Poisson, with a rate that rises and falls as days do
)

// Arrivals say when conversations begin. All but Closed are open loops: nobody
// waits for the system to be ready for them.
type Arrivals struct {
	Kind      string
	Users     int           // closed
	Think     Spread        // closed: seconds between an answer and the user's next conversation
	PerSecond float64       // rate, poisson, bursts; the highest of a day
	Lowest    float64       // day: the rate per second at its quietest
	Length    time.Duration // day: how long it is; default 24h
	Batch                   // bursts; of a day, too, unless Burst is 0: as many at its busiest, fewer as the rate is lower
}

// Batch is what comes at once.
type Batch struct {
	Burst  int           `yaml:"burst" need:"want how many come at once" min:"1" max:"10000"`
	Every  time.Duration `yaml:"every" need:"want a duration such as 30s" min:"100ms" max:"24h"`
	Tenant string        `yaml:"tenant" form:"word"` // whose they are; "" is everybody's
}

// Weights are weights of priorities by name.
type Weights map[string]float64

// Prompt is one kind of conversation in the mix.
type Prompt struct {
	Name        string    `yaml:"name" need:"want a word" form:"word"`
	Tenant      string    `yaml:"tenant" form:"word"` // whose alone it is; "" is everybody's
	Weight      float64   `yaml:"weight" default:"1" min:"0" max:"1000000"`
	System      Shared    `yaml:"system"`                                                                                                   // system prompt
	Context     Shared    `yaml:"context"`                                                                                                  // retrieved documents, in the system message after the system prompt; its digest goes into X-RAG-Hash
	Question    Spread    `yaml:"question" need:"want tokens of each user message, such as 40 or {p50: 30, p95: 120}" min:"1" max:"200000"` //
	Turns       Spread    `yaml:"turns" min:"1" max:"100"`                                                                                  // user messages of a conversation, at least 1
	Think       Spread    `yaml:"think" min:"0" max:"86400"`                                                                                // seconds between an answer and the next turn
	Repeat      float64   `yaml:"repeat" min:"0" max:"0.95"`                                                                                // share of conversations that repeat an earlier one's words exactly
	Catalogue   Catalogue `yaml:"catalogue"`
	Output      Spread    `yaml:"output" min:"0" max:"200000"`     // tokens of the answer, forced (ignore_eos); zero: the model ends by itself
	MaxTokens   int       `yaml:"max_tokens" min:"0" max:"200000"` // limit of an answer; 0 is none
	Temperature float64   `yaml:"temperature" min:"0" max:"2"`
	Stream      bool      `yaml:"stream" default:"true"` // default true
}

// Shared is text that several conversations begin with.
type Shared struct {
	Tokens   Spread  `yaml:"tokens" need:"want a number, {min, max} or {p50, p95}" min:"0" max:"200000"`
	Variants int     `yaml:"variants" min:"0" max:"100000"` // how many there are; 0: each conversation has its own
	Zipf     float64 `yaml:"zipf" min:"0" max:"10"`         // exponent of their popularity; 0: all alike
	PerUser  bool    `yaml:"per_user"`                      // closed arrivals: each user has one of his own
}

// Catalogue is what the conversations of one kind say again and again: each tenant has
// a number of its own of them, which begin as the others of the kind do.
type Catalogue struct {
	Share float64 `yaml:"share" need:"want of the conversations, 0 … 1" min:"0" max:"1"`       // that are in it, word for word; 0 is none
	Size  int     `yaml:"size" need:"want how many of them a tenant has" min:"1" max:"100000"` //
	Zipf  float64 `yaml:"zipf" min:"0" max:"10"`                                               // exponent of their popularity; 0: all alike
}

// Spread is a law of numbers: fixed, uniform, or lognormal through two of its
// quantiles. The zero value is always 0.
type Spread struct {
	Fixed    float64 // every value, when nothing else is set
	Min, Max float64 // uniform when P50 is 0, otherwise bounds of the lognormal (0 is none)
	P50, P95 float64 // of a lognormal
}

// Tenant is one customer's share of the load.
type Tenant struct {
	ID       string  `yaml:"id" need:"want a word" form:"word"`
	Weight   float64 `yaml:"weight" default:"1" min:"0" max:"1000000"`
	Priority Weights `yaml:"priority"` // weights; default normal alone
}

// Fault is what goes wrong with backends at a time of the run. One of the kinds
// is set.
type Fault struct {
	At      time.Duration `yaml:"at" need:"want a duration from the start" min:"0s" max:"24h"`
	For     time.Duration `yaml:"for" min:"0s" max:"24h"` // 0: until the end, except of Die
	Pool    string        `yaml:"pool" need:"want draft or target" choice:"draft,target"`
	Backend int           `yaml:"backend" need:"want a number from 0, or all" min:"0" max:"63" word:"all=-1"` // its number from 0; −1 is all

	Die   bool   `yaml:"die"`   // the process ends; it is back after For, or the pool's Restart
	Drift *Drift `yaml:"drift"` // virtual runs: the draft becomes another model; nil is none
}

// Drift is what a draft pool's language becomes: see [Pool].
type Drift struct {
	Divergence float64 `yaml:"divergence" need:"want a number of 0 … 1, of the language from the target's" min:"0" max:"1"`
	Blind      float64 `yaml:"blind" min:"0" max:"1"`
}
