// Package discover finds a pool's backends: by the addresses of a name, by the
// service records of a name, or in a file that others write. Start at [New].
//
// It promises that an answer is sorted, has no duplicates, has at most [Most]
// base URLs in their one spelling and at least one: whoever asks may take it as
// the pool's whole set. What to do when there is no answer is the caller's
// matter; a Source keeps no old answers alive.
package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Most bounds what one answer can make the gateway watch; of more, the first in
// order are taken, the same ones by every replica.
const Most = 512

const (
	lookupEvery   = 5 * time.Second
	lookupTimeout = 4 * time.Second // an answer that is later than the next question is of no use
)

// Source answers which backends a pool has now. It is used by one goroutine.
type Source interface {
	// Find asks once: base URLs as [URL] spells them, 1 … [Most], sorted as text,
	// without duplicates; the caller may keep and change them. Nobody found is an
	// error. Those that ask DNS return within 4 s.
	Find(ctx context.Context) ([]string, error)
	// Every is the time between two questions.
	Every() time.Duration
}

// Resolver answers what DNS knows of a name; net.DefaultResolver is one.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

var _ Resolver = net.DefaultResolver

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

// URL returns a base URL in its one spelling: lower case, no default port, no
// trailing slash. It refuses what is no http or https URL with a host, and one
// with a user, a query or a fragment.
func URL(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("not a URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme is %q, not http or https", u.Scheme)
	case u.Hostname() == "":
		return "", errors.New("no host")
	case u.User != nil:
		return "", errors.New("has a user name or password")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("has a query")
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return "", errors.New("has a fragment")
	}
	u.Host = strings.ToLower(u.Host)
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	u.Host = strings.TrimSuffix(strings.TrimSuffix(u.Host, port), ":")
	return strings.TrimRight(u.String(), "/"), nil
}

// tidy puts what was found in order. It changes urls.
func tidy(urls []string) []string {
	slices.Sort(urls)
	urls = slices.Compact(urls)
	return urls[:min(len(urls), Most)]
}

// portOK tells whether s is a port that can be connected to, 1 … 65535.
func portOK(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// hostOK tells whether s is an IP address or looks like a host's name; a dot may
// end it.
func hostOK(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return len(s) > 0 && len(s) <= 253 && s[0] != '-' && s[0] != '.' && !strings.Contains(s, "..") && !strings.ContainsFunc(s, notInName)
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.'
}
