package main

import (
	"strings"
	"testing"

	"github.com/foregate/foregate/gateway/config"
)

func TestCommandsThatReadAReplicasFileShowATokenThatMayOperate(t *testing.T) {
	ann, prom := strings.Repeat("1", 32), strings.Repeat("2", 32)
	both := secretFile(t, "prom metrics "+prom+"\nann operate "+ann+"\n")
	for name, c := range map[string]struct {
		f        replicaFlags
		want, no string // the secret, or an error
	}{
		"none":               {f: replicaFlags{}},
		"a file without":     {f: replicaFlags{file: &config.File{}}},
		"a replica's":        {f: replicaFlags{file: &config.File{AdminTokensFile: both}}, want: ann},
		"one's own wins":     {f: replicaFlags{TokenFile: secretFile(t, prom), file: &config.File{AdminTokensFile: both}}, want: prom},
		"none that operates": {f: replicaFlags{file: &config.File{AdminTokensFile: secretFile(t, "prom metrics "+prom)}}, no: "admin_tokens_file: no token has the scope operate; give --token-file, or $FOREGATE_ADMIN_TOKEN_FILE"},
		"a token alone":      {f: replicaFlags{file: &config.File{AdminTokensFile: secretFile(t, ann)}}, no: `admin_tokens_file: line 1: has 1 words; want "NAME SCOPES SECRET"`},
	} {
		secret, err := c.f.secret()
		if string(secret) != c.want || c.no == "" && err != nil || c.no != "" && (err == nil || err.Error() != c.no) {
			t.Errorf("%s: %q %v", name, secret, err)
		}
	}
}
