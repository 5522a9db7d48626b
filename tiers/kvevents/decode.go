package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tinylib/msgp/msgp"
)

// Bounds of one message; vLLM's contain the changes of one engine step, some thousand blocks at most.
const (
	maxBytes     = 8 << 20
	maxEvents    = 1 << 16
	maxHashes    = 1 << 16 // of an event
	maxBlockSize = 1 << 12 // tokens
)

// event is one change of a prefix cache. Its slices are valid until the next event is decoded.
type event struct {
	kind   kind
	hashes []uint64
	// Only for stored events:
	parent    uint64
	hasParent bool
	tokens    []int32 // blockSize for each hash
	blockSize int
	salt      string
}

// kind is the result for a message or an event, as named in the metric.
type kind uint8

const (
	kindStored  kind = iota
	kindRemoved      // blocks were evicted
	kindCleared      // the whole cache was emptied
	kindForeign      // ignored: not on the GPU, with a LoRA adapter, with images, or of an unknown kind
	kindOrphan       // stored after an unknown block
	kindFull         // stored beyond the bound
	kindGap          // messages were missed
	kindBad          // it could not be decoded
	kinds
)

var kindNames = [kinds]string{"stored", "removed", "cleared", "foreign", "orphan", "full", "gap", "bad"}

var errShape = errors.New("kvevents: not a batch of KV events")

// decode decodes one payload, [time, [event, …], rank], and calls show for every event in turn. If it fails,
// show was called for the events before the error. It supports both encodings: since v0.24 an event is a map
// with its name under "type", before it was an array that begins with its name
// (docs/guides/engines.md#kv-events).
func decode(payload []byte, ev *event, show func(*event)) error {
	if len(payload) > maxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", errShape, len(payload), maxBytes)
	}
	r := reader{b: payload}
	if n := r.array(16); n < 2 {
		r.fail()
	}
	r.float()
	n := r.array(maxEvents)
	for i := 0; i < n && r.err == nil; i++ {
		r.event(ev)
		if r.err == nil {
			show(ev)
		}
	}
	// The rank that may follow belongs to the port: the feed knows it.
	return r.err
}

// reader decodes msgpack from b. After the first error every result is empty.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errShape
	}
	r.b = nil
}

// rest continues after the bytes that a decoding function consumed.
func (r *reader) rest(b []byte, err error) {
	if err != nil {
		if r.err == nil {
			r.err = fmt.Errorf("%w: %w", errShape, err)
		}
		b = nil
	}
	r.b = b
}

