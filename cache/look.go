package cache

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/foregate/foregate/internal/redis/lookup"
	"github.com/foregate/foregate/internal/redis/script"
)

// Found says what a look found.
type Found string

// What a look may find.
const (
	FoundHit    Found = "hit"    // an entry
	FoundLead   Found = "lead"   // nothing, and the request under way is ours to answer
	FoundFollow Found = "follow" // nothing, and another replica is answering it
	FoundNone   Found = "none"   // nothing, and no lease: none was asked for, or Redis is too full for one
	FoundAway   Found = "away"   // Redis was not asked: it does not answer of late
	FoundLate   Found = "late"   // no reply within the budget, or no turn to ask
	FoundError  Found = "error"  // Redis failed
)

const (
	// maxLooks bounds the looks under way; others wait for their turn. The client has 32 connections, and
	// writers must find one.
	maxLooks = 32 - writers
	// crowdWait is how much longer than the budget a look is waited for where others here wait for the same answer: to know
	// who leads is worth a generation then. The client's own timeout ends it, too.
	crowdWait = 250 * time.Millisecond
	// maxHolder bounds a lease's holder, in bytes: several times a token.
	maxHolder = 128
)

// keyProbe is what recovery is tried on: no entry has this key.
const keyProbe = keyPrefix + "{probe}"

var (
	//go:embed look.lua
	lookText   string
	lookScript = script.New(lookText)
)

// errReply is a reply that is none of the script's: somebody else's Redis, or a proxy.
var errReply = errors.New("cache: the script's reply has another shape")

// replied says whether an error is the word of a Redis that is well.
func replied(err error) bool {
	return errors.Is(err, errReply) || script.Unknown(err)
}

// sight is what a look saw.
type sight struct {
	found  Found
	entry  *Entry // of a hit
	holder string // of the lease, where another has it
}

// Look asks Redis for an entry, in one round trip and no longer than the budget. Where there is
// none and lease is not nil, the lease is taken or, where another replica has it, followed: lease.Holder
// is then that replica's token. Where others here wait for the same answer (see [Leader.Lease]), the wait is crowdWait
// longer. A value that does not open is unlinked, counted, and as good as none. What comes later still is told the lease's
// Leader; a lease that was taken and is of no use any more is given back.
func (s *Store) Look(ctx context.Context, k Key, lease *Lease) (*Entry, Found) {
	if s.redis == nil {
		return nil, FoundNone
	}
	var own *Lease // what a late answer may still read
	if lease != nil {
		own = &Lease{Name: lease.Name, Token: lease.Token}
	}
	began := s.now()
	got, err := lookup.DoWith(ctx, s.asker,
		func(ctx context.Context) (sight, error) {
			makeRoom()
			return s.lookUp(ctx, k, own)
		},
		lookup.Late[sight]{
			Extend: func() time.Duration {
				if lease.crowded() {
					return s.crowdWait
				}
				return 0
			},
			OnLate: func(ctx context.Context, late sight) {
				if own != nil {
					own.Holder, own.taken = late.holder, late.found == FoundLead
				}
				if !lease.heard(own) && late.found == FoundLead {
					_ = own.end(ctx, s.redis, 0, nil).Err() // else it ends by itself
				}
			},
		})
	if errors.Is(err, lookup.ErrAway) {
		return nil, FoundAway
	}
	s.metrics.lookup.Observe(s.now().Sub(began).Seconds())
	switch {
	case errors.Is(err, lookup.ErrLate), errors.Is(err, lookup.ErrBusy):
		return nil, FoundLate
	case err != nil:
		return nil, FoundError
	}
	if lease != nil {
		lease.Holder, lease.taken = got.holder, got.found == FoundLead
	}
	return got.entry, got.found
}

