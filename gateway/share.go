package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/openai"
)

// errNotTold is why nobody can share an answer: it is too large, or more than is understood.
var errNotTold = errors.New("the answer cannot be shared")

// errPanicked is why an answer that was shared is not made.
var errPanicked = errors.New("making the answer panicked")

// share answers a request that may share its answer with identical ones: one of them makes it, the others follow.
func (x *exchange) share(seat *cache.Seat) (err error) {
	f := &follower{exchange: x, seat: seat}
	stop := context.AfterFunc(x.r.Context(), seat.Depart)
	defer stop()
	defer func() {
		seat.Depart()
		if err != nil && f.made {
			x.l.breakOff(endOf(x.r, err)) // before the wait: what is made now is for others
		}
		f.making.Wait() // it is booked here
	}()
	patience := time.NewTimer(x.cfg.Follow)
	defer patience.Stop()
	for {
		n, err := seat.Next(x.r.Context(), patience.C)
		if err != nil {
			return err
		}
		switch n.Event {
		case cache.EventLead:
			if over, err := f.lead(n.Lead); over {
				return err
			}
		case cache.EventText:
			if err := f.text(n.Text); err != nil {
				return err
			}
		case cache.EventLanded:
			return f.land(n.Entry)
		case cache.EventFailed:
			return f.fail(n.Err)
		case cache.EventAlone:
			return x.alone(cache.ResultMiss)
		}
	}
}

// follower is a request that gets its answer from a flight.
type follower struct {
	*exchange
	seat   *cache.Seat
	framer *openai.Framer // of a stream that has begun
	found  bool           // it looked the answer up itself
	making sync.WaitGroup // the generation that it began when another's broke off
	made   bool           // there is such
	buf    []byte
}

// lead is this request's turn to make the answer, unless it is in the cache by now or another replica makes it: then
// it goes on following.
func (f *follower) lead(lead *cache.Lead) (over bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			lead.Fail(errPanicked, false)
			panic(p)
		}
	}()
	x := f.exchange
	result := cache.ResultAway
	var lease *cache.Lease
	if x.keeps {
		lease = lead.Lease()
		var e *cache.Entry
		if e, result = x.look(x.r.Context(), lease); e != nil {
			f.found = true
			lead.Land(e, nil)
			return false, nil
		}
	}
	if lease != nil && lease.Holder != "" {
		if lead.Follow(lease) {
			return false, nil
		}
		lease = nil
	}
	if f.framer != nil { // it has told its client already what another began
		f.made = true
		f.making.Go(func() { _ = x.generate(lead, lease, noClient{}) }) // the flight tells how it ended
		return false, nil
	}
	x.l.cache = result
	x.tell()
	out := &sharedSink{sink: x.l.out, seat: f.seat, lead: lead}
	err = x.generate(lead, lease, out)
	if lead.Follows() { // that was heard late
		x.l.receipt = nil
		return false, nil
	}
	x.count(result, nil)
	if gone := cmp.Or(out.close(), x.r.Context().Err()); err == nil {
		err = gone // others have its answer
	}
	return true, err
}

// generate has the cascade make a flight's answer. It goes on without the client as long as somebody wants it.
func (x *exchange) generate(lead *cache.Lead, lease *cache.Lease, out tiers.Sink) (err error) {
	ctx, cancel := context.WithCancelCause(x.g.streams)
	defer cancel(nil)
	defer func() {
		if p := recover(); p != nil {
			x.g.metrics.panics.Inc()
			x.g.log.Error().Str("request_id", x.l.id).Interface("panic", p).Bytes("stack", debug.Stack()).Msg("making an answer panicked")
			lead.Fail(errPanicked, false)
			err = errPanic
		}
	}()
	lead.Begin(lease, cancel)
	rec := newRecording(x, lead)
	if err := x.askFrom(ctx, lead.Said, rec, out); err != nil {
		lead.Fail(err, hopeless(err))
		return err
	}
	e, whole := rec.entry(x.l.receipt)
	switch {
	case e == nil:
		lead.Fail(errNotTold, true)
	case x.keeps && x.mayKeep(e, whole) && unproven(e):
		lead.Land(e, nil)
		x.keepOnceVouched(e)
	case x.keeps && x.mayKeep(e, whole):
		lead.Land(e, func(then func()) { x.g.opts.Cache.Put(x.key, e, x.cfg.TTL, then) })
	default:
		lead.Land(e, nil)
	}
	return nil
}

// hopeless says whether an identical request would fail alike.
func hopeless(err error) bool {
	status := problemOf(err).status
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// text tells the client more of a stream.
func (f *follower) text(text []byte) error {
	if err := f.begin(); err != nil {
		return err
	}
	f.buf = f.framer.Text(f.buf, text)
	err := f.l.out.Write(f.buf)
	f.buf = f.buf[:0]
	return err
}

// begin opens a stream whose end is not known yet: who answers it is told at its end.
func (f *follower) begin() error {
	if f.framer != nil {
		return nil
	}
	f.l.cache = cache.ResultCoalesced
	f.tell()
	f.framer = openai.NewFramer(f.req.Kind, f.l.id, f.l.route, f.g.now().Unix())
	f.buf = f.framer.Role(f.buf)
	return f.l.out.begin(head{stream: true})
}

// land gives the client the answer, or what it has not yet of it.
func (f *follower) land(e *cache.Entry) error {
	result := cache.ResultCoalesced
	if f.found && f.framer == nil {
		result = cache.ResultHit
	}
	if f.framer == nil {
		if served, err := f.serve(e, result); served {
			return err
		}
		return f.alone(cache.ResultError)
	}
	whole, err := openai.ParseWhole(e.Answer)
	if err != nil || len(whole.Choices) != 1 || !bytes.HasPrefix(whole.Choices[0].Text, f.seat.Sent()) {
		return &tiers.BrokenError{Cause: cache.ErrBroken}
	}
	if f.made {
		f.count(cache.ResultMiss, nil)
	} else {
		f.l.entry = e
		f.count(result, e)
	}
	whole.Usage.Cached = whole.Usage.Prompt
	whole.Choices[0].Text = whole.Choices[0].Text[len(f.seat.Sent()):]
	role := len(f.framer.Role(nil))
	frames := f.framer.WholeStream(nil, whole, extraOf(e, result, 0), f.req.IncludeUsage)
	return f.l.out.Write(frames[role:])
}

// fail ends a request whose flight failed. One that has sent nothing yet asks for itself where that may help.
func (f *follower) fail(err error) error {
	switch {
	case f.framer != nil:
		f.count(cache.ResultCoalesced, nil)
		return &tiers.BrokenError{Cause: err}
	case errors.Is(err, errNotTold):
		return f.alone(cache.ResultMiss)
	}
	f.count(cache.ResultCoalesced, nil)
	return fmt.Errorf("shared with an identical request: %w", err)
}
