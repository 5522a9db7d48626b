package cache

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/internal/redistest"
)

func TestAGenerationThatNobodyOnAnyReplicaWantsAnyMoreIsCutOff(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader := one.Join(id)
		lead, _, _ := one.turn(t.Context(), want(t, leader, EventLead), id)
		cut := make(chan struct{})
		lead.Begin(func(error) { close(cut) })
		follower, _ := two.followsAnother(t, id)
		isFollowed(t, leader)
		departed(leader)
		select {
		case <-cut:
			t.Error("it is cut off while another replica follows")
		default:
		}
		departed(follower)
		select {
		case <-cut:
		case <-time.After(10 * time.Second):
			t.Error("it is not cut off")
		}
		lead.Fail(ErrBroken, false)
	})
}

func TestPiecesEndAtTheEndOfACharacter(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, addr string, _ *redis.Client) {
		one, two := peerAt(t, addr), peerAt(t, addr)
		id := streamed(1)
		leader, lead := one.leads(t, id)
		follower, _ := two.followsAnother(t, id)
		isFollowed(t, leader)
		text := "a" + strings.Repeat("水", pieceSize/2) // cut at any whole number of bytes, a character is
		for i := 0; i < len(text); i += 1000 {
			lead.Append([]byte(text[i:min(i+1000, len(text))]))
		}
		for len(follower.Sent()) < len(text) {
			if n := want(t, follower, EventText); !utf8.Valid(n.Text) {
				t.Fatal("half a character is told")
			}
		}
		one.kept(t, lead, id, wholeOf(text))
		want(t, follower, EventComplete)
		departed(leader, follower)
	})
}

func TestATenantHasSoManyPlacesAndOthersHaveTheirs(t *testing.T) {
	fs := NewGenerations(GenerationOptions{})
	subscribers := make([]*Subscriber, 0, maxOfTenant)
	for i := range maxOfTenant {
		id := streamed(1 + i%4)
		id.Key.tenant[0] = 1
		subscribers = append(subscribers, fs.Join(id))
	}
	id := streamed(9)
	id.Key.tenant[0] = 1
	if fs.Join(id) != nil {
		t.Error("a tenant has more places than it may have")
	}
	id.Key.tenant[0] = 2
	other := fs.Join(id)
	if other == nil {
		t.Fatal("another tenant has no place")
	}
	departed(append(subscribers, other)...)
	if len(fs.subscribers) != 0 || len(fs.all) != 0 {
		t.Errorf("%d tenants and %d generations are left", len(fs.subscribers), len(fs.all))
	}
}
