package vllmsim

// blockPool is the KV cache: blocks of 16 tokens, a free list in eviction order, and an index of full blocks by hash.
// Block 0 is vLLM's null block and never handed out.
type blockPool struct {
	blocks []block
	byHash map[uint64]int32
	free   int
}

type block struct {
	hash       uint64 // 0 = not cached
	ref        int32
	prev, next int32 // neighbours in the free list, which runs through block 0
	// The ring of the blocks of this content, in the order in which they were published.
	older, newer int32
}

func newBlockPool(total int) *blockPool {
	p := &blockPool{blocks: make([]block, total), byHash: map[uint64]int32{}}
	for i := 1; i < total; i++ {
		p.pushBack(int32(i))
	}
	return p
}

// usable is the number of blocks that requests can hold.
func (p *blockPool) usable() int { return len(p.blocks) - 1 }

func (p *blockPool) used() int { return p.usable() - p.free }

func (p *blockPool) insert(i, prev, next int32) {
	p.blocks[i].prev, p.blocks[i].next = prev, next
	p.blocks[prev].next, p.blocks[next].prev = i, i
	p.free++
}

func (p *blockPool) pushBack(i int32)  { p.insert(i, p.blocks[0].prev, 0) }
func (p *blockPool) pushFront(i int32) { p.insert(i, 0, p.blocks[0].next) }

func (p *blockPool) unlink(i int32) {
	b := &p.blocks[i]
	p.blocks[b.prev].next, p.blocks[b.next].prev = b.next, b.prev
	p.free--
}

// take appends n fresh blocks to dst, evicting the least recently used cached ones. The caller has checked p.free.
func (p *blockPool) take(dst []int32, n int) []int32 {
	for range n {
		i := p.blocks[0].next
		p.unlink(i)
		p.forget(i)
		p.blocks[i].ref = 1
		dst = append(dst, i)
	}
	return dst
}

// match returns the longest run of cached blocks for hashes. It changes nothing; share takes them.
func (p *blockPool) match(hashes []uint64) (run []int32, idle int) {
	for _, h := range hashes {
		i, ok := p.byHash[h]
		if !ok {
			break
		}
		if p.blocks[i].ref == 0 {
			idle++
		}
		run = append(run, i)
	}
	return run, idle
}

// share takes one more reference on each block.
func (p *blockPool) share(run []int32) {
	for _, i := range run {
		if p.blocks[i].ref == 0 {
			p.unlink(i)
		}
		p.blocks[i].ref++
	}
}

// publish makes a full block findable, after those of the same content: who does not read the cache computes such
// duplicates, and they must be found when the blocks that they repeat are gone.
func (p *blockPool) publish(i int32, hash uint64) {
	b := &p.blocks[i]
	b.hash = hash
	first, ok := p.byHash[hash]
	if !ok {
		p.byHash[hash], b.older, b.newer = i, i, i
		return
	}
	last := p.blocks[first].older
	b.older, b.newer = last, first
	p.blocks[last].newer, p.blocks[first].older = i, i
}

// forget takes a block out of the index, if it is there; its oldest duplicate is found instead.
func (p *blockPool) forget(i int32) {
	b := &p.blocks[i]
	switch {
	case b.hash == 0:
		return
	case b.newer == i:
		delete(p.byHash, b.hash)
	default:
		p.blocks[b.older].newer, p.blocks[b.newer].older = b.newer, b.older
		if p.byHash[b.hash] == i {
			p.byHash[b.hash] = b.newer
		}
	}
	b.hash = 0
}

// release gives blocks back, tail first so that prefixes live longer. Uncached blocks are the first to be used again.
func (p *blockPool) release(run []int32) {
	for k := len(run) - 1; k >= 0; k-- {
		i := run[k]
		b := &p.blocks[i]
		b.ref--
		switch {
		case b.ref > 0:
		case b.hash == 0:
			p.pushFront(i)
		default:
			p.pushBack(i)
		}
	}
}
