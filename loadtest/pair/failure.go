package pair

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"
)

// hidden stands in a text for an address.
const hidden = "[address]"

// minKey is the length in bytes from which a key is looked for in texts: a shorter one may be a word of them.
const minKey = 8

// addresses are what looks like an address: of the engines and the gateway, and of what an engine names in its answers.
var addresses = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\b[a-z][a-z0-9+.-]*://[^\s"'<>()\\]+`,    // a URL
	`\[[0-9a-f:.]*:[0-9a-z:.%]*\](:\d+)?`,     // IPv6
	`\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b`,        // IPv4
	`\b[a-z0-9_-]+(\.[a-z0-9_-]+)+:\d{1,5}\b`, // a name with dots, and a port
	`\b[a-z][a-z0-9_-]*:\d{4,5}\b`,            // a name without
}, "|"))

// hider takes out of a text where engines and gateways run, and the engines' keys.
type hider struct{ known []*regexp.Regexp }

// newHider hides what looks like an address, and the hosts of some URLs and some keys in any form.
func newHider(urls, keys []string) *hider {
	h := &hider{}
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		name := regexp.QuoteMeta(u.Hostname())
		switch host := u.Hostname(); {
		case strings.Contains(host, ":"): // IPv6, possibly without brackets
		case host == poolDraft || host == poolTarget: // a service of that name: alone it is a word of the texts
			name = `\b` + name + `:\d+\b`
		default:
			name = `\b` + name + `(:\d+)?\b`
		}
		h.known = append(h.known, regexp.MustCompile(`(?i)`+name))
	}
	for _, key := range keys {
		if len(key) >= minKey {
			h.known = append(h.known, regexp.MustCompile(regexp.QuoteMeta(key)))
		}
	}
	return h
}

// hide returns a text without addresses.
func (h *hider) hide(text string) string {
	text = addresses.ReplaceAllString(text, hidden)
	for _, k := range h.known {
		text = k.ReplaceAllString(text, hidden)
	}
	return text
}

// hideMissing hides addresses in the reasons of a list.
func (h *hider) hideMissing(list []Lack) {
	for i := range list {
		list[i].Reason = h.hide(list[i].Reason)
	}
}

// withoutAddress returns an error of an HTTP client without the method, the URL and the addresses of the connection.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return errors.New("the server's certificate cannot be verified") // its error tells names of hosts
	}
	if d, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New("lookup of the host: " + d.Err)
	}
	if o, ok := errors.AsType[*net.OpError](err); ok && o.Err != nil {
		text := strings.TrimPrefix(o.Err.Error(), o.Op+": ") // of a system call of that name
		return errors.New(o.Op + ": " + text)
	}
	return err
}
