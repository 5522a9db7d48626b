package compose

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
)

var engines = []string{"draft-0", "draft-1", "target-0"}

// flag is the value of a service's flag; a bare one has "".
func flag(command []string, name string) (value string, ok bool) {
	for _, arg := range command {
		if v, found := strings.CutPrefix(arg, name+"="); found {
			return v, true
		} else if arg == name {
			return "", true
		}
	}
	return "", false
}

// grace is how many seconds a container has to stop in.
func grace(s types.ServiceConfig) float64 { return time.Duration(*s.StopGracePeriod).Seconds() }

func TestRealEnginesTakeThePlaceOfSimulatedOnes(t *testing.T) {
	config := read(t, filepath.Join(root(t), "deploy/compose/foregate.yaml"))
	gpus := map[string]string{}
	for _, name := range engines {
		s, simulator := variants(t)["vLLM"].Services[name], variants(t)["simulated"].Services[name]
		if s.Build != nil || s.MemLimit != 0 || s.PidsLimit != 0 || !strings.HasPrefix(s.Image, "vllm/vllm-openai:") {
			t.Errorf("%s is still in part simulated: image %s, build %v, memory %d, processes %d", name, s.Image, s.Build, s.MemLimit, s.PidsLimit)
		}
		model, _ := flag(s.Command, "--model")
		if simulated, _ := flag(simulator.Command, "--model"); model == "" || model != simulated || !strings.Contains(config, "model: "+model+"\n") {
			t.Errorf("%s serves %q, the simulator %q, foregate.yaml expects neither", name, model, simulated)
		}
		devices := s.Deploy.Resources.Reservations.Devices[0].IDs
		want := 1
		if tp, ok := flag(s.Command, "--tensor-parallel-size"); ok {
			want, _ = strconv.Atoi(tp)
		}
		if len(devices) != want {
			t.Errorf("%s runs on %d GPUs and has %v", name, want, devices)
		}
		for _, id := range devices {
			if other, taken := gpus[id]; taken {
				t.Errorf("GPU %s is that of %s and %s", id, other, name)
			}
			gpus[id] = name
		}
	}
}

// What the gateway relies on; vllm.yml says why of each.
func TestEnginesRunWithTheFlagsThatTheGatewayNeeds(t *testing.T) {
	for _, name := range engines {
		s := variants(t)["vLLM"].Services[name]
		for flagName, want := range map[string]string{
			"--enable-prefix-caching": "", "--enable-chunked-prefill": "", "--enable-prompt-tokens-details": "",
			"--logprobs-mode": "raw_logprobs", "--max-logprobs": "20", "--scheduling-policy": "priority", "--generation-config": "vllm",
			"--allowed-media-domains": "media.invalid", // an empty list would allow all
		} {
			if got, ok := flag(s.Command, flagName); !ok || got != want {
				t.Errorf("%s runs with %s %q, want %q", name, flagName, got, want)
			}
		}
		for variable, want := range map[string]string{
			"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0", // it follows none
			"OMP_NUM_THREADS":                "1", // not one for each core of the machine, in each process
			"NCCL_DEBUG":                     "WARN",
		} {
			if got := s.Environment[variable]; got == nil || *got != want {
				t.Errorf("%s runs without %s=%s", name, variable, want)
			}
		}
		for _, flagName := range []string{"--quantization", "--kv-cache-dtype", "--speculative-config"} {
			if value, ok := flag(s.Command, flagName); ok {
				t.Errorf("%s changes the logprobs that drafts are judged by: %s %s", name, flagName, value)
			}
		}
		isHome := func(v types.ServiceVolumeConfig) bool { return v.Target == *s.Environment["HOME"] }
		if s.User != "2000:0" || !slices.ContainsFunc(s.Volumes, isHome) {
			t.Errorf("%s runs as %q, with no volume for its home", name, s.User)
		}
		tokens, _ := flag(s.Command, "--max-num-batched-tokens")
		if n, err := strconv.Atoi(tokens); err != nil || n < 4096 || n > 8192 {
			t.Errorf("%s: %s tokens in a step", name, tokens)
		}
		seqs, _ := flag(s.Command, "--max-num-seqs")
		if n, err := strconv.Atoi(seqs); err != nil || n < 16 || n > 256 {
			t.Errorf("%s: %q requests at once", name, seqs)
		}
		memory, _ := flag(s.Command, "--gpu-memory-utilization")
		if x, err := strconv.ParseFloat(memory, 64); err != nil || x < 0.85 || x > 0.92 {
			t.Errorf("%s: %s of the memory", name, memory)
		}
		drain, _ := flag(s.Command, "--shutdown-timeout")
		if n, err := strconv.ParseFloat(drain, 64); err != nil || n+5 > grace(s) {
			t.Errorf("%s finishes what runs in %s s, and is killed after %v", name, drain, s.StopGracePeriod)
		}
	}
	if n := strings.Count(read(t, filepath.Join(root(t), "deploy/compose/foregate.yaml")), "\n    scheduler: priority"); n != 2 {
		t.Errorf("%d pools are told of --scheduling-policy priority", n)
	}
}

func TestContainersAreGivenLongerThanTheirProgramsTake(t *testing.T) {
	p := variants(t)["simulated"]
	config := read(t, filepath.Join(root(t), "deploy/compose/foregate.yaml"))
	drain := regexp.MustCompile(`drain: \{delay: ([0-9]+)s, grace: ([0-9]+)s\}`).FindStringSubmatch(config)
	hard := regexp.MustCompile(`hard-stop-after ([0-9]+)s`).FindStringSubmatch(read(t, filepath.Join(root(t), "deploy/compose/haproxy.cfg")))
	if drain == nil || hard == nil {
		t.Fatal("nobody says how long they take")
	}
	seconds := func(s string) float64 { n, _ := strconv.ParseFloat(s, 64); return n }
	takes := seconds(drain[1]) + seconds(drain[2]) + 1
	for _, name := range []string{"gateway-1", "gateway-2"} {
		if got := grace(p.Services[name]); got <= takes {
			t.Errorf("%s is killed after %v s and takes %v", name, got, takes)
		}
	}
	if got := grace(p.Services["balancer"]); got <= seconds(hard[1]) || p.Services["balancer"].StopSignal != "SIGUSR1" {
		t.Errorf("the balancer is killed after %v s and takes %v", got, hard[1])
	}
}
