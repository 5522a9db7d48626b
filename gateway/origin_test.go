package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/identity"
)

func TestAWebPageCannotUseAListenerThatAsksNobodyWhoHeIs(t *testing.T) {
	const chat = `{"model":"llama-3","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`
	open := startBench(t, simulator(t).URL(), nil)
	port := open.url[strings.LastIndex(open.url, ":"):]
	for _, c := range []struct {
		code    string // of the refusal; "" is an answer
		headers []string
	}{
		{"", nil}, // a tool, or an SDK
		{"", []string{"Host", "localhost" + port}},
		{"", []string{"Host", "LOCALHOST"}},
		{"", []string{"Host", "127.0.0.1"}},
		{"", []string{"Host", "[::1]" + port}},
		{"", []string{"Host", "host.docker.internal" + port}},
		{"", []string{"Host", "App.LocalHost"}},
		{"", []string{"Host", "192.168.1.7" + port}}, // an address cannot be made to lead elsewhere
		{"", []string{"Host", "localhost:5173", "Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-origin"}}, // a page behind a proxy of its own, which keeps Host …
		{"", []string{"Host", "localhost:5173", "Origin", "http://localhost:5173"}},
		{"", []string{"Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-origin"}}, // … or does not
		{"strange_host", []string{"Host", "evil.example" + port}},
		{"strange_host", []string{"Host", "evil.example" + port, "Origin", "http://evil.example" + port}},
		{"strange_host", []string{"Host", "evil.example" + port, "Sec-Fetch-Site", "same-origin"}},
		{"strange_host", []string{"Host", "127.0.0.1.evil.example"}},
		{"strange_host", []string{"Host", "localhost.evil.example"}},
		{"strange_host", []string{"Host", "evilinternal"}},
		{"strange_host", []string{"Host", "internal.evil.example:80"}},
		{"cross_site", []string{"Origin", "https://evil.example"}},
		{"cross_site", []string{"Origin", "null"}},
		{"cross_site", []string{"Origin", "http://localhost:5173"}}, // another port is another page
		{"cross_site", []string{"Sec-Fetch-Site", "cross-site"}},
		{"cross_site", []string{"Origin", "http://localhost:5173", "Sec-Fetch-Site", "same-site"}},
	} {
		code, body := open.send(t, http.MethodPost, open.url+"/v1/chat/completions", chat, append(c.headers, "Content-Type", "application/json")...)
		if want := c.code == ""; (code == http.StatusOK) != want || (code == http.StatusForbidden) == want || !strings.Contains(body, c.code) {
			t.Errorf("%q: want %q, got %d %s", c.headers, c.code, code, body)
		}
		if strings.HasPrefix(c.code, "strange") {
			if code, body := open.send(t, http.MethodGet, open.url+"/v1/models", "", c.headers...); code != http.StatusForbidden {
				t.Errorf("models, %q: %d %s", c.headers, code, body)
			}
		}
	}
	who, err := identity.New(identity.Options{Mode: identity.Keys, Tenants: []identity.Tenant{{ID: "acme", KeySHA256: [][32]byte{{1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	keyed := startBench(t, simulator(t).URL(), func(o *Options) { o.Identity = who })
	if code, body := keyed.send(t, http.MethodPost, keyed.url+"/v1/chat/completions", chat, "Host", "api.example", "Origin", "https://app.example", "Content-Type", "application/json"); code != http.StatusUnauthorized {
		t.Errorf("where keys are asked for any name will do: %d %s", code, body)
	}
}

func TestNobodyChangesAnythingAtAStrangeNameOfALoopbackListener(t *testing.T) {
	f := twoPools()
	o := openOffice(t, f)
	if code, body := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100", "", "Host", "evil.example:9090"); code != http.StatusForbidden || !strings.Contains(body, "strange_host") || f.last() != "" {
		t.Errorf("%d %s, told %q", code, body, f.last())
	}
	for _, host := range []string{"localhost:9090", "127.0.0.1:9090", "[::1]:9090"} {
		if code, body := o.send(t, http.MethodPost, o.admin+"/admin/drain?backend=h100", "", "Host", host); code != http.StatusOK {
			t.Errorf("%s: %d %s", host, code, body)
		}
	}
}
