package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/foregate/foregate/gateway/reference"
)

type referenceCmd struct{}

// Run prints REFERENCE.md.
func (referenceCmd) Run(e *env) error {
	commands, err := flagsText()
	if err != nil {
		return err
	}
	text, err := reference.Page(e.ctx, commands)
	if err != nil {
		return err
	}
	_, err = io.WriteString(e.stdout, text)
	return err
}

// flagsText is the help of every command.
func flagsText() (string, error) {
	var b strings.Builder
	for _, name := range []string{
		"serve", "demo", "check", "settings list", "settings get", "settings set", "settings unset", "settings log", "settings rollback", "status", "risk show", "risk export", "risk import", "risk fit", "risk maps", "risk reset", "cache stats", "cache purge", "ready", "version",
	} {
		var c cli
		var out bytes.Buffer
		parser, err := kong.New(&c, kong.Name("foregate"), kong.Writers(&out, &out), kong.Exit(func(int) {}))
		if err != nil {
			return "", err
		}
		_, _ = parser.Parse(append(strings.Fields(name), "--help")) // help was printed; the rest of the line does not matter
		fmt.Fprintf(&b, "### foregate %s\n\n```\n%s\n```\n\n", name, strings.TrimSpace(out.String()))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}
