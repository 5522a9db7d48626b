package cache

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redis/script"
)

// Lease names a request under way among replicas: identical requests of the same class that are
// answered in the same way (streamed or not).
type Lease struct {
	Name   string // its Redis key, in one slot with the entry's
	Token  string // of this replica, for this request
	Holder string // token of whoever has it, when that is another

	taken  bool    // it is ours
	leader *Leader // that it is asked for; nil is nobody who could use it later
}

// crowded reports whether others here wait for the same answer.
func (l *Lease) crowded() bool { return l != nil && l.leader != nil && l.leader.crowded() }

// heard tells the leader what was found after its look was over. It reports whether that is of use.
func (l *Lease) heard(late *Lease) bool {
	return l != nil && l.leader != nil && l.leader.elected(late)
}

const (
	// leaseTTL is how long a lease holds without a word of its holder, in ms: a dead one
	// is replaced within 2 s.
	leaseTTL = 1500
	// endTTL is how long the end of an answer can still be read, in ms.
	endTTL = 5000
	// maxPieces bounds a stream of pieces; the answer's own bound, and that nothing is
	// published more often than every publishEvery, keep it far below.
	maxPieces = 1 << 14
)

// newLease is for a generation; nobody has it yet.
func newLease(id GenerationID) *Lease {
	var token [12]byte
	_, _ = rand.Read(token[:]) // never fails (crypto/rand)
	name := id.Key.Name()
	how := "json"
	if id.Stream {
		how = "sse"
	}
	return &Lease{
		Name:  "foregate:cache:lead:" + name[strings.IndexByte(name, '{'):] + ":" + strconv.Itoa(int(id.Class)) + how,
		Token: hex.EncodeToString(token[:]),
	}
}

// chunks is the Redis key of the stream that the holder writes and the others read.
func (l *Lease) chunks() string { return l.Name + ":chunks" }

// pieceLabel is what a piece is sealed to, beside the entry's key.
func (l *Lease) pieceLabel(holder string, n int) string { return holder + ":" + strconv.Itoa(n) }

var (
	//go:embed beat.lua
	beatText string
	//go:embed publish.lua
	publishText string
	//go:embed end.lua
	endText string

	beatScript    = script.New(beatText)
	publishScript = script.New(publishText)
	endScript     = script.New(endText)
)

// leaseScripts runs the scripts of leases.
func leaseScripts(c redis.UniversalClient) *script.Runner {
	return script.NewRunner(c, beatScript, publishScript, endScript)
}

// beat holds a lease for longer. Its reply: −1 it is not ours any more, 0 it is, 1 it is and is followed.
func (l *Lease) beat(ctx context.Context, c redis.Scripter) *redis.Cmd {
	return beatScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, leaseTTL)
}

// publish adds a sealed piece. Its reply: 0 the lease is not ours any more, 1, or unfollowed.
func (l *Lease) publish(ctx context.Context, c redis.Scripter, n int, piece []byte) *redis.Cmd {
	return publishScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, n, piece, maxPieces)
}

// end gives the lease back, with the sealed entry for whoever follows; nil says that there is none.
func (l *Lease) end(ctx context.Context, c redis.Scripter, n int, entry []byte) *redis.Cmd {
	return endScript.EvalSha(ctx, c, []string{l.Name, l.chunks()}, l.Token, endTTL, n, entry)
}

// piece is one element of the stream.
type piece struct {
	n     int
	text  []byte // sealed
	entry []byte // sealed; of the last one
	last  bool
}

// delivery is what a follower reads.
type delivery struct {
	pieces []piece
	cursor string // of the last element
	held   bool   // the lease is still the holder's, and its stream is there
}

// maxRead is how many elements are read at once.
const maxRead = 256

// unfollowed is what publish replies where nobody follows any more.
const unfollowed = 2

// read asks for what came behind the cursor ("" is the beginning). The lease is asked for first: if it is gone
// and there is no end behind it, its holder is dead. Where the stream is gone, what the holder tells is not heard.
func (l *Lease) read(ctx context.Context, c redis.UniversalClient, cursor string) (delivery, error) {
	from := "-"
	if cursor != "" {
		from = "(" + cursor
	}
	pipe := c.Pipeline()
	held := pipe.Get(ctx, l.Name)
	exists := pipe.PExpire(ctx, l.chunks(), leaseTTL*time.Millisecond) // the holder learns by it that it is followed
	stream := pipe.XRangeN(ctx, l.chunks(), from, "+", maxRead)
	_, _ = pipe.Exec(ctx) // each has its own error
	if err := held.Err(); err != nil && err != redis.Nil {
		return delivery{}, err
	}
	if err := cmp.Or(exists.Err(), stream.Err()); err != nil {
		return delivery{}, err
	}
	return l.deliveryOf(cursor, held.Val() == l.Holder && exists.Val(), stream.Val()), nil
}

// deliveryOf reads what came behind the cursor.
func (l *Lease) deliveryOf(cursor string, held bool, stream []redis.XMessage) delivery {
	out := delivery{cursor: cursor, held: held || len(stream) == maxRead} // there may be more to read first
	for _, m := range stream {
		out.cursor = m.ID
		if p, ok := l.pieceOf(m.Values); ok {
			out.pieces = append(out.pieces, p)
		}
	}
	return out
}

// pieceOf reads an element. Those of others than the holder are not meant.
func (l *Lease) pieceOf(v map[string]any) (p piece, ok bool) {
	if t, _ := v["t"].(string); t != l.Holder {
		return piece{}, false
	}
	n, _ := v["n"].(string)
	var err error
	if p.n, err = strconv.Atoi(n); err != nil {
		return piece{}, false
	}
	if d, ok := v["d"].(string); ok {
		p.text = []byte(d)
		return p, true
	}
	e, last := v["e"].(string)
	p.entry, p.last = []byte(e), last
	return p, last
}

// How often a holder and its followers talk to Redis. A follower sees text after half of beatEvery
// and publishEvery and readEvery, on average.
const (
	publishEvery = 50 * time.Millisecond
	beatEvery    = 250 * time.Millisecond
	readEvery    = 40 * time.Millisecond
	// talkTime bounds one round trip in the background.
	talkTime = 250 * time.Millisecond
	// silence is how long a follower bears a Redis that does not answer.
	silence = time.Second
)