// array decodes the length of an array of at most so many elements; 0 if there is none.
func (r *reader) array(maxItems int) int {
	n, b, err := msgp.ReadArrayHeaderBytes(r.b)
	r.rest(b, err)
	if r.err == nil && int64(n) > int64(maxItems) {
		r.fail()
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

func (r *reader) float() {
	if msgp.NextType(r.b) != msgp.Float64Type {
		r.int()
		return
	}
	_, b, err := msgp.ReadFloat64Bytes(r.b)
	r.rest(b, err)
}

func (r *reader) int() int64 {
	v, b, err := msgp.ReadInt64Bytes(r.b)
	r.rest(b, err)
	return v
}

func (r *reader) text() []byte {
	v, b, err := msgp.ReadStringZC(r.b)
	r.rest(b, err)
	return v
}

// null reports whether nil comes next, and skips it.
func (r *reader) null() bool {
	if r.err != nil || !msgp.IsNil(r.b) {
		return false
	}
	r.b = r.b[1:]
	return true
}

func (r *reader) skip() {
	b, err := msgp.Skip(r.b)
	r.rest(b, err)
}

// hash decodes a block's hash: a number of 64 bits, or a digest, of which the last 8 bytes are used.
func (r *reader) hash() uint64 {
	switch msgp.NextType(r.b) {
	case msgp.BinType:
		v, b, err := msgp.ReadBytesZC(r.b)
		r.rest(b, err)
		if r.err != nil || len(v) < 8 || len(v) > 64 {
			r.fail()
			return 0
		}
		return binary.BigEndian.Uint64(v[len(v)-8:])
	case msgp.IntType: // small numbers, and negative ones of publishers with signed hashes
		return uint64(r.int())
	}
	v, b, err := msgp.ReadUint64Bytes(r.b)
	r.rest(b, err)
	return v
}

func (r *reader) hashes(into []uint64) []uint64 {
	for range r.array(maxHashes) {
		into = append(into, r.hash())
		if r.err != nil {
			return into
		}
	}
	return into
}

func (r *reader) tokens(into []int32) []int32 {
	for range r.array(maxBytes) { // every token takes at least a byte
		v := r.int()
		if v < 0 || v > math.MaxInt32 {
			r.fail()
		}
		if r.err != nil {
			return into
		}
		into = append(into, int32(v))
	}
	return into
}

// The fields of events in the order of vLLM's arrays, after the name.
var (
	storedFields  = []string{"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx"}
	removedFields = []string{"block_hashes", "medium", "group_idx"}
)

// event decodes one event.
func (r *reader) event(ev *event) {
	*ev = event{hashes: ev.hashes[:0], tokens: ev.tokens[:0]}
	switch msgp.NextType(r.b) {
	case msgp.ArrayType:
		r.positional(ev)
	case msgp.MapType:
		r.named(ev)
	default:
		r.fail()
	}
	if r.err == nil && ev.kind == kindStored {
		r.check(ev)
	}
}

// check checks that a stored event is consistent.
func (r *reader) check(ev *event) {
	if ev.blockSize < 1 || ev.blockSize > maxBlockSize || len(ev.hashes) == 0 || len(ev.tokens) != len(ev.hashes)*ev.blockSize {
		r.fail()
	}
}

func (r *reader) positional(ev *event) {
	n := r.array(64) - 1
	fields := r.name(ev, r.text())
	seen := extras{}
	for i := 0; i < n && r.err == nil; i++ {
		if i < len(fields) {
			r.field(ev, &seen, fields[i])
		} else {
			r.skip()
		}
	}
	if r.err == nil && ev.kind != kindForeign && n < min(len(fields), 1) {
		r.fail()
	}
	r.judge(ev, &seen)
}

// named decodes a map. Its type may be anywhere in it, so it is searched first.
func (r *reader) named(ev *event) {
	n, b, err := msgp.ReadMapHeaderBytes(r.b)
	r.rest(b, err)
	if n > 64 {
		r.fail()
		return
	}
	look := *r
	var name []byte
	for i := uint32(0); i < n && look.err == nil && name == nil; i++ {
		if string(look.text()) == "type" {
			name = look.text()
		} else {
			look.skip()
		}
	}
	if name == nil {
		r.fail()
		return
	}
	fields := r.name(ev, name)
	seen := extras{}
	for i := uint32(0); i < n && r.err == nil; i++ {
		r.field(ev, &seen, matchField(fields, r.text()))
	}
	r.judge(ev, &seen)
}

// matchField returns the field with that name, or "".
func matchField(fields []string, name []byte) string {
	for _, f := range fields {
		if string(name) == f {
			return f
		}
	}
	return ""
}

// name sets the kind of an event and returns the fields that it has.
func (r *reader) name(ev *event, name []byte) []string {
	switch string(name) {
	case "BlockStored":
		ev.kind = kindStored
		return storedFields
	case "BlockRemoved":
		ev.kind = kindRemoved
		return removedFields
	case "AllBlocksCleared":
		ev.kind = kindCleared
		return nil
	}
	ev.kind = kindForeign // of a later version
	return nil
}

// extras are properties that may make an event foreign.
type extras struct {
	foreign bool
	keys    int  // number of blocks in extra_keys
	has     bool // extra_keys is present
	salt    string
	odd     bool // an extra key is not the first block's salt
}

// field decodes one field of an event.
func (r *reader) field(ev *event, seen *extras, name string) {
	switch name {
	case "block_hashes":
		ev.hashes = r.hashes(ev.hashes[:0])
	case "parent_block_hash":
		if ev.hasParent = !r.null(); ev.hasParent {
			ev.parent = r.hash()
		}
	case "token_ids":
		ev.tokens = r.tokens(ev.tokens[:0])
	case "block_size":
		ev.blockSize = int(min(max(r.int(), 0), maxBlockSize+1))
	case "lora_id", "lora_name":
		if !r.null() {
			seen.foreign = true
			r.skip()
		}
	case "medium":
		if !r.null() {
			other := string(r.text()) != "GPU" // must be read in any case
			seen.foreign = seen.foreign || other
		}
	case "group_idx":
		if !r.null() {
			other := r.int() != 0
			seen.foreign = seen.foreign || other
		}
	case "extra_keys":
		r.extraKeys(seen)
	default:
		r.skip()
	}
}

// extraKeys decodes what is hashed with the blocks besides their tokens: for every block nil or a list. A
// request's cache_salt is a text in the list of its first block; images and embeddings are pairs and bytes,
// in any block (generate_block_hash_extra_keys in vllm/v1/core/kv_cache_utils.py, as quoted in public copies
// of it).
func (r *reader) extraKeys(seen *extras) {
	if r.null() {
		return
	}
	seen.keys, seen.has = r.array(maxHashes), true
	for i := 0; i < seen.keys && r.err == nil; i++ {
		if r.null() {
			continue
		}
		n := r.array(maxHashes)
		if n == 1 && i == 0 && msgp.NextType(r.b) == msgp.StrType {
			seen.salt = string(r.text())
			continue
		}
		seen.odd = seen.odd || n > 0
		for j := 0; j < n && r.err == nil; j++ {
			r.skip()
		}
	}
}

// judge marks an event as foreign unless it is about plain blocks of the GPU.
func (r *reader) judge(ev *event, seen *extras) {
	if ev.kind == kindStored && seen.has && seen.keys != len(ev.hashes) {
		r.fail()
	}
	ev.salt = seen.salt
	if seen.foreign || seen.odd || seen.salt != "" && ev.hasParent {
		ev.kind = kindForeign
	}
}
