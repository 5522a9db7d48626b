// Package discover finds a pool's backends: by the addresses of a name, by the
// service records of a name, or in a file that others write. Start at [New].
//
// It promises that an answer is sorted, has no duplicates, has at most [MaxBackends]
// base URLs in their one spelling and at least one: whoever asks may take it as
// the pool's whole set. What to do when there is no answer is the caller's
// matter; a Source keeps no old answers alive.
package discover

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"
)

// Source answers which backends a pool has now. It is used by one goroutine.
type Source interface {
	// Find asks once: base URLs as [URL] spells them, 1 … [MaxBackends], sorted as text,
	// without duplicates; the caller may keep and change them. Nobody found is an
	// error. Those that ask DNS return within 4 s.
	Find(ctx context.Context) ([]string, error)
	// Every is the time between two questions.
	Every() time.Duration
}

// New makes a Source of one of
//
//	dns://HOST:PORT            every A and AAAA record of HOST
//	srv://_SERVICE._tcp.NAME   the SRV records of that name, target and port each
//	file:///PATH, file://PATH  a list that others keep; PATH without the leading / is
//	                           relative to the working directory
//
// A nil r is net.DefaultResolver. Nothing is asked or opened before Find, so an
// error is one of raw itself and says what it must be.
func New(raw string, r Resolver) (Source, error) {
	if r == nil {
		r = net.DefaultResolver
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case ok && scheme == "dns":
		return newAddresses(rest, r)
	case ok && scheme == "srv":
		return newServices(rest, r)
	case ok && scheme == "file":
		return newFile(rest)
	}
	return nil, errors.New("want dns://HOST:PORT, srv://_SERVICE._tcp.NAME or file:///PATH")
}

// Check tells whether New would take raw.
func Check(raw string) error {
	_, err := New(raw, nil)
	return err
}
