package lookup

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	// maxBatch is how many questions one round trip takes at most. With a thousand, the first would wait for the
	// replies to all others.
	maxBatch = 64
	// maxBatches bounds the round trips of a lane that are under way, and so the connections that it uses.
	maxBatches = 8
	// maxWaiting bounds the questions that wait to be sent, in all lanes.
	maxWaiting = 4096
	// A question that was not sent within this part of the budget no longer waits for the round trip before it.
	overtakePart = 4
)

// BatchOptions are what [Batches] need to know.
type BatchOptions[Q, A any] struct {
	// Send puts questions in one round trip, and answers each of them by [Question.Reply]. It has deadlines of its
	// own. A panic fails the questions that have no answer yet. It keeps neither the slice nor a question.
	Send func(ctx context.Context, questions []*Question[Q, A])
	// Lane names the server that answers a question: those of one server share round trips, and wait for no other
	// server. It must not wait. nil: there is one server.
	Lane func(ask *Q) any
}

// Batches put questions of concurrent requests to Redis in shared round trips, as [Do] does in one for each. A question
// is sent at once where no other is under way; those that come meanwhile are sent together afterwards. Where
// that takes too long, because a connection or a server hangs, they are sent in a further round trip beside it.
//
// No question has a goroutine of its own: a lane has one for each round trip, which ends when nothing waits.
// The methods are safe for concurrent use.
type Batches[Q, A any] struct {
	client *Client
	o      BatchOptions[Q, A]

	mu       sync.Mutex
	lanes    map[any]*lane[Q, A] // those with round trips under way
	waiting  int                 // questions in all queues
	inFlight int                 // questions that were sent, and have no answer yet
	running  int                 // goroutines
	idle     chan struct{}       // closed when none runs any more; nil before Drain
}

// lane is what waits for one server. The mutex of its Batches guards it.
type lane[Q, A any] struct {
	queue   []*Question[Q, A]
	running int       // round trips under way
	sent    time.Time // when the last one began
}

// Question is one of a batch.
type Question[Q, A any] struct {
	Ask Q // read-only

	outcome[A]
	replied bool
	began   time.Time
	budget  time.Duration
	late    Late[A]
	lane    any
	sent    bool // guarded by Batches.mu
	left    bool // who asked did not wait until it was sent; guarded by Batches.mu
}

// Reply answers the question; err is as of [Do].
func (q *Question[Q, A]) Reply(answer A, err error) { q.answer, q.err, q.replied = answer, err, true }

// NewBatches makes Batches whose calls have the budget of a client, and count for or against its Redis.
func NewBatches[Q, A any](c *Client, o BatchOptions[Q, A]) *Batches[Q, A] {
	return &Batches[Q, A]{client: c, o: o, lanes: map[any]*lane[Q, A]{}}
}

// Do puts a question and waits for its answer, as [DoWith] does. [ErrBusy] is a question that could not be sent within
// the budget, or after [Batches.Drain]. The context of late.OnLate has no values.
func (b *Batches[Q, A]) Do(ctx context.Context, ask Q, late Late[A]) (A, error) {
	var none A
	if b.client.Away() {
		return none, ErrAway
	}
	waited, budget, began := waitedOf(ctx), b.client.budget(), time.Now()
	defer func() { waited.add(time.Since(began)) }()
	wait := waited.remaining(budget)
	q := &Question[Q, A]{Ask: ask, outcome: outcome[A]{done: make(chan struct{}), cut: wait < budget}, began: began, budget: budget, late: late}
	if b.o.Lane != nil {
		q.lane = b.o.Lane(&q.Ask)
	}
	begun, ok := b.join(q)
	if !ok {
		return none, ErrBusy
	}
	timer := b.patience(q, begun, wait)
	defer timer.Stop()
	unsent := false
	gotReply := q.wait(timer, func() time.Duration {
		if unsent = b.leave(q); unsent {
			return 0
		}
		if !q.cut {
			b.client.failed(ErrLate)
		}
		if late.Extend == nil {
			return 0
		}
		return late.Extend()
	})
	switch {
	case gotReply:
		b.client.record(q.err, false)
		return q.answer, q.err
	case unsent:
		return none, ErrBusy
	}
	return none, ErrLate
}

// patience returns the timer of a wait. Of a question that must wait for another round trip it first waits the time
// after which that is overtaken.
func (b *Batches[Q, A]) patience(q *Question[Q, A], begun bool, wait time.Duration) *time.Timer {
	first := min(wait, q.budget/overtakePart)
	if begun || first == wait {
		return time.NewTimer(wait)
	}
	timer := time.NewTimer(first)
	select {
	case <-q.done:
	case <-timer.C:
		b.overtake(q)
	}
	timer.Reset(wait - first)
	return timer
}

