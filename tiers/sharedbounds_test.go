package tiers

import (
	"testing"

	"github.com/foregate/foregate/cache"
	"github.com/foregate/foregate/tiers/world"
)

func TestNoMoreThanABoundShareOneGeneration(t *testing.T) {
	inOneProcess(t, func(t *testing.T, fs *Generations) {
		subscribers := make([]*subscriber, maxSubscribers)
		for i := range subscribers {
			subscribers[i] = fs.join(streamed(1))
		}
		if fs.join(streamed(1)) != nil {
			t.Errorf("%d share it", maxSubscribers+1)
		}
		subscribers[0].Depart()
		subscribers[0] = fs.join(streamed(1))
		if subscribers[0] == nil {
			t.Error("a place that was given up is not free")
		}
		departed(subscribers...)
	})
}

func TestATenantHasSoManyPlacesAndOthersHaveTheirs(t *testing.T) {
	fs := NewGenerations(world.System{})
	subscribers := make([]*subscriber, 0, maxOfTenant)
	for i := range maxOfTenant {
		subscribers = append(subscribers, fs.join(streamed(1+i%4)))
	}
	if fs.join(streamed(9)) != nil {
		t.Error("a tenant has more places than it may have")
	}
	other := fs.join(generationID{Key: cache.KeyOf(&cache.Parts{Tenant: "globex"}), Stream: true})
	if other == nil {
		t.Fatal("another tenant has no place")
	}
	departed(append(subscribers, other)...)
	if len(fs.subscribers) != 0 || len(fs.all) != 0 {
		t.Errorf("%d tenants and %d generations are left", len(fs.subscribers), len(fs.all))
	}
}
