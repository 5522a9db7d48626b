package openai

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// TestWhatIsKeptOfAStreamIsNotMemoryOfAParser runs streams side by side, under the race detector in particular: what a reader
// may keep when its stream has ended stays, and what it copies of a chunk is of its own stream.
func TestWhatIsKeptOfAStreamIsNotMemoryOfAParser(t *testing.T) {
	const streams, rounds = 8, 50
	var group sync.WaitGroup
	for i := range streams {
		group.Go(func() {
			var kept [][]int32
			var faults []*Fault
			for range rounds {
				first := fmt.Sprintf(`{"prompt_token_ids":[%d,%d],"choices":[{"index":0,"delta":{"content":"%d"},"token_ids":[%d]}]}`, i, i, i, i)
				stream := "data: " + first + "\n\ndata: " + first + "\n\ndata: {\"error\":{\"message\":\"fault " + fmt.Sprint(i) + "\"}}\n\n"
				r, p := NewEventReader(bytes.NewReader([]byte(stream)), 1<<20), BorrowChunkParser(true)
				var text []byte
				for range 3 {
					data, err := r.Next()
					if err != nil {
						t.Error(err)
						return
					}
					c, err := p.Parse(data)
					if err != nil {
						t.Error(err)
						return
					}
					text = append(text, c.Text...)
					if kept = append(kept, c.PromptIDs); c.Fault != nil {
						faults = append(faults, c.Fault)
					}
				}
				r.Release()
				p.Release()
				if want := fmt.Sprintf("%d%d", i, i); string(text) != want {
					t.Errorf("%q, want %q", text, want)
				}
			}
			for _, ids := range kept {
				if len(ids) > 0 && !slices.Equal(ids, []int32{int32(i), int32(i)}) {
					t.Errorf("stream %d: ids of the prompt %d", i, ids)
				}
			}
			for _, f := range faults {
				if want := fmt.Sprintf("fault %d", i); f.Message != want {
					t.Errorf("stream %d: %+v", i, f)
				}
			}
		})
	}
	group.Wait()
}
