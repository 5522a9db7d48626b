package vllmsim

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/tinylib/msgp/msgp"
)

// subscribe is a subscriber that shares nothing with the publisher, and what it has heard.
func subscribe(t *testing.T, endpoint, topic string) <-chan zmq4.Msg {
	t.Helper()
	sub := zmq4.NewSub(t.Context())
	if err := sub.Dial(endpoint); err != nil {
		t.Fatal(err)
	}
	if err := sub.SetOption(zmq4.OptionSubscribe, topic); err != nil {
		t.Fatal(err)
	}
	heard := make(chan zmq4.Msg, 100)
	go func() {
		for {
			m, err := sub.Recv()
			if err != nil {
				return
			}
			heard <- m
		}
	}()
	return heard
}

// listeners waits until so many subscribe.
func listeners(t *testing.T, s *Server, rank, n int) {
	t.Helper()
	stream := s.life().engines[rank].events.stream
	eventually(t, "they subscribe", func() bool {
		stream.mu.Lock()
		defer stream.mu.Unlock()
		at := 0
		for sub := range stream.subs {
			at += len(sub.topics)
		}
		return at == n
	})
}

// spell writes a message as text, with hashes by the order in which they come up and times as T.
func spell(t *testing.T, m zmq4.Msg) string {
	t.Helper()
	if len(m.Frames) != 3 {
		t.Fatalf("%d frames", len(m.Frames))
	}
	v, rest, err := msgp.ReadIntfBytes(m.Frames[2])
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d bytes left", err, len(rest))
	}
	batch := v.([]any)
	if at, ok := batch[0].(float64); !ok || at < 1.6e9 {
		t.Errorf("time %v", batch[0])
	}
	out := fmt.Sprintf("%s %d of rank %v:", m.Frames[0], binary.BigEndian.Uint64(m.Frames[1]), batch[2])
	for _, ev := range batch[1].([]any) {
		out += " " + spellEvent(ev)
	}
	return out
}

func spellEvent(ev any) string {
	fields, ok := ev.(map[string]any)
	if !ok {
		return fmt.Sprint(ev)
	}
	var parts []string
	for k, v := range fields {
		if list, ok := v.([]any); ok && k == "token_ids" {
			v = len(list)
		}
		if k == "block_hashes" {
			v = len(v.([]any))
		}
		if k == "parent_block_hash" && v != nil {
			v = "set"
		}
		parts = append(parts, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, " ") + "}"
}

func kvOptions() Options {
	return Options{TimeScale: fast, DevMode: true, KVEvents: KVEvents{Endpoint: "tcp://127.0.0.1:0", ReplayEndpoint: "tcp://127.0.0.1:0", Topic: "kv@m"}}
}

func TestAStrangerHearsWhatTheCacheGainsAndLoses(t *testing.T) {
	s := Start(t, kvOptions())
	heard, deaf := subscribe(t, s.KVEventsEndpoint(0), "kv@"), subscribe(t, s.KVEventsEndpoint(0), "other")
	listeners(t, s, 0, 2)
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":2,"cache_salt":"s"}`, idList(40)))
	expect(t, "a prompt", spell(t, <-heard), "kv@m 0 of rank 0: {block_hashes=2 block_size=16 extra_keys=[[s] <nil>] group_idx=0 lora_id=<nil> lora_name=<nil> medium=GPU parent_block_hash=<nil> token_ids=32 type=BlockStored}")
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":2,"cache_salt":"s"}`, idList(50)))
	expect(t, "what is new of a longer one", spell(t, <-heard), "kv@m 1 of rank 0: {block_hashes=1 block_size=16 extra_keys=[<nil>] group_idx=0 lora_id=<nil> lora_name=<nil> medium=GPU parent_block_hash=set token_ids=16 type=BlockStored}")
	_, got := post(t, s, "/reset_prefix_cache", "")
	expect(t, "reset", got, `{"success":true}`)
	ask(t, s, "/v1/completions", `{"prompt":"x","max_tokens":1}`)
	expect(t, "with the next step", spell(t, <-heard), "kv@m 2 of rank 0: {type=AllBlocksCleared}")
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":2,"cache_salt":"s"}`, idList(20)))
	if got := spell(t, <-heard); !strings.Contains(got, "BlockStored") {
		t.Errorf("it is stored anew: %s", got)
	}
	expect(t, "another topic", len(deaf), 0)
}

// idList is a prompt of n token ids.
func idList(n int) string {
	return strings.ReplaceAll(fmt.Sprint(ids(300, n)), " ", ",")
}

func TestTheOlderFormIsArraysAndHashesMayBeBytes(t *testing.T) {
	o := kvOptions()
	o.KVEvents.Arrays, o.KVEvents.RawHashes, o.BlocksOverride = true, true, 4
	s := Start(t, o)
	heard := subscribe(t, s.KVEventsEndpoint(0), "")
	listeners(t, s, 0, 1)
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1}`, idList(17)))
	h := hashIDs(mix(0, 0xb10c), ids(300, 16)) | 1
	digest := binary.BigEndian.AppendUint64(nil, mix(h, 0))
	digest = binary.BigEndian.AppendUint64(digest, mix(h, 1))
	digest = binary.BigEndian.AppendUint64(digest, mix(h, 2))
	digest = binary.BigEndian.AppendUint64(digest, h)
	tokens := fmt.Sprint(ids(300, 16))
	expect(t, "stored", spell(t, <-heard), fmt.Sprintf("kv@m 0 of rank 0: [BlockStored [%v] <nil> %s 16 <nil> GPU <nil> [<nil>]]", digest, tokens))
	ask(t, s, "/v1/completions", `{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33],"max_tokens":1}`)
	if got, want := spell(t, <-heard), fmt.Sprintf("kv@m 1 of rank 0: [BlockRemoved [%v] GPU] [BlockStored ", digest); !strings.HasPrefix(got, want) {
		t.Errorf("got %s\nwant %s…", got, want)
	}
}

func TestPastEventsAreReplayed(t *testing.T) {
	o := kvOptions()
	o.KVEvents.Buffer = 2
	s := Start(t, o)
	for n := range 4 {
		ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1}`, idList(17+16*n)))
	}
	dealer := zmq4.NewDealer(t.Context())
	if err := dealer.Dial(s.KVReplayEndpoint(0)); err != nil {
		t.Fatal(err)
	}
	if err := dealer.SendMulti(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, 1))); err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		m, err := dealer.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%q %s %s", m.Frames[0], m.Frames[1], hex.EncodeToString(m.Frames[2])))
		if binary.BigEndian.Uint64(m.Frames[2]) == math.MaxUint64 {
			break
		}
		spell(t, zmq4.NewMsgFrom(m.Frames[1:]...))
	}
	expect(t, "the two that are left", got, []string{`"" kv@m 0000000000000002`, `"" kv@m 0000000000000003`, `""  ffffffffffffffff`})
}

