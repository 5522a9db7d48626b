package accept

import "slices"

// BlockVerifier follows an answer that is drafted and checked block by block (mode verify). It works on token ids only.
// Set the limits of a zero value, draft NextBlock tokens after IDs, have the target score them, and call Verify, until
// Finish is not "".
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

// NextBlock returns how many tokens to draft next, 0 when the answer is complete.
func (e *BlockVerifier) NextBlock() int {
	switch {
	case e.Finish != "":
		return 0
	case e.Limit == 0:
		return max(e.Block, 1)
	}
	return min(max(e.Block, 1), e.Limit-len(e.IDs))
}

// Choice is the target's score of one position of a block.
type Choice struct {
	TargetScore
	ID int32 // the first choice
}

// Verify takes a block of at most NextBlock tokens, the target's choice at each position, and its own choice after the
// last (−1: unknown). It keeps the longest prefix that the target would have written, and then the target's own token.
// It returns how many of the block were kept.
func (e *BlockVerifier) Verify(block []int32, result []Choice, next int32) int {
	e.Rounds++
	e.Drafted += len(block)
	for i, id := range block {
		o := result[i].TargetScore
		if !o.chosen(e.Tie) {
			e.emit(result[i].ID)
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
