package pool

import (
	"math"
	"testing"
	"time"
)

// working is a candidate of 100,000 tokens that has something to do.
func working(change func(*candidate)) candidate {
	return with(func(c *candidate) {
		c.running = 1
		change(c)
	})
}

func TestRoomIsTheFirstThatApplies(t *testing.T) {
	request := need{prompt: 1000, output: 200, Admission: Admission{MaxUsage: 0.85}, hold: 1200}
	for name, tc := range map[string]struct {
		c       candidate
		request need
		want    fit
	}{
		"idle":                    {idle(), request, fits},
		"down":                    {with(func(c *candidate) { c.down = true }), request, never},
		"broken":                  {with(func(c *candidate) { c.broken = true }), request, never},
		"tried":                   {with(func(c *candidate) { c.excluded = true }), request, never},
		"cache too small":         {with(func(c *candidate) { c.capacity = 999 }), request, never},
		"down and suspect":        {with(func(c *candidate) { c.down, c.suspect = true, true }), request, never},
		"suspect":                 {with(func(c *candidate) { c.suspect = true }), request, risky},
		"suspect and full":        {working(func(c *candidate) { c.suspect, c.usage = true, 0.99 }), request, risky},
		"at the limit":            {working(func(c *candidate) { c.usage = 0.85 }), request, full},
		"no block free":           {with(func(c *candidate) { c.usage = 0.995 }), need{prompt: 1000}, queue},
		"the last block":          {with(func(c *candidate) { c.usage = 0.5 }), need{prompt: 49_985}, fits},
		"a token beyond it":       {with(func(c *candidate) { c.usage = 0.5 }), need{prompt: 50_001}, queue},
		"own prompts take blocks": {with(func(c *candidate) { c.usage, c.ownTokens = 0.5, 16 }), need{prompt: 49_985}, queue},
		"blocks of unknown size":  {with(func(c *candidate) { c.usage, c.blockSize = 0.5, 0 }), need{prompt: 50_000}, fits},
		"capacity unknown":        {with(func(c *candidate) { c.capacity, c.running, c.usage = 0, 9, 0.84 }), request, fits},
		"capacity unknown, at it": {with(func(c *candidate) { c.capacity, c.running, c.usage = 0, 9, 0.85 }), request, full},
		"blind and full":          {working(func(c *candidate) { c.usageUnknown, c.usage, c.capacity = true, 0.99, 0 }), request, fits},
		"blind, no block free":    {working(func(c *candidate) { c.usageUnknown, c.usage = true, 0.999 }), request, queue},
		"a slow queue":            {working(func(c *candidate) { c.waiting, c.meanPrompt, c.prefillRate = 30, 200, 4000 }), need{prompt: 1000, Admission: Admission{MaxUsage: 0.85, MaxDelay: time.Second}}, full},
		"the same, faster":        {working(func(c *candidate) { c.waiting, c.meanPrompt, c.prefillRate = 30, 200, 6000 }), need{prompt: 1000, Admission: Admission{MaxUsage: 0.85, MaxDelay: time.Second}}, fits},
		"no limit":                {working(func(c *candidate) { c.usage = 0.97 }), need{prompt: 1000, hold: 99_000, Admission: Admission{MaxQueue: 1}}, fits},
	} {
		if got := tc.c.fitFor(fitting(tc.request)); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestABackendIsAboveALimitByUsageQueueOrWhatWillGrow(t *testing.T) {
	request := need{prompt: 1000, Admission: Admission{MaxUsage: 0.85}, hold: 1000}
	queueing := need{prompt: 1000, Admission: Admission{MaxUsage: 0.85, MaxQueue: 4}}
	for name, tc := range map[string]struct {
		change  func(*candidate)
		request need
		above   bool
		over    float64
	}{
		"below":                     {func(c *candidate) { c.usage = 0.5 }, request, false, 0},
		"to the limit with it":      {func(c *candidate) { c.usage = 0.84 }, request, false, 0},
		"beyond it by a token":      {func(c *candidate) { c.usage, c.ownTokens = 0.84, 1 }, request, true, 1},
		"at it":                     {func(c *candidate) { c.usage = 0.85 }, request, true, 1000},
		"own tokens count":          {func(c *candidate) { c.usage, c.ownTokens = 0.5, 35_000 }, request, true, 1000},
		"growth":                    {func(c *candidate) { c.usage, c.growth = 0.5, 34_500 }, request, true, 500},
		"others":                    {func(c *candidate) { c.usage, c.othersTokens = 0.5, 34_500 }, request, true, 500},
		"prompts half computed":     {func(c *candidate) { c.usage, c.ownTokens, c.ownPartly = 0.5, 20_000, 34_500 }, request, true, 500},
		"not twice":                 {func(c *candidate) { c.usage, c.ownTokens, c.ownPartly = 0.5, 34_000, 20_000 }, request, false, 0},
		"a shared prefix is free":   {func(c *candidate) { c.usage, c.growth, c.shared = 0.5, 34_500, 600 }, request, false, 0},
		"and no more than free":     {func(c *candidate) { c.usage, c.growth, c.shared = 0.5, 35_000, 5000 }, request, false, 0},
		"the margin up to certain":  {func(c *candidate) { c.usage, c.margin = 0.5, 41_000 }, request, false, 0},
		"the margin beyond certain": {func(c *candidate) { c.usage, c.margin = 0.5, 41_007 }, request, true, 7},
		"the margin of high":        {func(c *candidate) { c.usage, c.margin = 0.5, 49_003 }, need{Admission: Admission{MaxUsage: 1}, hold: 1000}, true, 3},
		"only what is in use now":   {func(c *candidate) { c.usage, c.growth, c.margin = 0.84, 90_000, 90_000 }, need{prompt: 1000, Admission: Admission{MaxUsage: 0.85}}, false, 0},
		"as many as may wait":       {func(c *candidate) { c.usage, c.waiting = 0.5, 4 }, queueing, false, 0},
		"one more":                  {func(c *candidate) { c.usage, c.waiting = 0.5, 5 }, queueing, true, 0},
		"any number may wait":       {func(c *candidate) { c.usage, c.waiting = 0.5, 5000 }, request, false, 0},
		"blind":                     {func(c *candidate) { c.usage, c.waiting, c.usageUnknown, c.growth = 0.99, 5000, true, 1e9 }, queueing, false, 0},
		"capacity unknown":          {func(c *candidate) { c.usage, c.capacity, c.growth = 0.84, 0, 1e9 }, request, false, 0},
		"capacity unknown, at it":   {func(c *candidate) { c.usage, c.capacity = 0.85, 0 }, request, true, 0},
	} {
		c := working(tc.change)
		if above, over := c.above(fitting(tc.request)), c.excess(fitting(tc.request)); above != tc.above || math.Abs(over-tc.over) > 1e-6 {
			t.Errorf("%s: above %v by %v, want %v by %v", name, above, over, tc.above, tc.over)
		}
	}
}

func TestABackendWithNothingToDoTakesWhateverFitsItsCache(t *testing.T) {
	request := need{prompt: 90_000, Admission: Admission{MaxUsage: 0.5}, hold: 150_000}
	for name, tc := range map[string]struct {
		change func(*candidate)
		want   fit
	}{
		"idle":             {func(*candidate) {}, fits},
		"one runs":         {func(c *candidate) { c.running = 1 }, full},
		"one waits":        {func(c *candidate) { c.waiting = 1 }, full},
		"one of ours":      {func(c *candidate) { c.ownRequests = 1 }, full},
		"it leaks":         {func(c *candidate) { c.usage = 0.5 }, full}, // which no forecast explains
		"it leaks a bit":   {func(c *candidate) { c.usage = 0.05 }, fits},
		"its cache is 1/2": {func(c *candidate) { c.capacity = 50_000 }, never},
	} {
		c := with(tc.change)
		if got := c.fitFor(fitting(request)); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
