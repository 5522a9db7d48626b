package cache

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/internal/redis/script"
	"github.com/foregate/foregate/tiers/world"
)

// GenerationOptions wires Generations.
type GenerationOptions struct {
	Redis    redis.UniversalClient // where leases are; nil joins the requests of this process only
	Sealer   *Sealer
	MaxEntry func() int  // live: bytes of an answer that is told to others; MinSharedBytes at least
	World    world.World // in which requests wait; nil is [world.System]
	Logger   zerolog.Logger
}

// Generations joins identical requests that are under way, here and on other replicas. It is safe for concurrent
// use. Without Run, and without Redis, it joins those of this process.
type Generations struct {
	o    GenerationOptions
	log  zerolog.Logger
	poke chan struct{} // something is to be told at once

	mu          sync.Mutex
	all         map[GenerationID]*Generation
	subscribers map[[16]byte]int       // by tenant
	held        map[*Generation]*Lease // led under a lease
	ended       []ending
	tails       int  // followed from other replicas
	closed      bool // no other replica may be followed: Run does not run
	work        sync.WaitGroup

	// Of Run's goroutine.
	scripts   *script.Runner // of Redis
	restUntil time.Time      // before which Redis is left alone
}

// ending is a lease to be given back.
type ending struct {
	generation *Generation
	lease      *Lease
	entry      *Entry // nil: there is no answer
	sealed     []byte
	tries      int
}

const (
	// maxTails bounds the generations that are followed from other replicas: each asks Redis
	// 25 times a second.
	maxTails = 64
	// maxTenant bounds the requests of one tenant that share answers: while they wait they take
	// up the gateway's places for requests, but none of the tenant's own.
	maxOfTenant = 1024
	// maxEnded bounds the leases that wait to be given back; others expire.
	maxEnded = 4096
	// pieceSize is how much text is published at once.
	pieceSize = 32 << 10
	// restFor is how long a Redis that did not answer is left alone. With a beat, and the wait for
	// it, it is less than a lease holds: one hiccup loses none.
	restFor = 500 * time.Millisecond
	// stopTime is for the last words when a replica stops.
	stopTime = time.Second
)

// NewGenerations wires them.
func NewGenerations(o GenerationOptions) *Generations {
	if o.World == nil {
		o.World = world.System{}
	}
	return &Generations{
		o: o, scripts: leaseScripts(o.Redis), log: o.Logger, poke: make(chan struct{}, 1),
		all: map[GenerationID]*Generation{}, subscribers: map[[16]byte]int{}, held: map[*Generation]*Lease{},
		closed: true,
	}
}

// Join takes a subscriber among the identical requests that are under way; the first to ask what is next leads. nil
// says that too many are there already.
func (fs *Generations) Join(id GenerationID) *Subscriber {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.subscribers[id.Key.tenant] >= maxOfTenant {
		return nil
	}
	f := fs.all[id]
	if f == nil {
		f = &Generation{owner: fs, id: id, gone: make(chan struct{})}
		fs.all[id] = f
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscribers >= maxSubscribers {
		return nil
	}
	f.subscribers++
	fs.subscribers[id.Key.tenant]++
	return &Subscriber{generation: f}
}

// Subscribers is how many requests share an answer, or may.
func (fs *Generations) Subscribers() (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, of := range fs.subscribers {
		n += of
	}
	return n
}

// MinSharedBytes is the least size of an answer, in bytes, that is told to those who wait for the same, whether or not one
// of that size is kept.
const MinSharedBytes = 1 << 20

// maxBytes is the size, in bytes, up to which answers are told to others.
func (fs *Generations) maxBytes() int { return max(fs.o.MaxEntry(), MinSharedBytes) }

// forget lets the next identical request begin anew.
func (fs *Generations) forget(f *Generation) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop(f)
}

// drop is forget for those who hold fs.mu.
func (fs *Generations) drop(f *Generation) {
	if fs.all[f.id] == f {
		delete(fs.all, f.id)
	}
}

// abandon ends a generation that nobody wants any more; fs.mu and f.mu are held.
func (fs *Generations) abandon(f *Generation) {
	if f.dead {
		return
	}
	f.dead = true
	close(f.gone)
	if f.cancel != nil {
		f.later.cancel, f.later.why = f.cancel, context.Canceled
	}
	fs.drop(f)
}

// unlock ends what was done to a generation under both locks.
func (fs *Generations) unlock(f *Generation) {
	due := f.later
	f.later = later{}
	f.mu.Unlock()
	fs.mu.Unlock()
	due.tell()
}

// hold keeps the lease of an answer that is being made. It reports false where it is not any more.
func (fs *Generations) hold(l *Leader, lease *Lease) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	if !l.makes() {
		return false
	}
	fs.held[l.generation] = lease
	return true
}

// end gives a generation's lease back, if it has one, and forgets the generation. e is the answer, nil when there is none;
// then the generation may go on. One that is not kept is for those alone who were known to follow: who comes
// after it was whole wants another.
func (fs *Generations) end(f *Generation, e *Entry, kept bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.giveBack(f, e, kept)
}

// giveBack is end for those who hold fs.mu.
func (fs *Generations) giveBack(f *Generation, e *Entry, kept bool) {
	lease := fs.held[f]
	delete(fs.held, f)
	if e != nil {
		fs.drop(f)
	}
	if lease == nil || len(fs.ended) >= maxEnded {
		return
	}
	if e != nil && !kept && !f.isWanted() {
		e = nil
	}
	fs.ended = append(fs.ended, ending{generation: f, lease: lease, entry: e})
	select {
	case fs.poke <- struct{}{}:
	default:
	}
}