// join queues a question, and starts a round trip if none is under way: then begun. It reports false if there are too
// many, or none is taken any more.
func (b *Batches[Q, A]) join(q *Question[Q, A]) (begun, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle != nil || b.waiting >= maxWaiting {
		return false, false
	}
	l := b.lanes[q.lane]
	if l == nil {
		l = &lane[Q, A]{}
		b.lanes[q.lane] = l
	}
	l.queue = append(l.queue, q)
	b.waiting++
	begun = l.running == 0
	if begun {
		b.begin(q.lane, l)
	}
	return begun, true
}

// begin starts a round trip; the mutex is held.
func (b *Batches[Q, A]) begin(name any, l *lane[Q, A]) {
	l.running++
	l.sent = time.Now()
	b.running++
	go b.run(name, l)
}

// overtake starts a further round trip for a question that was not sent yet, unless another did so lately.
func (b *Batches[Q, A]) overtake(q *Question[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[q.lane]
	if !q.sent && l.running < maxBatches && time.Since(l.sent) >= q.budget/overtakePart {
		b.begin(q.lane, l)
	}
}

// leave reports whether a question was not sent yet; then it is not sent any more.
func (b *Batches[Q, A]) leave(q *Question[Q, A]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.left = !q.sent
	return q.left
}

// run makes round trips until nothing waits in the lane.
func (b *Batches[Q, A]) run(name any, l *lane[Q, A]) {
	makeRoom()
	ctx := context.Background()
	var batch []*Question[Q, A]
	for {
		batch = b.take(name, l, batch)
		if len(batch) == 0 {
			return
		}
		b.send(ctx, batch)
		b.settle(ctx, batch)
	}
}

// makeRoom grows the stack of a new goroutine at once to the size that a round trip needs. Otherwise it would
// be copied at every doubling.
//
//go:noinline
func makeRoom() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// take ends the round trip of the last batch, and returns the next batch; an empty one ends the goroutine.
func (b *Batches[Q, A]) take(name any, l *lane[Q, A], last []*Question[Q, A]) []*Question[Q, A] {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight -= len(last)
	clear(last)
	batch, n := last[:0], 0
	for ; n < len(l.queue) && len(batch) < maxBatch; n++ {
		if q := l.queue[n]; !q.left {
			q.sent = true
			batch = append(batch, q)
		}
	}
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	b.waiting -= n
	b.inFlight += len(batch)
	l.sent = time.Now()
	if len(batch) == 0 {
		b.ended(name, l)
	}
	return batch
}

// ended counts a goroutine that ends; the mutex is held.
func (b *Batches[Q, A]) ended(name any, l *lane[Q, A]) {
	l.running--
	if l.running == 0 && name != nil { // of servers that are gone nothing is kept
		delete(b.lanes, name)
	}
	if b.running--; b.running == 0 && b.idle != nil {
		close(b.idle)
	}
}

// errNoAnswer is the result of a question that Send passed over.
var errNoAnswer = fmt.Errorf("no answer")

// send makes one round trip.
func (b *Batches[Q, A]) send(ctx context.Context, batch []*Question[Q, A]) {
	failed := errNoAnswer
	defer func() {
		if p := recover(); p != nil { // the client's, at what a server said
			failed = fmt.Errorf("panic: %v", p)
		}
		for _, q := range batch {
			if !q.replied {
				q.err = failed
			}
		}
	}()
	b.o.Send(ctx, batch)
}

// settle gives the answers to those who wait. Then it records what came too late.
func (b *Batches[Q, A]) settle(ctx context.Context, batch []*Question[Q, A]) {
	for i, q := range batch {
		if q.fate.CompareAndSwap(waiting, answered) {
			close(q.done)
			batch[i] = nil // it is the caller's
		}
	}
	for _, q := range batch {
		if q == nil {
			continue
		}
		if q.cut {
			b.client.record(q.err, time.Since(q.began) > q.budget)
		}
		if q.err == nil && q.late.OnLate != nil {
			q.tell(ctx, q.late.OnLate)
		}
	}
}

// InFlight is how many questions were sent and have no answer yet.
func (b *Batches[Q, A]) InFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight
}

// Drain waits for the questions that wait or are under way, no longer than atMost. Later ones are [ErrBusy].
func (b *Batches[Q, A]) Drain(atMost time.Duration) {
	b.mu.Lock()
	if b.idle == nil {
		b.idle = make(chan struct{})
		if b.running == 0 {
			close(b.idle)
		}
	}
	b.mu.Unlock()
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-b.idle:
	case <-timer.C:
	}
}
