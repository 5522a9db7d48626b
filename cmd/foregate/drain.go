package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/foregate/foregate/gateway"
)

// backendFlags name a backend, and a replica that tells the others.
type backendFlags struct {
	Backend string `arg:"" help:"An id of foregate status, such as 10.0.0.7-8000, its host:port or its base URL."`
	Pool    string `help:"Its pool, where several pools have such a backend." placeholder:"NAME"`
	replicaFlags
}

type drainCmd struct {
	backendFlags
	For     time.Duration `help:"How long; without it until undrain." placeholder:"DURATION"`
	Because string        `help:"Why, for foregate status and the log." placeholder:"TEXT"`
}

// Run has all replicas send a backend no new requests.
func (c *drainCmd) Run(e *env) error {
	query := url.Values{}
	if c.For != 0 {
		query.Set("for", c.For.String())
	}
	if c.Because != "" {
		query.Set("why", c.Because)
	}
	return c.order(e, "/admin/drain", query)
}

type undrainCmd struct{ backendFlags }

// Run ends a drain.
func (c *undrainCmd) Run(e *env) error {
	return c.order(e, "/admin/undrain", url.Values{})
}

// order asks a replica to begin or to end a drain, and prints what it did.
func (f *backendFlags) order(e *env, path string, query url.Values) error {
	query.Set("backend", f.Backend)
	if f.Pool != "" {
		query.Set("pool", f.Pool)
	}
	var a gateway.ActionResult
	if _, err := f.ask(e, http.MethodPost, path, query, &a); err != nil {
		return err
	}
	did := "gets requests again"
	if a.Drained {
		did = "gets no new requests"
		if a.Seconds > 0 {
			did += fmt.Sprintf(" for %s", time.Duration(a.Seconds*float64(time.Second)))
		}
	}
	if a.Message != "" {
		a.Message = "\n" + a.Message
	}
	_, err := fmt.Fprintf(e.stdout, "%s of %s %s%s\n", a.Backend, a.Pool, did, a.Message)
	return err
}
