package main

import (
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/operator"
	"github.com/foregate/foregate/gateway/reload"
	"github.com/foregate/foregate/gateway/secrets"
)

// makeOperators reads who may do something at the admin listener, and goes on reading it. A replica without that
// listener asks nobody.
func (r *replica) makeOperators() error {
	if r.admin == "" || r.tokens == nil && r.file.AdminTokensFile == "" {
		return nil
	}
	r.operators = operator.New(operator.Options{Redis: r.redis, Logger: r.log})
	if r.tokens != nil {
		return r.operators.Apply([][]byte{r.tokens})
	}
	return r.files.Add(adminTokensFile(r.file, r.operators.Apply))
}

// adminTokensFile is the file of the operators' tokens.
func adminTokensFile(f *config.File, apply func([][]byte) error) reload.File {
	return reload.File{Setting: "admin_tokens_file", Paths: []string{f.AdminTokensFile}, Max: secrets.MaxFile, Secret: true, Apply: apply}
}

// adminTokens reads the operators' tokens once.
func adminTokens(f *config.File) (tokens []secrets.Token, err error) {
	err = reload.New(reload.Options{Logger: zerolog.Nop()}).Add(adminTokensFile(f, func(contents [][]byte) (err error) {
		tokens, err = operator.Tokens(contents[0])
		return err
	}))
	return tokens, err
}
