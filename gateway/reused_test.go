package gateway

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTheMemoryOfABodyIsReusedOnlyAfterItsRequest sends bodies of many sizes at once, each of one letter, and
// some of them again, so that they share an answer or get a kept one. Some clients hang up. Every other answer comes in one
// piece. With the race detector, memory of a body or of such an answer is overwritten when it is given back: then whoever
// reads it too late finds other letters, or is a race.
func TestTheMemoryOfABodyIsReusedOnlyAfterItsRequest(t *testing.T) {
	up := newSpeaker(t)
	up.pieces = func(prompt string) []string {
		text := prompt[strings.LastIndex(prompt, "content:")+len("content:"):]
		text = text[:strings.IndexAny(text, " ]")]
		if letter := text[:1]; strings.Trim(text, letter) != "" {
			t.Errorf("the engine got a prompt of %d bytes with other letters than %s", len(text), letter)
		}
		return []string{"letter ", text[:1]}
	}
	b := startCached(t, up.URL, newKept(t), nil)
	var all sync.WaitGroup
	for client := range 8 {
		all.Go(func() {
			for n := range 30 {
				which := (client/2 + n) % 6 // so that clients ask the same at once, and one after the other
				letter, size := string(rune('a'+which)), []int{5 << 10, 9 << 10, 15 << 10, 40 << 10, 100 << 10, 140 << 10}[which]
				ctx, leave := context.WithCancel(t.Context())
				if hangsUp := (client+n)%5 == 0; hangsUp {
					time.AfterFunc(time.Duration(n)*100*time.Microsecond, leave)
				}
				r := b.say(ctx, question{content: strings.Repeat(letter, size), stream: n%2 == 0})
				if ctx.Err() == nil && (r.code != 200 || r.text != "letter "+letter) {
					t.Errorf("%d bytes of %s: %d %q %s", size, letter, r.code, r.text, r.message)
				}
				leave()
			}
		})
	}
	all.Wait()
	soon(t, "nothing is under way", b.idle)
}
