package kvevents

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"
)

// pack writes a value as msgpack.
func pack(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgp.AppendIntf(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type (
	obj = map[string]any
	arr = []any
)

// batch is a payload with these events.
func batch(t testing.TB, events ...any) []byte { return pack(t, arr{1.5, events, 0}) }

// stored is a BlockStored of one-token blocks, changed by some fields.
func stored(hashes []uint64, parent any, tokens []int, change obj) obj {
	ev := obj{"type": "BlockStored", "block_hashes": arr{}, "parent_block_hash": parent, "token_ids": arr{}, "block_size": 1,
		"lora_id": nil, "medium": "GPU", "lora_name": nil}
	for _, h := range hashes {
		ev["block_hashes"] = append(ev["block_hashes"].(arr), h)
	}
	for _, id := range tokens {
		ev["token_ids"] = append(ev["token_ids"].(arr), id)
	}
	for k, v := range change {
		ev[k] = v
	}
	return ev
}

func decoded(t *testing.T, payload []byte) (out []event, err error) {
	t.Helper()
	var ev event
	err = decode(payload, &ev, func(ev *event) {
		e := *ev
		e.hashes, e.tokens = append([]uint64(nil), ev.hashes...), append([]int32(nil), ev.tokens...)
		out = append(out, e)
	})
	return out, err
}

func TestBothEncodingsSayTheSame(t *testing.T) {
	digest := append(make([]byte, 24), 0, 0, 0, 0, 0, 0, 0, 7)
	want := []event{
		{hashes: []uint64{7, 1 << 63}, parent: 5, hasParent: true, tokens: []int32{1, 200, 3, 70000}, blockSize: 2},
		{hashes: []uint64{9}, tokens: []int32{4}, blockSize: 1, salt: "s"},
		{kind: kindRemoved, hashes: []uint64{7}},
		{kind: kindCleared},
		{kind: kindForeign},
	}
	for i, payload := range [][]byte{
		batch(t, obj{"block_hashes": arr{digest, uint64(1 << 63)}, "parent_block_hash": 5, "token_ids": arr{1, 200, 3, 70000}, "block_size": 2, "lora_id": nil, "medium": "GPU",
			"lora_name": nil, "extra_keys": arr{nil, nil}, "group_idx": 0, "kv_cache_spec_kind": "full", "locality": obj{"a": arr{1}}, "type": "BlockStored"},
			stored([]uint64{9}, nil, []int{4}, obj{"extra_keys": arr{arr{"s"}}}),
			obj{"type": "BlockRemoved", "block_hashes": arr{7}, "medium": "GPU"}, obj{"type": "AllBlocksCleared"}, obj{"type": "BlockBlessed", "by": arr{1}}),
		batch(t, arr{"BlockStored", arr{7, uint64(1 << 63)}, digest[24:], arr{1, 200, 3, 70000}, 2, nil, "GPU"},
			arr{"BlockStored", arr{9}, nil, arr{4}, 1, nil, "GPU", nil, arr{arr{"s"}}, nil, "full", 3},
			arr{"BlockRemoved", arr{7}}, arr{"AllBlocksCleared"}, arr{"BlockBlessed", 1, 2}),
	} {
		got, err := decoded(t, payload)
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			got[0].parent = 5 // the digest's last bytes say 7
		}
		for k := range got {
			if len(got[k].hashes) == 0 {
				got[k].hashes = nil
			}
			if len(got[k].tokens) == 0 {
				got[k].tokens = nil
			}
		}
		if d := cmp.Diff(want, got, cmp.AllowUnexported(event{})); d != "" {
			t.Errorf("encoding %d (-want +got):\n%s", i, d)
		}
	}
}

func TestWhatIsNotAboutPlainBlocksOfTheGPUIsForeign(t *testing.T) {
	for name, change := range map[string]obj{
		"a LoRA adapter":   {"lora_name": "a"},
		"one by number":    {"lora_id": 1},
		"the CPU":          {"medium": "CPU"},
		"another group":    {"group_idx": 1},
		"a picture":        {"extra_keys": arr{arr{arr{"hash", 3}}, nil}},
		"a salt too many":  {"extra_keys": arr{arr{"s", "t"}, nil}},
		"one that is late": {"extra_keys": arr{nil, arr{"s"}}},
		"one in between":   {"extra_keys": arr{arr{"s"}, nil}, "parent_block_hash": 1},
	} {
		got, err := decoded(t, batch(t, stored([]uint64{1, 2}, nil, []int{1, 2}, change)))
		if err != nil || len(got) != 1 || got[0].kind != kindForeign {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestWhatIsNotWellFormedIsRefused(t *testing.T) {
	for name, payload := range map[string][]byte{
		"nothing":          {},
		"a text":           pack(t, "events"),
		"no events":        pack(t, arr{1.5}),
		"no event":         batch(t, 7),
		"no name":          batch(t, obj{"block_hashes": arr{1}}),
		"an empty array":   batch(t, arr{}),
		"too few tokens":   batch(t, stored([]uint64{1, 2}, nil, []int{1}, nil)),
		"no block size":    batch(t, stored([]uint64{1}, nil, []int{1}, obj{"block_size": 0})),
		"a huge one":       batch(t, stored([]uint64{1}, nil, []int{1}, obj{"block_size": 1 << 40})),
		"a negative token": batch(t, stored([]uint64{1}, nil, []int{-1}, nil)),
		"a short digest":   batch(t, stored([]uint64{1}, nil, []int{1}, obj{"block_hashes": arr{[]byte{1}}})),
		"half the keys":    batch(t, stored([]uint64{1, 2}, nil, []int{1, 2}, obj{"extra_keys": arr{nil}})),
		"a text of hashes": batch(t, stored([]uint64{1}, nil, []int{1}, obj{"block_hashes": "1"})),
		"a lying length":   {0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"one within":       {0x93, 1, 0xdd, 0, 0, 0xff, 0xff, 0x92, 0xa1, 'x', 0xdd, 0xff, 0xff, 0xff, 0xff},
	} {
		if got, err := decoded(t, payload); !errors.Is(err, errShape) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := decoded(t, make([]byte, maxBytes+1)); !errors.Is(err, errShape) {
		t.Error("9 MB:", err)
	}
	deep := append([]byte{0x92, 1, 0x91, 0x92, 0xa1, 'x'}, make([]byte, 1<<20)...)
	for i := 6; i < len(deep); i++ {
		deep[i] = 0x91
	}
	if _, err := decoded(t, deep); !errors.Is(err, errShape) {
		t.Error("a million arrays within each other:", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(batch(f, stored([]uint64{1, 2}, nil, []int{1, 2}, obj{"extra_keys": arr{arr{"s"}, nil}}), obj{"type": "BlockRemoved", "block_hashes": arr{1}, "medium": "GPU"}))
	f.Add(batch(f, arr{"BlockStored", arr{7, []byte("12345678")}, 3, arr{1, 200}, 1, nil, "GPU", nil, nil, 0}, arr{"AllBlocksCleared"}))
	f.Add([]byte{0x93, 1, 0xdd, 0, 0, 0xff, 0xff, 0x92, 0xa1, 'x', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		x := New(Options{MaxBlocks: 8})
		b, fd := x.join("b")
		var ev event
		err := decode(payload, &ev, func(ev *event) {
			if ev.kind == kindStored && len(ev.tokens) != len(ev.hashes)*ev.blockSize {
				t.Fatalf("%d tokens of %d blocks of %d", len(ev.tokens), len(ev.hashes), ev.blockSize)
			}
			x.apply(b, fd, ev)
		})
		if err != nil && !errors.Is(err, errShape) {
			t.Fatal(err)
		}
		if b.blocks != len(fd.chains) || b.blocks > 8 || len(fd.present) > b.blocks {
			t.Fatalf("%d blocks, %d hashes, %d of our own", b.blocks, len(fd.chains), len(fd.present))
		}
	})
}
