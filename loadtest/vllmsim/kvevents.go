package vllmsim

import (
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// KVEvents say what of the prefix cache is published, as vLLM's --kv-events-config does (vllm/config/kv_events.py,
// vllm/distributed/kv_events.py). It needs a server
// that Start has started.
type KVEvents struct {
	Endpoint       string // where each engine's events are published, such as "tcp://127.0.0.1:5557"; rank r has port + r; "" publishes none
	ReplayEndpoint string // where past ones are asked for; "" has none
	Topic          string // what every message begins with
	Arrays         bool   // events are positional arrays, as before v0.24
	RawHashes      bool   // VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0: hashes are 32 bytes, not 64-bit numbers
	HWM            int    // messages that wait for a slow subscriber before it misses some; default 100000
	Buffer         int    // messages that can be replayed; default 10000
}

// kvPort splits an endpoint. Port 0 is any free one.
func kvPort(endpoint string) (host string, port int, err error) {
	addr, ok := strings.CutPrefix(endpoint, "tcp://")
	if !ok {
		return "", 0, fmt.Errorf("vllmsim: KV events endpoint %q is not tcp://HOST:PORT", endpoint)
	}
	host, text, err := net.SplitHostPort(addr)
	if host == "*" {
		host = ""
	}
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("vllmsim: KV events endpoint %q is not tcp://HOST:PORT", endpoint)
	}
	return host, port, nil
}

func (k *KVEvents) validate() error {
	if k.HWM < 1 || k.Buffer < 1 {
		return fmt.Errorf("vllmsim: KV events wait in queues of %d and %d: both must be positive", k.HWM, k.Buffer)
	}
	if k.Endpoint == "" && k.ReplayEndpoint != "" {
		return fmt.Errorf("vllmsim: KV events that are not published cannot be replayed at %q", k.ReplayEndpoint)
	}
	for _, endpoint := range []string{k.Endpoint, k.ReplayEndpoint} {
		if endpoint == "" {
			continue
		}
		if _, _, err := kvPort(endpoint); err != nil {
			return err
		}
	}
	return nil
}

// kvEvents writes what an engine's prefix cache gains and loses, and publishes it once per step. It is under the engine's
// lock.
type kvEvents struct {
	form   *KVEvents
	rank   int
	wire   wireIDs
	stream *kvStream
	buf    []byte // the events since the last step
	n      uint32
}

func newKVEvents(form *KVEvents, rank int) *kvEvents {
	return &kvEvents{form: form, rank: rank, stream: &kvStream{topic: form.Topic, hwm: form.HWM, keep: form.Buffer, subs: map[*kvSub]bool{}}}
}

// publish sends what has come together, if anything has: [time, [events], rank].
func (k *kvEvents) publish() {
	if k == nil || k.n == 0 {
		return
	}
	p := msgp.AppendArrayHeader(nil, 3)
	p = msgp.AppendFloat64(p, float64(time.Now().UnixNano())/1e9)
	p = msgp.AppendArrayHeader(p, k.n)
	p = append(p, k.buf...)
	p = msgp.AppendInt(p, k.rank)
	k.buf, k.n = k.buf[:0], 0
	k.stream.publish(p)
}

// open begins an event of so many fields.
func (k *kvEvents) open(name string, fields uint32) {
	k.n++
	if k.form.Arrays {
		k.buf = msgp.AppendArrayHeader(k.buf, 1+fields)
	} else {
		k.buf = msgp.AppendMapHeader(k.buf, 1+fields)
		k.buf = msgp.AppendString(k.buf, "type")
	}
	k.buf = msgp.AppendString(k.buf, name)
}

// field begins the next one; an array knows it by its place.
func (k *kvEvents) field(name string) {
	if !k.form.Arrays {
		k.buf = msgp.AppendString(k.buf, name)
	}
}

func (k *kvEvents) hash(h uint64) {
	if !k.form.RawHashes {
		k.buf = msgp.AppendUint64(k.buf, h)
		return
	}
	var digest [32]byte // whose last 8 bytes are the number that it would be otherwise
	for i := range 3 {
		binary.BigEndian.PutUint64(digest[i*8:], mix(h, uint64(i)))
	}
	binary.BigEndian.PutUint64(digest[24:], h)
	k.buf = msgp.AppendBytes(k.buf, digest[:])
}

// stored implements cacheWatch. The fields are in the order of vLLM's arrays; those with defaults come last, and in a map
// the group stands for them.
func (k *kvEvents) stored(q *Seq, from, to int) {
	fields := uint32(8)
	if !k.form.Arrays {
		fields++
	}
	k.open("BlockStored", fields)
	k.field("block_hashes")
	k.buf = msgp.AppendArrayHeader(k.buf, uint32(to-from))
	for _, h := range q.hashes[from:to] {
		k.hash(h)
	}
	k.field("parent_block_hash")
	if from == 0 {
		k.buf = msgp.AppendNil(k.buf)
	} else {
		k.hash(q.hashes[from-1])
	}
	k.field("token_ids")
	k.buf = msgp.AppendArrayHeader(k.buf, uint32((to-from)*BlockSize))
	for _, id := range q.ids[from*BlockSize : to*BlockSize] {
		k.buf = msgp.AppendInt32(k.buf, k.wire.out(id))
	}
	k.field("block_size")
	k.buf = msgp.AppendInt(k.buf, BlockSize)
	k.field("lora_id")
	k.buf = msgp.AppendNil(k.buf)
	k.field("medium")
	k.buf = msgp.AppendString(k.buf, "GPU")
	k.field("lora_name")
	k.buf = msgp.AppendNil(k.buf)
	k.field("extra_keys")
	k.extraKeys(q, from, to)
	k.group()
}

// extraKeys are what goes into a block's hash beside its tokens: the salt, into that of the first block alone.
func (k *kvEvents) extraKeys(q *Seq, from, to int) {
	k.buf = msgp.AppendArrayHeader(k.buf, uint32(to-from))
	for i := from; i < to; i++ {
		if i > 0 || q.SaltText == "" {
			k.buf = msgp.AppendNil(k.buf)
			continue
		}
		k.buf = msgp.AppendArrayHeader(k.buf, 1)
		k.buf = msgp.AppendString(k.buf, q.SaltText)
	}
}

// group tells which KV cache group it was. Arrays are older than groups.
func (k *kvEvents) group() {
	if !k.form.Arrays {
		k.field("group_idx")
		k.buf = msgp.AppendInt(k.buf, 0)
	}
}

// removed implements cacheWatch.
func (k *kvEvents) removed(hash uint64) {
	fields := uint32(2)
	if !k.form.Arrays {
		fields++
	}
	k.open("BlockRemoved", fields)
	k.field("block_hashes")
	k.buf = msgp.AppendArrayHeader(k.buf, 1)
	k.hash(hash)
	k.field("medium")
	k.buf = msgp.AppendString(k.buf, "GPU")
	k.group()
}

// cleared implements cacheWatch. As every event, it goes out with the next step.
func (k *kvEvents) cleared() { k.open("AllBlocksCleared", 0) }
