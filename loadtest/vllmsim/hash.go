package vllmsim

// mix folds b into a and scrambles the result (a multiply-xorshift finaliser). Everything random in the simulator is a
// hash of what it depends on, so nothing depends on the order in which requests happen to arrive.
func mix(a, b uint64) uint64 {
	x := a ^ (b+0x632be59bd9b4e019)*0x9e3779b97f4a7c15
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}

// unit maps a hash to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }

// hashString folds the bytes of s into h.
func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h, uint64(len(s)))
}

// foldID folds one token id into a hash of ids: a polynomial, as prompts are long and this runs for every token of
// them. Its low bits are poor until it goes through mix.
func foldID(h uint64, id int32) uint64 { return (h + uint64(id+1)) * 0xd6e8feb86659fd93 }

// hashIDs folds token ids into h.
func hashIDs(h uint64, ids []int32) uint64 {
	for _, id := range ids {
		h = foldID(h, id)
	}
	return mix(h, uint64(len(ids)))
}
