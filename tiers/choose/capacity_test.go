package choose

import (
	"math"
	"testing"
)

// working is a candidate of 100,000 tokens that has something to do.
func working(change func(*Candidate)) Candidate {
	return with(func(c *Candidate) {
		c.Running = 1
		change(c)
	})
}

func TestRoomIsTheFirstThatApplies(t *testing.T) {
	request := Request{PromptTokens: 1000, OutputTokens: 200, MaxUsage: 0.85, HoldTokens: 1200}
	for name, tc := range map[string]struct {
		c       Candidate
		request Request
		want    fit
	}{
		"idle":                     {idle(), request, fits},
		"down":                     {with(func(c *Candidate) { c.Down = true }), request, never},
		"broken":                   {with(func(c *Candidate) { c.Broken = true }), request, never},
		"tried":                    {with(func(c *Candidate) { c.Excluded = true }), request, never},
		"cache too small":          {with(func(c *Candidate) { c.Capacity = 999 }), request, never},
		"down and suspect":         {with(func(c *Candidate) { c.Down, c.Suspect = true, true }), request, never},
		"suspect":                  {with(func(c *Candidate) { c.Suspect = true }), request, risky},
		"suspect and full":         {working(func(c *Candidate) { c.Suspect, c.Usage = true, 0.99 }), request, risky},
		"at the limit":             {working(func(c *Candidate) { c.Usage = 0.85 }), request, full},
		"no block free":            {with(func(c *Candidate) { c.Usage = 0.995 }), Request{PromptTokens: 1000}, queue},
		"the last block":           {with(func(c *Candidate) { c.Usage = 0.5 }), Request{PromptTokens: 49_985}, fits},
		"a token beyond it":        {with(func(c *Candidate) { c.Usage = 0.5 }), Request{PromptTokens: 50_001}, queue},
		"own prompts take blocks":  {with(func(c *Candidate) { c.Usage, c.OwnTokens = 0.5, 16 }), Request{PromptTokens: 49_985}, queue},
		"blocks of unknown size":   {with(func(c *Candidate) { c.Usage, c.BlockSize = 0.5, 0 }), Request{PromptTokens: 50_000}, fits},
		"capacity unknown":         {with(func(c *Candidate) { c.Capacity, c.Running, c.Usage = 0, 9, 0.84 }), request, fits},
		"capacity unknown, at it":  {with(func(c *Candidate) { c.Capacity, c.Running, c.Usage = 0, 9, 0.85 }), request, full},
		"blind and full":           {working(func(c *Candidate) { c.UsageUnknown, c.Usage, c.Capacity = true, 0.99, 0 }), request, fits},
		"blind, no block free":     {working(func(c *Candidate) { c.UsageUnknown, c.Usage = true, 0.999 }), request, queue},
		"no limit":                 {working(func(c *Candidate) { c.Usage = 0.97 }), Request{PromptTokens: 1000, HoldTokens: 99_000, MaxQueue: 1}, fits},
		"a negative prompt":        {idle(), Request{PromptTokens: -5, MaxUsage: 0.85}, fits},
		"a usage without a number": {working(func(c *Candidate) { c.Usage = math.NaN() }), Request{PromptTokens: 1000, MaxUsage: 0.85}, fits},
	} {
		if got := tc.c.fitFor(tc.request); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestABackendIsAboveALimitByUsageQueueOrWhatWillGrow(t *testing.T) {
	request := Request{PromptTokens: 1000, MaxUsage: 0.85, HoldTokens: 1000}
	queueing := Request{PromptTokens: 1000, MaxUsage: 0.85, MaxQueue: 4}
	for name, tc := range map[string]struct {
		change  func(*Candidate)
		request Request
		above   bool
		over    float64
	}{
		"below":                     {func(c *Candidate) { c.Usage = 0.5 }, request, false, 0},
		"to the limit with it":      {func(c *Candidate) { c.Usage = 0.84 }, request, false, 0},
		"beyond it by a token":      {func(c *Candidate) { c.Usage, c.OwnTokens = 0.84, 1 }, request, true, 1},
		"at it":                     {func(c *Candidate) { c.Usage = 0.85 }, request, true, 1000},
		"own tokens count":          {func(c *Candidate) { c.Usage, c.OwnTokens = 0.5, 35_000 }, request, true, 1000},
		"growth":                    {func(c *Candidate) { c.Usage, c.Growth = 0.5, 34_500 }, request, true, 500},
		"others":                    {func(c *Candidate) { c.Usage, c.OthersTokens = 0.5, 34_500 }, request, true, 500},
		"prompts half computed":     {func(c *Candidate) { c.Usage, c.OwnTokens, c.OwnPartly = 0.5, 20_000, 34_500 }, request, true, 500},
		"not twice":                 {func(c *Candidate) { c.Usage, c.OwnTokens, c.OwnPartly = 0.5, 34_000, 20_000 }, request, false, 0},
		"a shared prefix is free":   {func(c *Candidate) { c.Usage, c.Growth, c.Shared = 0.5, 34_500, 600 }, request, false, 0},
		"and no more than free":     {func(c *Candidate) { c.Usage, c.Growth, c.Shared = 0.5, 35_000, 5000 }, request, false, 0},
		"the margin up to certain":  {func(c *Candidate) { c.Usage, c.Margin = 0.5, 41_000 }, request, false, 0},
		"the margin beyond certain": {func(c *Candidate) { c.Usage, c.Margin = 0.5, 41_007 }, request, true, 7},
		"the margin of high":        {func(c *Candidate) { c.Usage, c.Margin = 0.5, 49_003 }, Request{MaxUsage: 1, HoldTokens: 1000}, true, 3},
		"only what is in use now":   {func(c *Candidate) { c.Usage, c.Growth, c.Margin = 0.84, 90_000, 90_000 }, Request{PromptTokens: 1000, MaxUsage: 0.85}, false, 0},
		"as many as may wait":       {func(c *Candidate) { c.Usage, c.Waiting = 0.5, 4 }, queueing, false, 0},
		"one more":                  {func(c *Candidate) { c.Usage, c.Waiting = 0.5, 5 }, queueing, true, 0},
		"any number may wait":       {func(c *Candidate) { c.Usage, c.Waiting = 0.5, 5000 }, request, false, 0},
		"blind":                     {func(c *Candidate) { c.Usage, c.Waiting, c.UsageUnknown, c.Growth = 0.99, 5000, true, 1e9 }, queueing, false, 0},
		"growth without a number":   {func(c *Candidate) { c.Usage, c.Growth = 0.5, math.NaN() }, request, false, 0},
		"capacity unknown":          {func(c *Candidate) { c.Usage, c.Capacity, c.Growth = 0.84, 0, 1e9 }, request, false, 0},
		"capacity unknown, at it":   {func(c *Candidate) { c.Usage, c.Capacity = 0.85, 0 }, request, true, 0},
	} {
		c := working(tc.change)
		if above, over := c.Above(tc.request), c.Over(tc.request); above != tc.above || math.Abs(over-tc.over) > 1e-6 {
			t.Errorf("%s: above %v by %v, want %v by %v", name, above, over, tc.above, tc.over)
		}
	}
}

func TestABackendWithNothingToDoTakesWhateverFitsItsCache(t *testing.T) {
	request := Request{PromptTokens: 90_000, MaxUsage: 0.5, HoldTokens: 150_000}
	for name, tc := range map[string]struct {
		change func(*Candidate)
		want   fit
	}{
		"idle":             {func(*Candidate) {}, fits},
		"one runs":         {func(c *Candidate) { c.Running = 1 }, full},
		"one waits":        {func(c *Candidate) { c.Waiting = 1 }, full},
		"one of ours":      {func(c *Candidate) { c.OwnRequests = 1 }, full},
		"it leaks":         {func(c *Candidate) { c.Usage = 0.5 }, full}, // which no forecast explains
		"it leaks a bit":   {func(c *Candidate) { c.Usage = 0.05 }, fits},
		"its cache is 1/2": {func(c *Candidate) { c.Capacity = 50_000 }, never},
	} {
		c := with(tc.change)
		if got := c.fitFor(request); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// TestTheRestAboveCertainIsForThoseWithAHigherLimit: whatever the limit, the margin ends at
// certain or at the limit, whichever is more.
func TestTheRestAboveCertainIsForThoseWithAHigherLimit(t *testing.T) {
	c := working(func(c *Candidate) { c.Usage, c.Margin = 0.7, 22_500 })
	for limit, above := range map[float64]bool{0.75: true, 0.85: true, 0.92: true, 0.93: false, 1: false} {
		if got := c.Above(Request{MaxUsage: limit, HoldTokens: 100}); got != above {
			t.Errorf("limit %v: above %v", limit, got)
		}
	}
}

func TestEveryPolicyObeysTheLimit(t *testing.T) {
	request := Request{PromptTokens: 1000, OutputTokens: 100, MaxUsage: 0.85, HoldTokens: 1100}
	tight := func(c *Candidate) { c.Usage, c.PrefillRate = 0.9, 1e6 } // attractive in all but that
	down := func(c *Candidate) { c.Down = true }
	hung := func(c *Candidate) { c.Suspect = true }
	roomy := func(c *Candidate) { c.Usage, c.Waiting, c.Running = 0.7, 20, 60 }
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		for name, tc := range map[string]struct {
			cands   []Candidate
			request Request
			want    int
		}{
			"one has room":              {[]Candidate{working(tight), working(roomy), working(tight)}, request, 1},
			"all full":                  {[]Candidate{working(tight), working(tight)}, request, -1},
			"full or down":              {[]Candidate{working(tight), working(down)}, request, -1},
			"full or suspect":           {[]Candidate{working(tight), working(hung)}, request, -1},
			"suspect or down":           {[]Candidate{working(down), working(hung)}, request, 1},
			"suspect or roomy":          {[]Candidate{working(hung), working(roomy)}, request, 1},
			"without a limit":           {[]Candidate{working(tight), working(down)}, Request{PromptTokens: 1000}, 0},
			"no reading is no fullness": {[]Candidate{working(tight), working(func(c *Candidate) { c.UsageUnknown, c.Usage = true, 0.9 })}, request, 1},
			"too many wait":             {[]Candidate{working(roomy), working(roomy)}, Request{PromptTokens: 1000, MaxUsage: 0.85, MaxQueue: 4}, -1},
		} {
			for turn := range uint64(20) {
				if got := Choose(policy, tc.cands, tc.request, turn); got != tc.want {
					t.Fatalf("%s, %s, turn %d: %d, want %d", policy, name, turn, got, tc.want)
				}
			}
		}
	}
}

func TestAWarmBackendThatIsFullIsNotHeldOnTo(t *testing.T) {
	warm := working(func(c *Candidate) { c.Usage, c.Cached, c.Main = 0.86, 4000, true })
	request := Request{PromptTokens: 4000, MaxUsage: 0.85, HoldTokens: 4200}
	if got := fitOf([]Candidate{warm, working(func(c *Candidate) { c.Usage = 0.8 })}, request); got != 1 {
		t.Errorf("got %d", got)
	}
	request.MaxUsage = 1
	if got := fitOf([]Candidate{warm, working(func(c *Candidate) { c.Usage = 0.8 })}, request); got != 0 {
		t.Errorf("with room: got %d", got)
	}
}

func TestOneThatHasJustStartedTakesEverythingWhileTheOthersAreFull(t *testing.T) {
	fresh := func(c *Candidate) { c.Ramp = 0.1 }
	tight := func(c *Candidate) { c.Usage = 0.9 }
	request := Request{PromptTokens: 1000, MaxUsage: 0.85, HoldTokens: 1100}
	for _, policy := range []string{PolicyFit, PolicyRoundRobin} {
		for turn := range uint64(100) {
			if got := Choose(policy, []Candidate{working(tight), working(fresh)}, request, turn); got != 1 {
				t.Fatalf("%s, turn %d: %d", policy, turn, got)
			}
			both := func(c *Candidate) { fresh(c); tight(c) }
			if got := Choose(policy, []Candidate{working(tight), working(both)}, request, turn); got != -1 {
				t.Fatalf("%s, turn %d: %d, though all are full", policy, turn, got)
			}
		}
	}
	n := 0
	for turn := range uint64(1000) {
		if Choose(PolicyFit, []Candidate{working(func(*Candidate) {}), working(fresh)}, request, turn) == 1 {
			n++
		}
	}
	if n == 0 || n > 150 {
		t.Errorf("%d of 1000 turns while the other has room", n)
	}
}
