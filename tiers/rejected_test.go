package tiers

import (
	"strconv"
	"testing"

	"github.com/foregate/foregate/cache"
)

func TestRejectedKeysAreBoundedAndTheOldestAreForgotten(t *testing.T) {
	var r rejectedKeys
	key := func(i int) cache.Key { return cache.KeyOf(&cache.Parts{Route: strconv.Itoa(i)}) }
	if r.has(key(0)) {
		t.Error("known before it was added")
	}
	for i := range 3 * maxRejectedKeys {
		if r.add(key(i)); !r.has(key(i)) || i >= maxRejectedKeys && !r.has(key(i-maxRejectedKeys+1)) {
			t.Fatalf("key %d is forgotten", i)
		}
	}
	if r.has(key(0)) || len(r.young)+len(r.old) > 2*maxRejectedKeys {
		t.Errorf("the oldest is known; %d and %d keys", len(r.young), len(r.old))
	}
}
