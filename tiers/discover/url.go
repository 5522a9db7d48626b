package discover

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// MaxBackends bounds the number of backends of one result; of more, the first in order are used, the same on
// every replica.
const MaxBackends = 512

// URL returns a base URL in its canonical form: lower case, no default port, no trailing slash. It refuses
// anything that is not an http or https URL with a host, and a URL with a user, a query or a fragment.
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
