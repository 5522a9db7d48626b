package upload

import "fmt"

// Reason is why a body is refused, as in the metrics: a closed set.
type Reason string

// The reasons. Those with Tenant are about the tenant's own use.
const (
	TenantUploads  Reason = "tenant_uploads"  // the tenant's share of the uploads
	TenantRequests Reason = "tenant_requests" // the tenant's share of the requests in progress
	TenantBytes    Reason = "tenant_bytes"    // the tenant's share of the bytes
	Uploads        Reason = "uploads"         // all upload slots are taken
	Requests       Reason = "requests"        // all request slots are taken
	Bytes          Reason = "bytes"           // no bytes are left
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
	Limit  int64 // of the refused resource, for all tenants together
}

// Error names the tenant, the reason and the limit.
func (e *Error) Error() string {
	return fmt.Sprintf("the body of a request of tenant %s is refused: %s, the limit is %d", e.Tenant, e.Reason, e.Limit)
}
