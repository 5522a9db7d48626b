package accept

import (
	"encoding/binary"
	"math/bits"
)

const (
	minEcho    = 64       // bytes of an answer below which it is not looked at
	echoBlock  = 16       // bytes of the prompt that are found again by one hash
	echoRun    = 32       // bytes that must be alike in a row to be a copy; shorter ones are how languages are
	echoPrompt = 64 << 10 // bytes at the end of the prompt that are looked at
	echoProbes = 8        // places where a block may lie in the table
)

// isEcho reports whether more than half of the answer's bytes are copies from the prompt:
// runs of at least 32 bytes that stand in its last 64 KiB, too. Of a phrase that the prompt
// holds more than once, the first few are known. O(answer + prompt), tables of 96 KiB
// at most.
func isEcho(answer, prompt []byte) bool {
	if len(answer) < minEcho || len(prompt) < echoRun {
		return false
	}
	known := newBlocks(prompt[max(len(prompt)-echoPrompt, 0):])
	copied, done := 0, 0 // bytes copied so far; where the last copy ended
	for i := 0; i+echoBlock <= len(answer); {
		at := known.find(answer[i : i+echoBlock])
		if at < 0 {
			i++
			continue
		}
		from, to := known.widen(answer, at, span{done, i})
		if to-from >= echoRun {
			copied += to - from
			done = to
		}
		i = max(to, i+1)
	}
	return 2*copied > len(answer)
}

// span is a half-open range of bytes.
type span struct{ from, to int }

// blocks finds the prompt's blocks, which lie side by side. A run of 31 bytes holds a
// whole one wherever it begins.
type blocks struct {
	prompt []byte
	table  []int32 // 1 + where a block begins; 0 is free
	shift  int
	marks  []uint64 // a set of bits, markBits for each slot: most text stops at it, without a look into the table (BenchmarkIsEcho)
}

// markBits is the binary logarithm of the marks for a slot.
const markBits = 4

func newBlocks(prompt []byte) blocks {
	size := max(bits.Len(uint(2*len(prompt)/echoBlock)), 4)
	b := blocks{prompt: prompt, table: make([]int32, 1<<size), shift: 64 - size, marks: make([]uint64, 1<<(size+markBits)/64)}
	for at := 0; at+echoBlock <= len(prompt); at += echoBlock {
		hash := hashBlock(prompt[at:])
		word, bit := b.mark(hash)
		*word |= bit
		slot := int(hash >> b.shift)
		for range echoProbes {
			if b.table[slot] == 0 {
				b.table[slot] = int32(at + 1)
				break
			}
			slot = (slot + 1) % len(b.table)
		}
	}
	return b
}

func hashBlock(block []byte) uint64 {
	hash := binary.LittleEndian.Uint64(block)*0x9e3779b97f4a7c15 ^ bits.RotateLeft64(binary.LittleEndian.Uint64(block[8:])*0xc2b2ae3d27d4eb4f, 31)
	return (hash ^ hash>>29) * 0x165667b19e3779f9
}

// mark is the bit of a hash, and its word.
func (b *blocks) mark(hash uint64) (word *uint64, bit uint64) {
	at := hash >> (b.shift - markBits)
	return &b.marks[at/64], 1 << (at % 64)
}

// find is where the prompt has a block, or -1.
func (b *blocks) find(block []byte) int {
	hash := hashBlock(block)
	if word, bit := b.mark(hash); *word&bit == 0 {
		return -1
	}
	slot := int(hash >> b.shift)
	for range echoProbes {
		at := int(b.table[slot]) - 1
		if at < 0 {
			return -1
		}
		if string(b.prompt[at:at+echoBlock]) == string(block) {
			return at
		}
		slot = (slot + 1) % len(b.table)
	}
	return -1
}

// widen is the run of bytes around a block at free.to that the answer and the prompt (at
// the given place) have alike, from free.from on.
func (b *blocks) widen(answer []byte, at int, free span) (from, to int) {
	from, to = free.to, free.to+echoBlock
	for k := at; from > free.from && k > 0 && answer[from-1] == b.prompt[k-1]; k-- {
		from--
	}
	for k := at + echoBlock; to < len(answer) && k < len(b.prompt) && answer[to] == b.prompt[k]; k++ {
		to++
	}
	return from, to
}
