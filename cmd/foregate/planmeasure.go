package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/foregate/foregate/gateway/files"
	"github.com/foregate/foregate/loadtest/measure"
)

type planMeasureCmd struct {
	URL       string        `arg:"" help:"An engine that does nothing else meanwhile: vLLM, SGLang or llama.cpp."`
	GPU       string        `required:"" placeholder:"NAME" help:"What it runs on, as the price list has it: H100, or a name of your own with --prices FILE."`
	GPUs      int           `name:"gpus" default:"1" help:"GPUs of the server."`
	Precision string        `placeholder:"NAME" help:"Of the weights: bf16, fp8, awq or mxfp4."`
	KeyFile   string        `type:"path" placeholder:"FILE" help:"File with the engine's API key alone."`
	For       time.Duration `default:"2m" help:"How long, about; slow engines take longer."`
}

// Run measures an engine, and prints its profile.
func (c *planMeasureCmd) Run(e *env) error {
	if c.GPUs < 1 || c.For < time.Second || c.For > time.Hour {
		return fmt.Errorf("--gpus %d --for %s: want 1 or more GPUs, and 1s to 1h", c.GPUs, c.For)
	}
	o := measure.Options{URL: c.URL, For: c.For, Progress: func(text string) {
		_, _ = fmt.Fprintf(e.stderr, "%s …\n", text) // beside the answer
	}}
	if c.KeyFile != "" {
		data, _, err := files.Read(c.KeyFile, files.MaxSecrets)
		if err == nil {
			data, err = files.Line(data, 1)
		}
		if err != nil {
			return fmt.Errorf("--key-file: %w", err)
		}
		o.Key = string(data)
	}
	f, err := measure.Engine(e.ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", c.URL, err)
	}
	f.Name, f.GPU, f.GPUs, f.Precision = strings.ToLower(c.GPU)+"-"+f.Model+"-measured", c.GPU, c.GPUs, c.Precision
	_, err = fmt.Fprint(e.stdout, f.YAML(time.Now().UTC().Format(time.DateOnly)))
	return err
}
