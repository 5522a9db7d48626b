package peer

import (
	"net/netip"
	"testing"
)

func TestAClientCountsByItsAddressUnlessItSpeaksForMany(t *testing.T) {
	balancers := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8:b::/48")}
	for socket, want := range map[string]string{
		"192.0.2.1:5000":           "192.0.2.1",
		"[::ffff:192.0.2.1]:5000":  "192.0.2.1",
		"127.0.0.1:5000":           "127.0.0.1",
		"[2001:db8::1]:5000":       "2001:db8::",
		"[2001:db8::ffff:2:3]:1":   "2001:db8::",
		"[2001:db8:0:1::1]:1":      "2001:db8:0:1::",
		"[fe80::1%eth0]:1":         "fe80::",
		"10.1.2.3:5000":            "",
		"[::ffff:10.1.2.3]:5000":   "",
		"[2001:db8:b:1::1]:1":      "",
		"[2001:db8:b:1::1%eth0]:1": "",
		"10.2.2.3:5000":            "10.2.2.3",
		"pipe":                     "",
		"@":                        "",
		"":                         "",
		":80":                      "",
		"192.0.2.1":                "",
		"example.com:80":           "",
	} {
		got := Client(Address(socket), balancers)
		if want == "" && got.IsValid() || want != "" && got != netip.MustParseAddr(want) {
			t.Errorf("%q: got %v, want %q", socket, got, want)
		}
	}
}
