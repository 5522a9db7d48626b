package app

import (
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway"
	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/gateway/files"
)

// makeOperators reads the operators' tokens of the admin listener, and reloads them. A replica without that
// listener has none.
func (a *App) makeOperators() error {
	if a.Options.Admin == "" || a.Options.Tokens == nil && a.Options.File.AdminTokensFile == "" {
		return nil
	}
	a.Operators = gateway.NewOperators()
	if a.Options.Tokens != nil {
		return a.Operators.Apply([][]byte{a.Options.Tokens})
	}
	return a.files.Add(adminTokensFile(a.Options.File, a.Operators.Apply))
}

// adminTokensFile is the file of the operators' tokens.
func adminTokensFile(f *config.File, apply func([][]byte) error) files.File {
	return files.File{Setting: "admin_tokens_file", Paths: []string{f.AdminTokensFile}, Max: files.MaxSecrets, Secret: true, Apply: apply}
}

// AdminTokens reads the operators' tokens once.
func AdminTokens(f *config.File) (tokens []files.Token, err error) {
	err = files.New(files.Options{Logger: zerolog.Nop()}).Add(adminTokensFile(f, func(contents [][]byte) (err error) {
		tokens, err = gateway.OperatorTokens(contents[0])
		return err
	}))
	return tokens, err
}
