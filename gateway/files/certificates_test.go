package files

import (
	"crypto/tls"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/foregate/foregate/internal/certtest"
)

const day = 24 * time.Hour

func newListener(setting string) *Listener {
	return &Listener{Setting: setting, Expiry: NewExpiry(nil)}
}

func TestFilesThatNoClientWouldAcceptAreRefusedAndTheLastGoodOnesStay(t *testing.T) {
	ca := certtest.New(t)
	good, other := ca.Issue(t, certtest.Leaf{}), ca.Issue(t, certtest.Leaf{})
	expired, early := ca.Issue(t, certtest.Leaf{Starts: -2 * day, Ends: -day}), ca.Issue(t, certtest.Leaf{Starts: day, Ends: 2 * day})
	locked := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("hunter2")})
	damaged := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("hunter2")})
	l := newListener("tls")
	if err := l.Apply([][]byte{good.Cert, good.Key, ca.PEM}); err != nil {
		t.Fatal(err)
	}
	before := l.Config()
	for name, c := range map[string]struct {
		contents []string
		want     string
	}{
		"an expired certificate":        {[]string{string(expired.Cert), string(expired.Key)}, "cert_file: the certificate expired at 20"},
		"one that is not valid yet":     {[]string{string(early.Cert), string(early.Key)}, "cert_file: the certificate is not valid before 20"},
		"the key of another":            {[]string{string(good.Cert), string(other.Key)}, "key_file: is no usable key of the certificate in cert_file: private key does not match public key"},
		"no certificate":                {[]string{"hunter2", string(good.Key)}, "cert_file: holds no certificate in PEM form"},
		"an empty file":                 {[]string{"", string(good.Key)}, "cert_file: holds no certificate in PEM form"},
		"half a certificate":            {[]string{string(good.Cert) + string(good.Cert[:100]), string(good.Key)}, "cert_file: holds a PEM block that is not complete"},
		"a damaged certificate":         {[]string{string(good.Cert) + string(damaged), string(good.Key)}, "cert_file: certificate 2 cannot be parsed"},
		"the files in the wrong order":  {[]string{string(good.Key), string(good.Cert)}, "cert_file: holds no certificate in PEM form"},
		"no key":                        {[]string{string(good.Cert), "hunter2"}, "key_file: holds no private key in PEM form"},
		"a key with a password":         {[]string{string(good.Cert), string(locked)}, "key_file: the private key has a password; write it without one"},
		"no authority of clients":       {[]string{string(good.Cert), string(good.Key), "hunter2"}, "client_ca_file: holds no certificate in PEM form"},
		"a damaged authority":           {[]string{string(good.Cert), string(good.Key), string(damaged)}, "client_ca_file: certificate 1 cannot be parsed"},
		"a key in the authorities file": {[]string{string(good.Cert), string(good.Key), string(good.Key)}, "client_ca_file: holds no certificate in PEM form"},
	} {
		t.Run(name, func(t *testing.T) {
			var contents [][]byte
			for _, s := range c.contents {
				contents = append(contents, []byte(s))
			}
			err := l.Apply(contents)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if l.Config() != before {
				t.Error("the last good files are not in force any more")
			}
		})
	}
}

func TestAConfigurationAllowsTLS12AndNewerWithHTTP2(t *testing.T) {
	ca := certtest.New(t)
	pair := ca.Issue(t, certtest.Leaf{})
	l := newListener("tls")
	if err := l.Apply([][]byte{pair.Cert, pair.Key}); err != nil {
		t.Fatal(err)
	}
	if c := l.Config(); c.MinVersion != tls.VersionTLS12 || c.NextProtos[0] != "h2" || c.ClientAuth != tls.NoClientCert {
		t.Errorf("%+v", c)
	}
	if err := l.Apply([][]byte{pair.Cert, pair.Key, ca.PEM}); err != nil {
		t.Fatal(err)
	}
	if c := l.Config(); c.ClientAuth != tls.RequireAndVerifyClientCert || !c.ClientCAs.Equal(ca.Pool) {
		t.Errorf("%+v", c)
	}
}

func TestACertificateThatExpiresSoonIsToldUntilItIsReplaced(t *testing.T) {
	ca := certtest.New(t)
	soon, fresh := ca.Issue(t, certtest.Leaf{Ends: 11*day + time.Hour}), ca.Issue(t, certtest.Leaf{Ends: 90 * day})
	reg := prometheus.NewRegistry()
	e := NewExpiry(reg)
	l := &Listener{Setting: "tls", Expiry: e}
	if err := l.Apply([][]byte{soon.Cert, soon.Key}); err != nil {
		t.Fatal(err)
	}
	if w := e.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "tls: the certificate expires at ") || !strings.HasSuffix(w[0], ", in 264 h; replace its files") {
		t.Errorf("%q", w)
	}
	if got := testutil.ToFloat64(e.gauge.WithLabelValues("tls")); got != float64(l.Config().Certificates[0].Leaf.NotAfter.Unix()) {
		t.Errorf("the metric has %v", got)
	}
	if err := l.Apply([][]byte{fresh.Cert, fresh.Key}); err != nil || len(e.Warnings()) != 0 {
		t.Errorf("after its replacement: %v, %q", err, e.Warnings())
	}
	e.Set("pools.p.tls", time.Now().Add(-day))
	if w := e.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "pools.p.tls: the certificate expired at 20") {
		t.Errorf("%q", w)
	}
	e.Forget("pools.p.tls")
	if n := testutil.CollectAndCount(e.gauge); n != 1 || len(e.Warnings()) != 0 {
		t.Errorf("of one that is forgotten: %d series, %q", n, e.Warnings())
	}
}
