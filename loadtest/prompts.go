package loadtest

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"sync"
)

// What is drawn for a conversation, each from a place of its own.
const (
	drawKind uint64 = iota + 1
	drawTenant
	drawPriority
	drawRepeat
	drawSource
	drawTurns
	drawQuestion
	drawOutput
	drawThink
	drawPause
	drawFirst
	drawSystem
	drawContext
	drawOwn
	drawUser
	drawLength
	drawArrival
	_ // each number below is part of the committed rows
	drawCatalogue
	drawRank
)

// repeatWindow is how many conversations back a repeat looks, at most twice.
const repeatWindow = 256

// kind is a prompt of the mix, made ready.
type kind struct {
	*Prompt
	place           draw // of its shared text: by name, so that it is the same in every run
	system, context odds
	standing        odds // of its catalogue
}

func newKind(p *Prompt) kind {
	h := fnv.New64a()
	h.Write([]byte(p.Name))
	k := kind{Prompt: p, place: draw(h.Sum64()).of(0)}
	if p.System.Variants > 0 {
		k.system = byRank(p.System.Variants, p.System.Zipf)
	}
	if p.Context.Variants > 0 {
		k.context = byRank(p.Context.Variants, p.Context.Zipf)
	}
	if p.Catalogue.Share > 0 {
		k.standing = byRank(p.Catalogue.Size, p.Catalogue.Zipf)
	}
	return k
}

// passage names a text: which of those of its key, and how long.
type passage struct {
	key    draw
	number uint64
	tokens int
	own    bool // of one conversation alone
}

func (p passage) String() string { return text(p.key, p.number, p.tokens) }

// passage chooses a conversation's shared text: origin's, of user.
func (w *Workload) passage(k kind, what uint64, origin, user int) passage {
	sh, ranks := &k.System, k.system
	if what == drawContext {
		sh, ranks = &k.Context, k.context
	}
	if *sh == (Shared{}) {
		return passage{}
	}
	p := passage{key: k.place.of(what)}
	switch {
	case sh.PerUser:
		p.key, p.number = p.key.of(drawUser), uint64(user)
	case sh.Variants > 0:
		p.number = uint64(ranks.pick(w.at(origin).of(what).unit()))
	default:
		p.key, p.number, p.own = p.key.of(drawOwn, uint64(w.seed)), uint64(origin), true
	}
	p.tokens = sh.Tokens.count(p.key.of(drawLength, p.number).unit(), 0, maxTokens)
	return p
}

// opening is a system message, and the digest of the context in it.
type opening struct{ content, rag string }

// open returns what a conversation begins with.
func (w *Workload) open(k kind, origin, user int) opening {
	key := [2]passage{w.passage(k, drawSystem, origin, user), w.passage(k, drawContext, origin, user)}
	if key[0].tokens == 0 && key[1].tokens == 0 {
		return opening{}
	}
	if key[0].own || key[1].own {
		return compose(key)
	}
	return w.openings.get(key, compose)
}

func compose(p [2]passage) opening {
	context := p[1].String()
	o := opening{content: p[0].String() + context}
	if context != "" {
		sum := sha256.Sum256([]byte(context))
		o.rag = hex.EncodeToString(sum[:])
	}
	return o
}

// shelf keeps openings that are asked for again and again, up to a size: half
// of it young, and what was young before.
type shelf struct {
	mu             sync.Mutex
	maxBytes, size int // bytes, of young
	young, old     map[[2]passage]opening
}

// get returns the opening of key, which write makes when it is not there.
func (s *shelf) get(key [2]passage, write func([2]passage) opening) opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.young[key]
	if ok {
		return o
	}
	if o, ok = s.old[key]; !ok {
		o = write(key)
	}
	if s.young == nil || s.size+len(o.content) > s.maxBytes/2 {
		s.old, s.young, s.size = s.young, map[[2]passage]opening{}, 0
	}
	s.young[key] = o
	s.size += len(o.content) + 256
	return o
}

// Words tells which words conversation i has: conversations of the same number are of one tenant and ask the same.
func (w *Workload) Words(i int) int {
	if w.s.Given != nil {
		return w.s.Given[i].Words
	}
	return w.origin(i)
}

// origin returns whose words conversation i has: its own, an earlier one's, or those of
// a place in the catalogue, which are numbered below zero.
func (w *Workload) origin(i int) int {
	of := w.kindOf(i)
	if c := w.kinds[of].Catalogue; c.Share > 0 && w.at(i).of(drawCatalogue).unit() < c.Share {
		rank := w.kinds[of].standing.pick(w.at(i).of(drawRank).unit())
		return -1 - ((w.tenantOf(i)*len(w.kinds)+of)*maxVariants + rank)
	}
	for {
		k := w.kinds[w.kindOf(i)]
		if k.Repeat <= 0 || w.at(i).of(drawRepeat).unit() >= k.Repeat {
			return i
		}
		j, ok := w.source(i)
		if !ok {
			return i
		}
		i = j
	}
}

// source chooses the conversation that i repeats: of the same kind, tenant and,
// where words are a user's own, user. The conversations of a window have ranks,
// and those of the next window choose by rank: so a few are repeated often. In
// the first window they choose among those before them.
func (w *Workload) source(i int) (int, bool) {
	stride, lane := 1, 0
	kindOf, tenant := w.kindOf(i), w.tenantOf(i)
	if k := w.kinds[kindOf]; k.System.PerUser || k.Context.PerUser {
		stride, lane = w.users, i%w.users
	}
	pos := i / stride
	from, width := 0, pos
	if pos >= repeatWindow {
		from, width = (pos/repeatWindow-1)*repeatWindow, repeatWindow
	}
	rank := w.popular.pick(w.at(i).of(drawSource).unit())
	for k := range width {
		j := (from+(rank+k)%width)*stride + lane
		if w.kindOf(j) == kindOf && w.tenantOf(j) == tenant {
			return j, true
		}
	}
	return 0, false
}