// Run holds leases, publishes what others follow, and gives leases back, until ctx ends; then it gives back what
// is left, waits for what follows other replicas, and returns nil.
func (fs *Generations) Run(ctx context.Context) error {
	if fs.o.Redis == nil {
		<-ctx.Done()
		return nil
	}
	fs.open()
	whole := context.WithoutCancel(ctx)
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	var beaten time.Time
	for {
		select {
		case <-ctx.Done():
			fs.stop(whole)
			return nil
		case <-fs.poke:
		case now := <-tick.C:
			if now.Sub(beaten) >= beatEvery-publishEvery/2 {
				beaten = now
				fs.talk(whole, fs.beats)
			}
			fs.talk(whole, fs.pieces)
		}
		fs.talk(whole, fs.endings)
	}
}

// open lets replicas be followed: Run may have been ended, and be run again.
func (fs *Generations) open() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = false
}

// stop gives back what is left and waits for the tails.
func (fs *Generations) stop(ctx context.Context) {
	fs.mu.Lock()
	fs.closed = true
	all := slices.Collect(maps.Values(fs.all))
	fs.mu.Unlock()
	for _, f := range all {
		f.mu.Lock()
		f.release()
		f.unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for range maxTries {
		fs.talk(ctx, fs.endings)
	}
	fs.work.Wait()
}

// talk is one round trip: say puts commands into the pipeline and returns who takes in the replies, nil where there
// is nothing to say. A Redis that does not answer is left alone for a while: each time costs a connection, and leases end by themselves.
func (fs *Generations) talk(ctx context.Context, say func(context.Context, redis.Pipeliner) func()) {
	if time.Now().Before(fs.restUntil) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // the client's, at what a server said
			fs.log.Error().Interface("panic", p).Msg("leases of answers under way: the Redis client panicked")
		}
	}()
	pipe := fs.o.Redis.Pipeline()
	hear := say(ctx, pipe)
	if hear == nil {
		return
	}
	if err := fs.scripts.Exec(ctx, pipe, talkTime); err != nil && !script.Answered(err) {
		fs.restUntil = time.Now().Add(restFor)
	}
	hear()
}

// beats hold the leases.
func (fs *Generations) beats(ctx context.Context, pipe redis.Pipeliner) func() {
	fs.mu.Lock()
	held := maps.Clone(fs.held)
	fs.mu.Unlock()
	if len(held) == 0 {
		return nil
	}
	replies := make(map[*Generation]*redis.Cmd, len(held))
	for f, lease := range held {
		replies[f] = lease.beat(ctx, pipe)
	}
	return func() {
		for f, reply := range replies {
			switch n, err := reply.Int(); {
			case err != nil: // the next one may be heard
			case n < 0:
				fs.lose(f, held[f])
			default:
				fs.follows(f, held[f], n == 1)
			}
		}
	}
}

// lose forgets a lease that went to another: the answer goes on for whoever is here.
func (fs *Generations) lose(f *Generation, lease *Lease) {
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	if fs.held[f] != lease {
		return
	}
	delete(fs.held, f)
	f.wanted = false
	if f.stage == ledHere && f.subscribers == 0 {
		fs.abandon(f)
	}
}

// follows notes whether another replica follows, under the lease that a generation still has.
func (fs *Generations) follows(f *Generation, lease *Lease, wanted bool) {
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	if fs.held[f] != lease {
		return
	}
	if f.wanted = wanted; wanted {
		return
	}
	f.published, f.pieces = 0, 0 // who follows next hears it from the beginning
	if f.stage == ledHere && f.subscribers == 0 {
		fs.abandon(f)
	}
}

// sent is a piece that was published.
type sent struct {
	reply   *redis.Cmd
	attempt int
	upTo    int // bytes of the attempt's text
}

// pieces publishes the text that followers do not have yet.
func (fs *Generations) pieces(ctx context.Context, pipe redis.Pipeliner) func() {
	fs.mu.Lock()
	held := maps.Clone(fs.held)
	fs.mu.Unlock()
	replies := map[*Generation]sent{}
	for f, lease := range held {
		f.mu.Lock()
		if f.tells() && len(f.text) <= fs.maxBytes() {
			upTo := f.published + wholeRunes(f.text[f.published:min(len(f.text), f.published+pieceSize)])
			label := lease.pieceLabel(lease.Token, f.pieces)
			piece := fs.o.Sealer.SealBytes(f.id.Key, label, f.text[f.published:upTo])
			replies[f] = sent{lease.publish(ctx, pipe, f.pieces, piece), f.attempt, upTo}
		}
		f.mu.Unlock()
	}
	if len(replies) == 0 {
		return nil
	}
	return func() {
		for f, s := range replies {
			f.told(s)
		}
	}
}

// tells reports whether there is text that others follow; f.mu is held.
func (f *Generation) tells() bool {
	return f.wanted && f.stage == ledHere && f.id.Stream && !f.opaque && !f.muted && wholeRunes(f.text[f.published:]) > 0
}

// told takes in what became of a piece.
func (f *Generation) told(s sent) {
	n, err := s.reply.Int()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.attempt != s.attempt, script.Unknown(err): // it is told again
	case err != nil: // it may have arrived or not: the rest would have a gap, or a piece twice
		f.muted = true
	case n == unfollowed:
		f.wanted = false // and the next beat says whether anybody else wants it
	case n == 1:
		f.published = s.upTo
		f.pieces++
	}
}

// wholeRunes is how much of a text ends at the end of a character, as far as can be told.
func wholeRunes(b []byte) int {
	for back := 1; back <= min(utf8.UTFMax-1, len(b)); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}
