package connect_test

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redistest"
)

func TestFilesOfTLSThatAreMissingOrWrongAreTold(t *testing.T) {
	ca, cert, key := redistest.Certificates(t)
	for want, files := range map[string]connect.TLSFiles{
		"ca_file: open /nowhere":                        {CA: "/nowhere"},
		"ca_file: " + key + " holds no certificate":     {CA: key},
		"cert_file, key_file: open /nowhere":            {Cert: "/nowhere", Key: key},
		"cert_file, key_file: tls: found a certificate": {Cert: cert, Key: ca},
		"cert_file, key_file: tls: private key does no": {Cert: ca, Key: key},
	} {
		if _, err := files.Config(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
