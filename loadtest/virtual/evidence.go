package virtual

import (
	"strconv"
	"time"

	"github.com/foregate/foregate/tiers/plan"

	"github.com/foregate/foregate/tiers/risk"
)

// viewEvery is how old a view may be that a replica goes by.
const viewEvery = time.Second

// evidence is what audits have shown of every kind of request: what the gateway's replicas keep
// in Redis, without the way there.
type evidence struct {
	lab     *lab
	states  map[risk.Key]*risk.State
	changes []change
	first   map[risk.Key]time.Duration // when a kind first had a certificate

	tickets, booked, closed int
}

// change is a threshold that came into force.
type change struct {
	at        time.Duration
	bucket    string
	threshold float64
	serves    bool
}

func newEvidence(l *lab) *evidence {
	return &evidence{lab: l, states: map[risk.Key]*risk.State{}, first: map[risk.Key]time.Duration{}}
}

func (e *evidence) rule() risk.Rule { return e.lab.values.Tiers.Risk.Rule }

func (e *evidence) state(k risk.Key) *risk.State {
	s := e.states[k]
	if s == nil {
		s = &risk.State{}
		e.states[k] = s
	}
	return s
}

// open books an audit, and returns its ticket; "" is that it was not booked.
func (e *evidence) open(d risk.Decision, score float64) string {
	e.tickets++
	ticket := strconv.Itoa(e.tickets)
	fate := e.state(d.Key).Open(e.rule(), d, score, ticket, e.lab.clock.wall())
	e.note(d.Key)
	if fate != risk.Booked {
		return ""
	}
	e.booked++
	return ticket
}

// openWarmup books an audit of a draft that a warm-up served, and returns its ticket; "" is that it was not booked.
func (e *evidence) openWarmup(k risk.Key) string {
	e.tickets++
	ticket := strconv.Itoa(e.tickets)
	if e.state(k).OpenWarmup(e.rule(), ticket, e.lab.clock.wall()) != risk.Booked {
		return ""
	}
	e.booked++
	return ticket
}

// drafted notes a request in the time of a warm-up.
func (e *evidence) drafted(k risk.Key, made, served int) {
	e.state(k).Drafted(e.rule(), made, served, e.lab.clock.wall())
}

// close ends an audit.
func (e *evidence) close(k risk.Key, ticket string, bad bool) {
	if e.state(k).Close(e.rule(), ticket, bad) {
		e.closed++
	}
	e.note(k)
}

// note takes down which threshold is in force.
func (e *evidence) note(k risk.Key) {
	v, now := e.state(k).View(e.rule()), e.lab.clock.now
	if _, ok := e.first[k]; v.Serves() && !ok {
		e.first[k] = now
	}
	for i := len(e.changes) - 1; i >= 0; i-- {
		if c := &e.changes[i]; c.bucket == k.Bucket {
			if c.serves == v.Serves() && c.threshold == v.Threshold {
				return
			}
			break
		}
	}
	e.changes = append(e.changes, change{now, k.Bucket, v.Threshold, v.Serves()})
}

// sighting is a view as a replica saw it last.
type sighting struct {
	risk.View
	at time.Duration
}

// view is what this replica's requests of a kind go by.
func (r *replica) view(k risk.Key) risk.View {
	s, ok := r.views[k]
	if now := r.lab.clock.now; !ok || now-s.at >= viewEvery {
		return r.look(k)
	}
	return s.View
}

// look takes the view of this moment.
func (r *replica) look(k risk.Key) risk.View {
	v := r.lab.evidence.state(k).View(r.lab.evidence.rule())
	v.Seen = r.lab.clock.wall()
	r.views[k] = sighting{v, r.lab.clock.now}
	return v
}

// known are the views that a request is planned by, which it counts in.
func (r *replica) known(cfg plan.Config, k plan.Kind) plan.Views {
	n := float64(len(r.lab.replicas))
	v := plan.Views{Own: r.view(k.Own), Head: r.view(k.Head), PerMinute: n * r.audits.rate(k.Own), Now: r.lab.clock.wall()}
	if cfg.Risk.Inherit {
		v.Route, v.RoutePerMinute = r.view(k.Route), n*r.audits.rate(k.Route)
	}
	return v
}