func TestEachRankPublishesOnItsOwnPort(t *testing.T) {
	o := kvOptions()
	o.DataParallelSize, o.KVEvents.ReplayEndpoint = 3, ""
	s := Start(t, o)
	var first int
	for rank := range 3 {
		_, port, err := kvPort(s.KVEventsEndpoint(rank))
		if err != nil {
			t.Fatal(err)
		}
		if rank == 0 {
			first = port
		}
		expect(t, "port", port, first+rank)
	}
	expect(t, "no others", []string{s.KVEventsEndpoint(3), s.KVEventsEndpoint(-1), s.KVReplayEndpoint(0)}, []string{"", "", ""})
	heard := subscribe(t, s.KVEventsEndpoint(2), "")
	listeners(t, s, 2, 1)
	sent(t, s, "2", fmt.Sprintf(`{"prompt":%s,"max_tokens":1}`, idList(17)))
	if got := spell(t, <-heard); !strings.HasPrefix(got, "kv@m 0 of rank 2: ") {
		t.Error(got)
	}
}

func TestARestartPublishesAnewOnTheSamePorts(t *testing.T) {
	o := kvOptions()
	s := Start(t, o)
	at := s.KVEventsEndpoint(0)
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1}`, idList(17)))
	if err := s.SetFault(Fault{Die: true, DownSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is back", func() bool { return s.State().Alive && s.State().Deaths == 1 })
	expect(t, "endpoint", s.KVEventsEndpoint(0), at)
	heard := subscribe(t, at, "")
	listeners(t, s, 0, 1)
	ask(t, s, "/v1/completions", fmt.Sprintf(`{"prompt":%s,"max_tokens":1}`, idList(17)))
	if got := spell(t, <-heard); !strings.HasPrefix(got, "kv@m 0 of rank 0: ") {
		t.Error(got)
	}
}

func TestWhoDoesNotSpeakZMTPIsHungUpOn(t *testing.T) {
	s := Start(t, kvOptions())
	for name, said := range map[string]string{"http": "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + strings.Repeat(" ", 40), "curve": "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x00CURVE" + strings.Repeat("\x00", 47),
		"a huge frame": "\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x03\x00NULL" + strings.Repeat("\x00", 48) + "\x06\x7f\xff\xff\xff\xff\xff\xff\xff"} {
		for _, at := range []string{s.KVEventsEndpoint(0), s.KVReplayEndpoint(0)} {
			c, err := net.Dial("tcp", strings.TrimPrefix(at, "tcp://"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte(said)); err != nil {
				t.Fatal(err)
			}
			n := 0
			for {
				k, err := c.Read(make([]byte, 1000))
				if n += k; err != nil {
					break
				}
			}
			if n > 200 {
				t.Errorf("%s was told %d bytes", name, n)
			}
			_ = c.Close()
		}
	}
}

func TestAnEndpointThatIsNoneIsRefused(t *testing.T) {
	const not = `vllmsim: KV events endpoint %q is not tcp://HOST:PORT`
	for _, at := range []string{"ipc:///tmp/x", "tcp://127.0.0.1", "tcp://127.0.0.1:kv", "tcp://127.0.0.1:65536"} {
		if _, err := New(Options{KVEvents: KVEvents{Endpoint: at}}); err == nil || err.Error() != fmt.Sprintf(not, at) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := New(Options{KVEvents: KVEvents{ReplayEndpoint: "tcp://127.0.0.1:0"}}); err == nil {
		t.Error("a replay of nothing")
	}
	if _, err := New(Options{KVEvents: KVEvents{HWM: -1}}); err == nil {
		t.Error("a queue of -1")
	}
}
