package pair

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/foregate/foregate/gateway/demo"
	"github.com/foregate/foregate/loadtest/vllmsim"
)

// dropped ends the connection of a request without an answer.
func dropped(t *testing.T, w http.ResponseWriter) {
	t.Helper()
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_ = c.Close() // that is the failure
}

func TestThePageDoesNotTellWhereEnginesRunWhenTheyFail(t *testing.T) {
	inner := []demo.Engine{simulated(t, vllmsim.Options{Model: "small", Divergence: .35}), simulated(t, vllmsim.Options{Model: "large"})}
	var outer []demo.Engine
	list := questions(2)
	for _, e := range inner {
		outer = append(outer, fronted(t, e, func(w http.ResponseWriter, r *http.Request) bool {
			switch asked := body(t, r); {
			case strings.Contains(asked, list[0].text):
				dropped(t, w)
			case strings.Contains(asked, list[1].text):
				http.Error(w, "upstream "+e.URL+" at "+r.Host+" (gpu7.example.internal:8000) failed", http.StatusBadRequest)
			default:
				return false
			}
			return true
		}))
	}
	r := measured(t, outer[0], outer[1], func(o *Options) { o.Requests = 6 })
	alone := row(t, r, wayAlone)
	if alone.Failed != 2 || alone.Failure != "EOF" || row(t, r, wayDraft).Failed != 2 || row(t, r, wayLenient).Failed == 0 {
		t.Errorf("%+v; want failures in each way, and the first one's reason", alone)
	}
	text, err := Reports{r}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{"page": Reports{r}.Markdown(), "JSON": string(text)} {
		for _, e := range append(inner, outer...) {
			u, err := url.Parse(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{u.Hostname(), u.Port(), "gpu7", "http:", "localhost"} {
				if regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(part) + `($|[^0-9])`).MatchString(page) {
					t.Errorf("the %s tells %s:\n%s", name, part, page)
				}
			}
		}
	}
}

func TestFailuresDoNotNameHosts(t *testing.T) {
	h := newHider([]string{"https://GPU7.example.org", "http://box:8000", "http://target:8000", "http://[fd00::7]:8000"}, []string{"sk-0123456789", "no"})
	for text, want := range map[string]string{
		`Post "http://10.1.2.3:8000/v1/x": EOF`:                    `Post "[address]": EOF`,
		"read tcp 10.0.0.1:4312->[fd00::7]:8000: reset":            "read tcp [address]->[address]: reset",
		"502: gpu7.example.org and lb.example.org:443 are down":    "502: [address] and [address] are down",
		"box is down, box:8000, other:8001":                        "[address] is down, [address], [address]",
		"pool target: target:80 fails; the target gave no verdict": "pool target: [address] fails; the target gave no verdict",
		"fd00::7 has no key sk-0123456789":                         "[address] has no key [address]",
		"status 400: no room for 8000 tokens of llama3:70b":        "status 400: no room for 8000 tokens of llama3:70b",
	} {
		if got := h.hide(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestErrorsOfAConnectionAreToldWithoutItsAddresses(t *testing.T) {
	at := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8000}
	post := func(err error) error { return &url.Error{Op: "Post", URL: "http://gpu7:8000/v1", Err: err} }
	for want, err := range map[string]error{
		"EOF":                              post(io.EOF),
		"read: connection reset by peer":   post(&net.OpError{Op: "read", Net: "tcp", Source: at, Addr: at, Err: os.NewSyscallError("read", syscall.ECONNRESET)}),
		"lookup of the host: no such host": post(&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "gpu7", Server: "10.0.0.2:53"}}),
		"other":                            errors.New("other"),
	} {
		if got := withoutAddress(err); got.Error() != want {
			t.Errorf("%v becomes %v, want %s", err, got, want)
		}
	}
	if err := withoutAddress(nil); err != nil {
		t.Errorf("no error becomes %v", err)
	}
}
