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

// Run prints docs/reference.md.
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
	var c cli
	var out bytes.Buffer
	parser, err := kong.New(&c, kong.Name("foregate"), kong.Writers(&out, &out), kong.Exit(func(int) {}))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, leaf := range parser.Model.Leaves(true) {
		out.Reset()
		_, _ = parser.Parse(append(strings.Fields(leaf.Path()), "--help")) // help was printed; the rest of the line does not matter
		fmt.Fprintf(&b, "### foregate %s\n\n```\n%s\n```\n\n", leaf.Path(), strings.TrimSpace(out.String()))
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}
