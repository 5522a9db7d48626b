package cache_test

import (
	"fmt"

	"github.com/foregate/foregate/cache"
)

// The tenant is a part of the key: the same request of two tenants never shares an answer.
func ExampleKeyOf() {
	of := func(tenant string) string {
		key := cache.KeyOf(&cache.Parts{Kind: "/v1/chat/completions", Tenant: tenant, Route: "llama-3", Request: []byte(`{"messages":[]}`)})
		return key.Name()
	}
	acme := of("acme")
	fmt.Println(acme == of("acme"), acme == of("globex"))
	// Output: true false
}
