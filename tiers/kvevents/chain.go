package kvevents

import "math/bits"

// Odd constants with evenly spread bits: wyhash's.
const (
	spread0 = 0xa0761d6478bd642f
	spread1 = 0xe7037ed1a0b428db
)

// fold mixes v into h.
func fold(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v^spread0, spread1)
	return hi ^ lo
}

// root begins the chain of prompts with a salt and a block size.
func root(blockSize int, salt string) uint64 {
	h := fold(spread1, uint64(blockSize))
	for i := range len(salt) {
		h = fold(h, uint64(salt[i]))
	}
	return fold(h, uint64(len(salt)))
}

// link is the hash of a block of tokens, given its parent's hash.
func link(parent uint64, ids []int32) uint64 {
	for _, id := range ids {
		parent = fold(parent, uint64(uint32(id)))
	}
	return parent
}

// Chain appends the hashes of the full blocks of a prompt's token ids to into: two prompts have as many
// hashes in common as leading blocks. Salt is the request's cache_salt. The hashes are for this process and
// must not be stored, because the next version may change them. They do not resist deliberate collisions;
// these only cost the attacker a worse backend.
func Chain(into []uint64, ids []int32, blockSize int, salt string) []uint64 {
	if blockSize < 1 {
		return into
	}
	h := root(blockSize, salt)
	for ; len(ids) >= blockSize; ids = ids[blockSize:] {
		h = link(h, ids[:blockSize])
		into = append(into, h)
	}
	return into
}
