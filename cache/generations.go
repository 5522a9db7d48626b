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

// GenerationOptions configures Generations.
type GenerationOptions struct {
	Redis    redis.UniversalClient // holds the leases; nil joins only requests of this process
	Sealer   *Sealer
	MaxEntry func() int  // live: maximum bytes of a shared answer; at least MinSharedBytes
	World    world.World // for waits; nil is [world.System]
	Logger   zerolog.Logger
}

// Generations joins identical requests in progress, here and on other replicas. It is safe for concurrent
// use. Without Run, or without Redis, it joins only those of this process.
type Generations struct {
	o    GenerationOptions
	log  zerolog.Logger
	poke chan struct{} // requests a round trip now

	mu          sync.Mutex
	all         map[GenerationID]*Generation
	subscribers map[[16]byte]int       // by tenant
	leasesHeld  map[*Generation]*Lease // led with a lease
	ended       []ending
	tails       int  // number of generations followed from other replicas
	closed      bool // no other replica may be followed: Run does not run
	work        sync.WaitGroup

	// Used only by Run's goroutine.
	scripts   *script.Runner // of Redis
	restUntil time.Time      // Redis is not used before this time
}

// ending is a lease that must be returned.
type ending struct {
	generation *Generation
	lease      *Lease
	entry      *Entry // nil: there is no answer
	sealed     []byte
	tries      int
}

const (
	// maxTails bounds the generations that are followed from other replicas: each reads from Redis 25 times a
	// second.
	maxTails = 64
	// maxOfTenant bounds the requests of one tenant that share answers: while they wait they occupy the
	// gateway's request slots, but none of the tenant's own.
	maxOfTenant = 1024
	// maxEnded bounds the leases that wait to be returned; others expire.
	maxEnded = 4096
	// pieceSize is the maximum of text per published piece, in bytes.
	pieceSize = 32 << 10
	// restFor is how long a Redis that did not answer is not used. Together with a heartbeat and its wait it
	// is shorter than a lease, so one short failure loses no lease.
	restFor = 500 * time.Millisecond
	// stopTime bounds the last round trips when a replica stops.
	stopTime = time.Second
)

// NewGenerations makes Generations.
func NewGenerations(o GenerationOptions) *Generations {
	if o.World == nil {
		o.World = world.System{}
	}
	return &Generations{
		o: o, scripts: leaseScripts(o.Redis), log: o.Logger, poke: make(chan struct{}, 1),
		all: map[GenerationID]*Generation{}, subscribers: map[[16]byte]int{}, leasesHeld: map[*Generation]*Lease{},
		closed: true,
	}
}

// Join adds a subscriber to the identical requests in progress; the first one to call Next leads. nil means
// that there are too many already.
func (fs *Generations) Join(id GenerationID) *Subscriber {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.subscribers[id.Key.tenant] >= maxOfTenant {
		return nil
	}
	f := fs.all[id]
	if f == nil {
		f = &Generation{owner: fs, id: id, noSubscribers: make(chan struct{})}
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

// Subscribers is the number of requests that share an answer, or may.
func (fs *Generations) Subscribers() (n int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, of := range fs.subscribers {
		n += of
	}
	return n
}

// MinSharedBytes is the size of an answer, in bytes, up to which it is always shared with waiting requests,
// even if it is too large to be stored.
const MinSharedBytes = 1 << 20

// maxBytes is the maximum size of a shared answer, in bytes.
func (fs *Generations) maxBytes() int { return max(fs.o.MaxEntry(), MinSharedBytes) }

// forget makes the next identical request start a new generation.
func (fs *Generations) forget(f *Generation) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.drop(f)
}

// drop is forget with fs.mu held.
func (fs *Generations) drop(f *Generation) {
	if fs.all[f.id] == f {
		delete(fs.all, f.id)
	}
}

// abandon ends a generation that no request wants any more; fs.mu and f.mu are held.
func (fs *Generations) abandon(f *Generation) {
	if f.dead {
		return
	}
	f.dead = true
	close(f.noSubscribers)
	if f.cancel != nil {
		f.later.cancel, f.later.why = f.cancel, context.Canceled
	}
	fs.drop(f)
}

// unlock releases both locks and sends the pending signals.
func (fs *Generations) unlock(f *Generation) {
	due := f.later
	f.later = later{}
	f.mu.Unlock()
	fs.mu.Unlock()
	due.tell()
}

// hold keeps the lease of a generation in progress. It returns false if the generation has ended.
func (fs *Generations) hold(l *Leader, lease *Lease) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	l.generation.mu.Lock()
	defer l.generation.mu.Unlock()
	if !l.makes() {
		return false
	}
	fs.leasesHeld[l.generation] = lease
	return true
}