// makeRoom has the stack of a goroutine that has just begun grow at once to what a round trip takes. Else it would be copied
// at every doubling, each time with more on it.
//
//go:noinline
func makeRoom() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// lookUp is a look without a bound. It asks a second time where what it saw did not open: that was
// unlinked, and there is a lease to be had. The copy in this process is kept even where nobody waits any more.
func (s *Store) lookUp(ctx context.Context, k Key, lease *Lease) (sight, error) {
	name := k.Name()
	for range 2 {
		asked := s.now()
		t := s.local.reserve(k, asked)
		reply, err := s.eval(ctx, name, lease)
		if err != nil {
			return sight{}, err
		}
		if reply.odd != "" {
			s.refuse(name, reply.odd)
		}
		if reply.found != FoundHit {
			return sight{found: reply.found, holder: reply.holder}, nil
		}
		s.metrics.read.Add(float64(len(reply.value)))
		e, err := s.sealer.Open(k, []byte(reply.value), s.maxAnswer())
		if err == nil {
			s.local.fill(t, e, asked.Add(reply.left))
			return sight{found: FoundHit, entry: e}, nil
		}
		// A good one that was written in between goes as well: that costs a generation, and sending
		// the value back to be compared costs more.
		s.refuse(name, refusedFor(err))
		if err := s.redis.Unlink(ctx, name).Err(); err != nil {
			return sight{}, err
		}
	}
	return sight{found: FoundNone}, nil // whoever writes such values does it faster than we look
}

// maxAnswer bounds the answers that are served, in bytes: what was kept while cache.max_entry_bytes was a little larger is
// served still.
func (s *Store) maxAnswer() int { return 2 * s.maxEntry() }

// sealOverhead bounds what a value has besides its answer, in bytes.
const sealOverhead = headerLen + maxID + sealedBy + minPlain + maxHead

// eval is one round trip; two more where Redis does not know the script.
func (s *Store) eval(ctx context.Context, name string, lease *Lease) (reply, error) {
	keys, args := []string{name}, []any{s.maxAnswer() + sealOverhead}
	if lease != nil {
		keys, args = append(keys, lease.Name, lease.chunks()), append(args, lease.Token, leaseTTL)
	}
	got, err := s.scripts.Run(ctx, lookScript, keys, args...).Slice()
	if err != nil {
		return reply{}, err
	}
	r, err := parseReply(got)
	if lease == nil && (r.found == FoundLead || r.found == FoundFollow) {
		return reply{}, fmt.Errorf("%w: a lease that nobody asked for", errReply)
	}
	return r, err
}

// reply is the script's.
type reply struct {
	found  Found
	value  string
	left   time.Duration // that the value still has
	holder string
	odd    string // why a value that is there was passed over
}

// parseReply reads it.
func parseReply(list []any) (reply, error) {
	if len(list) != 3 {
		return reply{}, fmt.Errorf("%w: %d elements", errReply, len(list))
	}
	kind, isKind := list[0].(string)
	text, isText := list[1].(string)
	n, isNumber := list[2].(int64)
	if !isKind || !isText || !isNumber {
		return reply{}, fmt.Errorf("%w: other types", errReply)
	}
	r := reply{found: Found(kind)}
	switch r.found {
	case FoundHit:
		r.value = text
		r.left = copyFor // of one without an end, which is not how we write them
		if n >= 0 {
			r.left = time.Duration(min(n, maxTTL.Milliseconds())) * time.Millisecond
		}
		return r, nil
	case FoundFollow:
		if text == "" || len(text) > maxHolder {
			return reply{}, fmt.Errorf("%w: a holder of %d bytes", errReply, len(text))
		}
		r.holder = text
	case FoundLead, FoundNone:
	default:
		return reply{}, fmt.Errorf("%w: %.16q", errReply, kind)
	}
	switch n {
	case 1:
		r.odd = refusedLarge
	case 2:
		r.odd = refusedType
	}
	return r, nil
}

// maxTTL is longer than any entry is kept.
const maxTTL = 48 * time.Hour

// refusalLogInterval is how often the log tells of values that are not ours, at most.
const refusalLogInterval = time.Minute

// refuse counts a value that is passed over. The log tells of one a minute: somebody may write many.
func (s *Store) refuse(key, why string) {
	s.metrics.refused.add(why)
	now, last := s.now().UnixNano(), s.told.Load()
	if now-last < int64(refusalLogInterval) || !s.told.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn().Str("key", key).Str("reason", why).
		Msg("a value in the Redis of answers is not ours, so it is deleted, and a miss: somebody changed or forged it, or it was sealed with another key or by another release (told once a minute)")
}

// refusedFor is why a value did not open, as metrics name it.
func refusedFor(err error) string {
	if errors.Is(err, ErrForeign) {
		return refusedForeign
	}
	return refusedDamaged
}

// load gives Redis the script before anybody asks.
func (s *Store) load(ctx context.Context) error { return s.scripts.Load(ctx, keyProbe) }
