package accept

import "slices"

// BlockVerifier follows an answer that is drafted and checked block by block, in mode
// verify. It knows ids only. Start with the zero value and its limits, draft Want tokens
// behind IDs, have the target score them, and tell it by Take; until Finish is not "".
type BlockVerifier struct {
	Block int     // tokens drafted at a time
	Limit int     // tokens of the answer; 0 is unbounded
	EOS   []int32 // ids that end an answer; all mean the same
	Tie   Nats    // as for [CheckGreedy]

	IDs    []int32 // of the answer so far; the one that ends it is the last
	Finish string  // "stop" or "length" when it is over

	Accepted int // of IDs, those that the draft gave
	Drafted  int
	Rounds   int
}

// NextBlock is how many tokens are to be drafted next, 0 when the answer is over.
func (e *BlockVerifier) NextBlock() int {
	switch {
	case e.Finish != "":
		return 0
	case e.Limit == 0:
		return max(e.Block, 1)
	}
	return min(max(e.Block, 1), e.Limit-len(e.IDs))
}

// Choice is what the target says of one place of a block.
type Choice struct {
	TargetScore
	ID int32 // the first choice
}

// Verify takes a block of at most Want tokens, what the target says of each, and its own
// choice behind the last, −1 where that is not known. The longest beginning that the target
// would have written is kept, and then its own token. It returns how many of the block were
// kept.
func (e *BlockVerifier) Verify(block []int32, said []Choice, next int32) int {
	e.Rounds++
	e.Drafted += len(block)
	for i, id := range block {
		o := said[i].TargetScore
		if !o.chosen(e.Tie) {
			e.emit(said[i].ID)
			return i
		}
		e.Accepted++
		if e.emit(id); e.Finish != "" {
			return i + 1
		}
	}
	if next >= 0 {
		e.emit(next)
	}
	return len(block)
}

func (e *BlockVerifier) emit(id int32) {
	e.IDs = append(e.IDs, id)
	switch {
	case slices.Contains(e.EOS, id):
		e.Finish = "stop"
	case e.Limit > 0 && len(e.IDs) >= e.Limit:
		e.Finish = "length"
	}
}
