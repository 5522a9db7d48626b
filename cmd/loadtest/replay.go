package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/foregate/foregate/loadtest/replay"
)

type replayCmd struct {
	Receipts string   `arg:"" help:"A file of receipts, one in a line, as GET /admin/receipts or the gateway's log has them; - is the standard input."`
	Set      []string `sep:"none" placeholder:"NAME=VALUE" help:"A setting as it would have been, NAME=VALUE or NAME@ROUTE=VALUE; may be given again."`
	JSON     bool     `name:"json" help:"Print JSON."`
}

// Run tells what other settings would have made of the requests.
func (c *replayCmd) Run(e *env) error {
	change, err := replay.Parse(c.Set)
	if err != nil {
		return misuse("--set %w", err)
	}
	var in io.Reader = os.Stdin
	if c.Receipts != "-" {
		f, err := os.Open(c.Receipts)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	list, bad, err := replay.Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Receipts, err)
	}
	for _, b := range bad {
		e.warn("loadtest: %s: %s\n", c.Receipts, b)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: there is no receipt in it", c.Receipts)
	}
	rows := replay.Compare(list, change)
	if c.JSON {
		text, err := json.MarshalIndent(map[string]any{"set": c.Set, "rows": rows, "bad_lines": bad}, "", "  ")
		if err != nil {
			return err
		}
		e.say("%s\n", text)
	} else {
		e.say("%s", replay.Text(rows))
	}
	if len(bad) > 0 {
		return errors.New("some lines hold no receipt, and are in no figure")
	}
	return nil
}
