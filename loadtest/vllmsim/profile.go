package vllmsim

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"
)

// Profile is what one model costs on one kind of server. The formula of a step's time, and where each number comes from, stand in
// profiles.yaml.
type Profile struct {
	Name      string `yaml:"name"`
	GPU       string `yaml:"gpu"`  // a name of GPUs in profiles.yaml
	GPUs      int    `yaml:"gpus"` // of one server
	Model     string `yaml:"model"`
	Precision string `yaml:"precision"` // of weights: awq and mxfp4 have 4 bits, fp8, bf16

	Blocks           int     `yaml:"blocks"` // num_gpu_blocks, the null block included
	MaxBatchedTokens int     `yaml:"max_num_batched_tokens"`
	MaxSeqs          int     `yaml:"max_num_seqs"`
	Base             float64 `yaml:"base"`              // seconds of each step
	PerPrefillToken  float64 `yaml:"per_prefill_token"` // seconds
	PerSeq           float64 `yaml:"per_seq"`           // seconds, of each decoding sequence
	PerKVToken       float64 `yaml:"per_kv_token"`      // seconds, of each token in the cache that is read
	LMHead           float64 `yaml:"lm_head"`           // share that a prefill token costs more when its own logprobs are wanted

	Published []string `yaml:"published"` // numbers that are fitted to published figures
	Measured  []string `yaml:"measured"`  // numbers that an engine showed; all others are rooflines
}

// BlockSize is the number of tokens in a KV block: vLLM's default on GPUs.
const BlockSize = 16

// PriceList has the dollars an hour of one GPU.
type PriceList struct {
	Name          string             `yaml:"name"`
	Date          string             `yaml:"date"` // year and month
	USDPerGPUHour map[string]float64 `yaml:"usd_per_gpu_hour"`
}

//go:embed profiles.yaml
var profilesYAML []byte

// hardware is profiles.yaml.
type hardware struct {
	GPUs      map[string]map[string]float64 `yaml:"gpus"` // figures of data sheets, by name; profiles were computed from them
	Prices    []PriceList                   `yaml:"prices"`
	Published []struct {
		Profile string               `yaml:"profile"`
		Shapes  []map[string]float64 `yaml:"shapes"` // prompt/answer tokens: output tokens a second
	} `yaml:"published"`
	Profiles []Profile `yaml:"profiles"`
}

// readHardware reads profiles.yaml once. The file is part of the program: an error in it is one that the tests find.
var readHardware = sync.OnceValues(func() (h hardware, err error) {
	d := yaml.NewDecoder(bytes.NewReader(profilesYAML))
	d.KnownFields(true)
	return h, d.Decode(&h)
})

// Prices are the price lists.
func Prices() ([]PriceList, error) {
	h, err := readHardware()
	return h.Prices, err
}

// ParsePrices reads a price list, such as usd_per_gpu_hour: {H100: 2.5}; name is the file's.
func ParsePrices(name string, text []byte) (p PriceList, err error) {
	h, err := readHardware()
	if err != nil {
		return p, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil || len(p.USDPerGPUHour) == 0 {
		return p, fmt.Errorf("%s: want usd_per_gpu_hour: {H100: 2.5}: %w", name, cmp.Or(err, errors.New("it has no prices")))
	}
	known := map[string]bool{}
	for gpu := range h.GPUs {
		known[gpu] = true
	}
	for _, own := range profiles() {
		known[own.GPU] = true
	}
	for gpu, usd := range p.USDPerGPUHour {
		if !known[gpu] {
			return p, fmt.Errorf("%s: unknown GPU %q; known: %s", name, gpu, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if !(usd > 0 && usd < 10_000) {
			return p, fmt.Errorf("%s: %s: %g dollars an hour: want a price above 0", name, gpu, usd)
		}
	}
	p.Name = cmp.Or(p.Name, name)
	return p, nil
}

// added are profiles beside those of profiles.yaml.
var added atomic.Pointer[[]Profile]

// AddProfiles makes the profiles of a file known, which has the form of profiles.yaml; name is the file's. It is for a program's
// start.
func AddProfiles(name string, text []byte) error {
	var file struct {
		Profiles []Profile `yaml:"profiles"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil || len(file.Profiles) == 0 {
		return fmt.Errorf("%s: want profiles as foregate plan measure writes them: %w", name, cmp.Or(err, errors.New("it has none")))
	}
	all := profiles()
	for i := range file.Profiles {
		p := &file.Profiles[i]
		switch {
		case p.Name == "" || p.GPU == "" || p.Model == "":
			return fmt.Errorf("%s: profile %d: want name, gpu and model", name, i+1)
		case slices.ContainsFunc(all, func(of Profile) bool { return of.Name == p.Name }):
			return fmt.Errorf("%s: there is a profile %s already", name, p.Name)
		case p.GPUs < 1 || p.Blocks < 2 || p.MaxBatchedTokens < 1 || p.MaxSeqs < 1:
			return fmt.Errorf("%s: %s: gpus, blocks, max_num_batched_tokens and max_num_seqs: want numbers above 0", name, p.Name)
		}
		for _, v := range []float64{p.Base + p.PerSeq, p.PerPrefillToken, 1 + p.PerKVToken, 1 + p.LMHead} {
			if !(v > 0 && v < 100) || p.Base < 0 || p.PerSeq < 0 {
				return fmt.Errorf("%s: %s: base, per_prefill_token, per_seq, per_kv_token and lm_head: want seconds and a share, not below 0", name, p.Name)
			}
		}
		all = append(all, *p)
	}
	h, err := readHardware()
	all = slices.Clone(all[len(h.Profiles):])
	added.Store(&all)
	return err
}

// profiles are those that are known.
func profiles() []Profile {
	h, _ := readHardware() // ProfileByName tells the error
	all := slices.Clone(h.Profiles)
	if more := added.Load(); more != nil {
		all = append(all, *more...)
	}
	return all
}

// ProfileNames returns the known profiles, in the order of the alphabet.
func ProfileNames() (names []string) {
	for _, p := range profiles() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// ProfileByName returns a profile.
func ProfileByName(name string) (Profile, error) {
	if _, err := readHardware(); err != nil {
		return Profile{}, fmt.Errorf("vllmsim: profiles.yaml: %w", err)
	}
	for _, p := range profiles() {
		if p.Name == name {
			return p, nil
		}
	}
	return Profile{}, fmt.Errorf("vllmsim: unknown profile %q; known: %s", name, strings.Join(ProfileNames(), ", "))
}

// UsualSequences are the sequences that a server decodes at a usual load.
const UsualSequences = 64

// Rates returns what a server makes with so many sequences of 600 tokens, or as many as it has seats for: prompt tokens per
// second, and tokens of answers per second.
func (p *Profile) Rates(sequences int) (prefill, decode float64) {
	seqs := min(p.MaxSeqs, sequences)
	return 1 / p.PerPrefillToken, float64(seqs) / p.stepTime(work{decoding: seqs, kvRead: 600 * seqs}).Seconds()
}

// stepTime returns how long a step with this much work takes.
func (p *Profile) stepTime(w work) time.Duration {
	s := p.Base + float64(w.prefill)*p.PerPrefillToken + float64(w.scored)*p.PerPrefillToken*p.LMHead +
		float64(w.decoding)*p.PerSeq + float64(w.kvRead)*p.PerKVToken
	return time.Duration(s * 1e9)
}

// work is what a step has to do.
type work struct{ prefill, scored, decoding, kvRead int }
