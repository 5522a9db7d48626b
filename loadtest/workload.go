package loadtest

import (
	"errors"
	"math"
	"slices"
	"time"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Request is one request of the load.
type Request struct {
	Session, Turn    int
	Prompt           string // name of its kind
	Tenant, Priority string
	RAGHash          string // "" is none
	Messages         []Message
	MaxTokens        int  // 0 is no limit
	IgnoreEOS        bool // the answer is exactly MaxTokens long
	Temperature      float64
	Stream           bool
}

// Workload is the load of one case: conversation i is the same in every run of
// it, whenever and by whomever it is asked for. It is safe for concurrent use;
// a [Session] is not.
type Workload struct {
	s     *Scenario
	seed  draw
	users int    // closed; otherwise 0
	only  string // the tenant who alone sends, "" is all
	load  float64

	pacer      *pacer
	kinds      []kind
	mixes      []odds // of each tenant, over kinds
	tenants    []Tenant
	customers  odds   // of tenants
	rushing    int    // the tenant whose the bursts are, −1: everybody's
	priorities []odds // of each tenant, over priorityNames
	popular    odds   // of what is repeated, by rank
	openings   shelf
}

var priorityNames = []string{"high", "normal", "low"}

// maxShelf is how many bytes of shared text are kept.
const maxShelf = 64 << 20

// NewWorkload makes ready the load of a case.
func NewWorkload(s *Scenario, c *Case, seed uint64) (*Workload, error) {
	if len(s.Prompts) == 0 || s.Duration <= 0 {
		return nil, errors.New("loadtest: a scenario without prompts or duration; see Parse")
	}
	load := c.Load
	if load <= 0 {
		load = 1
	}
	w := &Workload{
		s: s, seed: draw(0).of(seed), tenants: s.Tenants, only: c.Only, load: load,
		popular: byRank(repeatWindow, 1), openings: shelf{maxBytes: maxShelf},
	}
	if s.Arrivals.Kind == Closed {
		w.users = max(1, int(math.Round(float64(s.Arrivals.Users)*load)))
	}
	w.pacer = newPacer(s, load, w.seed.of(drawArrival))
	w.share()
	return w, nil
}

// share makes ready the mixes.
func (w *Workload) share() {
	for i := range w.s.Prompts {
		w.kinds = append(w.kinds, newKind(&w.s.Prompts[i]))
	}
	if len(w.tenants) == 0 {
		w.tenants = []Tenant{{ID: "default", Weight: 1}}
	}
	var weights []float64
	for _, t := range w.tenants {
		w.mixes = append(w.mixes, byWeight(w.s.weights(t.ID)))
		weights = append(weights, t.Weight)
		p := []float64{t.Priority["high"], t.Priority["normal"], t.Priority["low"]}
		if p[0]+p[1]+p[2] <= 0 {
			p[1] = 1
		}
		w.priorities = append(w.priorities, byWeight(p))
	}
	w.customers = byWeight(weights)
	w.rushing = slices.IndexFunc(w.tenants, func(t Tenant) bool { return t.ID == w.s.Arrivals.Tenant })
}

// weights are those of the prompts for a tenant.
func (s *Scenario) weights(tenant string) []float64 {
	var out []float64
	for _, p := range s.Prompts {
		if p.Tenant != "" && p.Tenant != tenant {
			p.Weight = 0
		}
		out = append(out, p.Weight)
	}
	return out
}

// Silent reports whether conversation i is not held: it is of a tenant who does not
// send in this case.
func (w *Workload) Silent(i int) bool {
	return w.only != "" && w.tenants[w.tenantOf(i)].ID != w.only
}

// Closed tells whether users take turns; otherwise Start says when to begin.
func (w *Workload) Closed() bool { return w.users > 0 }

// Users returns how many users a closed load has, and otherwise 0. User u's
// conversation k is number k*Users + u.
func (w *Workload) Users() int { return w.users }

// Start returns when conversation i of an open loop begins, never before
// conversation i−1; ok is false when that is past the end of the arrivals.
// Asking in order costs the same each time.
func (w *Workload) Start(i int) (at time.Duration, ok bool) {
	if w.Closed() {
		return 0, false
	}
	if w.s.Given != nil {
		if i >= len(w.s.Given) {
			return 0, false
		}
		return time.Duration(float64(w.s.Given[i].At) / w.load), true
	}
	return w.pacer.start(i)
}

// FirstThink returns when a user of a closed load begins: somewhere within a
// pause, so that users do not begin together.
func (w *Workload) FirstThink(user int) time.Duration {
	d := w.seed.of(drawFirst, uint64(user))
	pause := w.s.Arrivals.Think.seconds(d.of(drawPause).unit())
	return time.Duration(float64(pause) * d.unit())
}

// at is the place of what is drawn for conversation i.
func (w *Workload) at(i int) draw { return w.seed.of(uint64(i)) }

func (w *Workload) kindOf(i int) int {
	return w.mixes[w.tenantOf(i)].pick(w.at(i).of(drawKind).unit())
}

// tenantOf returns whose conversation i is. A user is of one tenant, and the
// users are shared out exactly by weight.
func (w *Workload) tenantOf(i int) int {
	if w.Closed() {
		return w.customers.pick((float64(i%w.users) + 0.5) / float64(w.users))
	}
	if w.rushing >= 0 && w.pacer.inBurst(i) {
		return w.rushing
	}
	return w.customers.pick(w.at(i).of(drawTenant).unit())
}

// Session is one conversation.
type Session struct {
	number   int
	kind     kind
	place    draw // of what is drawn for it
	words    draw // of what it says: its own place, or an earlier one's
	tenant   string
	priority string
	rag      string
	pause    Spread
	turn     int
	turns    int
	output   int // tokens, forced; 0 is not
	limit    int
	messages []Message
}

// Session returns conversation i, at its first turn.
func (w *Workload) Session(i int) *Session {
	if w.s.Given != nil {
		return w.given(i)
	}
	origin, user := w.origin(i), 0
	if w.Closed() {
		user = i % w.users
	}
	tenant := w.tenantOf(i)
	s := &Session{
		number: i, kind: w.kinds[w.kindOf(i)], place: w.at(i), words: w.at(origin),
		tenant: w.tenants[tenant].ID, pause: w.s.Arrivals.Think,
		priority: priorityNames[w.priorities[tenant].pick(w.at(i).of(drawPriority).unit())],
	}
	s.turns = s.kind.Turns.count(s.words.of(drawTurns).unit(), 1, maxTurns)
	s.limit = s.kind.MaxTokens
	o := w.open(s.kind, origin, user)
	s.rag = o.rag
	if o.content != "" {
		s.messages = append(s.messages, Message{"system", o.content})
	}
	s.ask()
	return s
}

// ask adds the user's message of this turn, and says how long the answer is to be.
func (s *Session) ask() {
	d := s.words.of(drawQuestion, uint64(s.turn))
	n := s.kind.Question.count(d.of(drawLength).unit(), 1, maxTokens)
	s.messages = append(s.messages, Message{"user", text(d, 0, n)})
	if s.kind.Output != (Spread{}) {
		s.output = s.kind.Output.count(s.words.of(drawOutput, uint64(s.turn)).unit(), 1, maxTokens)
	}
}

// Request returns the request of the current turn. Each is a fresh value.
func (s *Session) Request() *Request {
	r := &Request{
		Session: s.number, Turn: s.turn, Prompt: s.kind.Name, Tenant: s.tenant, Priority: s.priority, RAGHash: s.rag,
		Messages: slices.Clone(s.messages), MaxTokens: s.limit, Temperature: s.kind.Temperature, Stream: s.kind.Stream,
	}
	if s.output > 0 {
		r.IgnoreEOS, r.MaxTokens = true, s.output
		if s.limit > 0 {
			r.MaxTokens = min(s.output, s.limit)
		}
	}
	return r
}

// IsLast reports whether this is the conversation's last turn.
func (s *Session) IsLast() bool { return s.turn+1 >= s.turns }

// Answered adds an answer to the conversation. more says that there is a next
// turn, think how long the user reads and types before it.
func (s *Session) Answered(text string) (think time.Duration, more bool) {
	if s.IsLast() {
		return 0, false
	}
	think = s.kind.Think.seconds(s.place.of(drawThink, uint64(s.turn)).unit())
	s.turn++
	s.messages = append(s.messages, Message{"assistant", text})
	s.ask()
	return think, true
}

// Think returns the pause of a closed load after this conversation, before the
// user's next one.
func (s *Session) Think() time.Duration { return s.pause.seconds(s.place.of(drawPause).unit()) }
