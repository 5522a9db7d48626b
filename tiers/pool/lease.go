package pool

// Lease is one request's place on a backend. Done must be called always. All
// methods may be called from any goroutine.
type Lease struct{ id, url string }

// Backend is the backend's id: its host and port within [a-z0-9.-]{1,64},
// stable, and unique in the pool.
func (l *Lease) Backend() string { return l.id }

// URL is the backend's base URL without a trailing slash.
func (l *Lease) URL() string { return l.url }

// FirstToken says that the prefill has finished.
func (l *Lease) FirstToken() {}

// Refused says that no connection could be made.
func (l *Lease) Refused(err error) {}

// Done gives the place back.
func (l *Lease) Done(generated int) {}
