package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRedisURLsAreTakenApart(t *testing.T) {
	for raw, want := range map[string]Endpoint{
		"":                          {Kind: KindNone},
		"none":                      {Kind: KindNone},
		"embedded":                  {Kind: KindEmbedded},
		"redis://localhost:6379/0":  {Kind: KindSingle, Network: "tcp", Addrs: []string{"localhost:6379"}},
		"redis://localhost":         {Kind: KindSingle, Network: "tcp", Addrs: []string{"localhost:6379"}},
		"redis://[::1]/3":           {Kind: KindSingle, Network: "tcp", Addrs: []string{"[::1]:6379"}, DB: 3},
		"rediss://u:p%40:x@h:1":     {Kind: KindSingle, Network: "tcp", Addrs: []string{"h:1"}, TLS: true, Username: "u", Password: "p@:x"},
		"redis://:p@w@h":            {Kind: KindSingle, Network: "tcp", Addrs: []string{"h:6379"}, Password: "p@w"},
		"unix:///run/redis.sock":    {Kind: KindSingle, Network: "unix", Addrs: []string{"/run/redis.sock"}},
		"redis+cluster://a:1,b:2,c": {Kind: KindCluster, Network: "tcp", Addrs: []string{"a:1", "b:2", "c:6379"}},
		"rediss+sentinel://u:p@a,b:7/fg/2": {
			Kind: KindSentinel, Network: "tcp", Addrs: []string{"a:26379", "b:7"}, TLS: true, Username: "u", Password: "p", Master: "fg", DB: 2,
		},
	} {
		got, err := ParseRedis(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", raw, diff)
		}
	}
}

func TestBadRedisURLsAreRefusedWithoutRepeatingThem(t *testing.T) {
	for _, raw := range []string{
		"hunter2", "http://hunter2@h", "redis://", "redis://u:hunter2@", "redis://u:hunter2%@h", "redis://hunter2@h:99999", "redis://h:hunter2",
		"redis://hunter2@h/x", "redis://hunter2@h/-1", "redis://hunter2@a,b", "redis://hunter2@h?db=1", "redis://hunter2#@h", "unix://hunter2", "unix+cluster:///x",
		"redis+sentinel://hunter2@a,b", "redis+cluster://hunter2@a/3", "redis+ring://hunter2@a", "redis://h:0", "redis://hun ter2",
	} {
		got, err := ParseRedis(raw)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %+v, %v", raw, got, err)
		}
	}
}

func TestAWrongPortIsCalledOne(t *testing.T) {
	for _, raw := range []string{"redis://:pw@h:99999", "redis://h:0", "redis://h:x", "redis+cluster://a,b:-1", "redis://[::1]:99999"} {
		if _, err := ParseRedis(raw); err == nil || !strings.Contains(err.Error(), "the port is not a number of 1 … 65535") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestAnEndpointNeverPrintsItsPassword(t *testing.T) {
	e, err := ParseRedis("rediss+sentinel://u:hunter2@a,b/fg")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %q %s %#v", e, e, e, e.Password, e.Password, encoded, e.Password)
	if strings.Contains(all, "hunter2") {
		t.Errorf("it does: %s", all)
	}
	if got, want := e.String(), "sentinel a:26379,b:26379 master fg with TLS"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBackendURLsHaveOneSpelling(t *testing.T) {
	for raw, want := range map[string]string{
		"http://Host:8000/": "http://host:8000", "https://h": "https://h", "http://[::1]:8000": "http://[::1]:8000", "http://h/vllm/": "http://h/vllm",
		"": "", "h:8000": "", "ftp://h": "", "http://": "", "http://h:": "", "http://h:0": "", "http://h:70000": "", "http://u:p@h": "",
		"http://h?x": "", "http://h?": "", "http://h#": "", "http://h/v1": "", "http://h/v1/": "", "http://h/../x": "", "http:h": "", "http://h/%2e": "", "http://-h": "",
	} {
		got, err := forms["backend"](raw)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", raw, got, err)
		}
	}
}

func FuzzParseRedis(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2", "unix:///x", "redis+sentinel://a,b/m/1", "redis://[::1", "none"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := ParseRedis(raw)
		if err != nil || e.Kind == KindNone || e.Kind == KindEmbedded {
			return
		}
		if len(e.Addrs) == 0 || (e.Kind == KindSentinel && e.Master == "") || (e.Kind == KindSingle && len(e.Addrs) != 1) {
			t.Errorf("%q gave %+v", raw, e)
		}
	})
}
