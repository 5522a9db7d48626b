package vllmsim

import "slices"

// tokenizerOther is the name of another vocabulary: the same pieces with other numbers.
const tokenizerOther = "other"

// wireIDs are the numbers by which tokens go over the wire: those of inside, moved on by so many and around the end, so that
// none but zero leaves any as it is. What is no token stays what it is.
type wireIDs int32

func newWireIDs(tokenizer string) wireIDs {
	if tokenizer == tokenizerOther {
		return 1009
	}
	return 0
}

// out is a token's number on the wire.
func (w wireIDs) out(id int32) int32 { return w.move(id, int32(w)) }

// in is the token of a number on the wire.
func (w wireIDs) in(id int32) int32 { return w.move(id, int32(DefaultTokenizer().Size())-int32(w)) }

func (w wireIDs) move(id, by int32) int32 {
	size := int32(DefaultTokenizer().Size())
	if w == 0 || id < 0 || id >= size {
		return id
	}
	return (id + by) % size
}

func (w wireIDs) outAll(ids []int32) []int32 { return w.all(ids, w.out) }
func (w wireIDs) inAll(ids []int32) []int32  { return w.all(ids, w.in) }

// all leaves ids alone.
func (w wireIDs) all(ids []int32, one func(int32) int32) []int32 {
	if w == 0 {
		return ids
	}
	moved := slices.Clone(ids)
	for i, id := range moved {
		moved[i] = one(id)
	}
	return moved
}

// event gives an output the wire's numbers.
func (w wireIDs) event(ev *event) {
	if w == 0 {
		return
	}
	ev.id = w.out(ev.id)
	if id, ok := ev.stop.(int32); ok {
		ev.stop = w.out(id)
	}
	if ev.lp != nil {
		w.logprob(ev.lp)
	}
}

func (w wireIDs) logprob(l *tokenLogprob) *tokenLogprob {
	l.id = w.out(l.id)
	for i := range l.top {
		l.top[i].id = w.out(l.top[i].id)
	}
	return l
}