// end returns a generation's lease, if it has one, and forgets the generation. e is the answer. It is nil if
// there is none; then the generation may continue. An answer that is not stored is only for the requests that
// follow already: later requests need a new one.
func (fs *Generations) end(f *Generation, e *Entry, kept bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.giveBack(f, e, kept)
}

// giveBack is end with fs.mu held.
func (fs *Generations) giveBack(f *Generation, e *Entry, kept bool) {
	lease := fs.leasesHeld[f]
	delete(fs.leasesHeld, f)
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

// Run renews leases, publishes text for followers, and returns leases, until ctx ends. Then it returns the
// remaining leases, waits for the goroutines that follow other replicas, and returns nil.
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

// open allows following other replicas again after an earlier Run.
func (fs *Generations) open() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = false
}

// stop returns the remaining leases and waits for the tails.
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

// talk makes one round trip: say queues commands and returns the function that processes the replies, nil if
// there is nothing to send. A Redis that does not answer is not used for a while, because each try costs a
// connection, and leases expire by themselves.
func (fs *Generations) talk(ctx context.Context, say func(context.Context, redis.Pipeliner) func()) {
	if time.Now().Before(fs.restUntil) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, talkTime)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // the client panicked on a server's reply
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

// beats renews the leases.
func (fs *Generations) beats(ctx context.Context, pipe redis.Pipeliner) func() {
	fs.mu.Lock()
	held := maps.Clone(fs.leasesHeld)
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
			case err != nil: // the next one may arrive
			case n < 0:
				fs.lose(f, held[f])
			default:
				fs.follows(f, held[f], n == 1)
			}
		}
	}
}

// lose handles a lease that another replica has taken: the answer continues for this replica's requests.
func (fs *Generations) lose(f *Generation, lease *Lease) {
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	if fs.leasesHeld[f] != lease {
		return
	}
	delete(fs.leasesHeld, f)
	f.hasFollower = false
	if f.stage == ledHere && f.subscribers == 0 {
		fs.abandon(f)
	}
}

// follows records whether another replica follows, under the lease that a generation still has.
func (fs *Generations) follows(f *Generation, lease *Lease, hasFollower bool) {
	fs.mu.Lock()
	f.mu.Lock()
	defer fs.unlock(f)
	if fs.leasesHeld[f] != lease {
		return
	}
	if f.hasFollower = hasFollower; hasFollower {
		return
	}
	f.published, f.pieces = 0, 0 // the next follower gets it from the beginning
	if f.stage == ledHere && f.subscribers == 0 {
		fs.abandon(f)
	}
}

// sent is a published piece.
type sent struct {
	reply   *redis.Cmd
	attempt int
	upTo    int // end in the attempt's text, in bytes
}

// pieces publishes the text that followers do not have yet.
func (fs *Generations) pieces(ctx context.Context, pipe redis.Pipeliner) func() {
	fs.mu.Lock()
	held := maps.Clone(fs.leasesHeld)
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
			f.handleSent(s)
		}
	}
}

// tells reports whether there is text to publish; f.mu is held.
func (f *Generation) tells() bool {
	return f.hasFollower && f.stage == ledHere && f.id.Stream && !f.opaque && !f.muted && wholeRunes(f.text[f.published:]) > 0
}

// handleSent processes the result of publishing a piece.
func (f *Generation) handleSent(s sent) {
	n, err := s.reply.Int()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.attempt != s.attempt, script.Unknown(err): // it is published again
	case err != nil: // unknown whether it arrived: later text would leave a gap or repeat a piece
		f.muted = true
	case n == unfollowed:
		f.hasFollower = false // the next heartbeat reports whether anyone else wants it
	case n == 1:
		f.published = s.upTo
		f.pieces++
	}
}

// wholeRunes is the length of the text up to the last complete character.
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
