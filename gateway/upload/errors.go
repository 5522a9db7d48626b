package upload

import "fmt"

// Reason is why a body is refused, as metrics name it: a closed set.
type Reason string

// The reasons. Those of the tenant are about what it holds itself.
const (
	TenantUploads  Reason = "tenant_uploads"  // the tenant's share of the uploads
	TenantRequests Reason = "tenant_requests" // the tenant's share of the requests under way
	TenantBytes    Reason = "tenant_bytes"    // the tenant's share of the bytes
	Uploads        Reason = "uploads"         // all uploads are taken
	Requests       Reason = "requests"        // all requests under way are taken
	Bytes          Reason = "bytes"           // the bytes are spent
)

var reasons = []Reason{TenantUploads, TenantRequests, TenantBytes, Uploads, Requests, Bytes}

// OfTenant reports whether the tenant itself holds too much.
func (r Reason) OfTenant() bool {
	return r == TenantUploads || r == TenantRequests || r == TenantBytes
}

// Error is a refusal.
type Error struct {
	Tenant string
	Reason Reason
	Limit  int64 // of what is refused, for all tenants together
}

// Error tells the tenant, the reason and the limit.
func (e *Error) Error() string {
	return fmt.Sprintf("the body of a request of tenant %s is refused: %s, the limit is %d", e.Tenant, e.Reason, e.Limit)
}
